"""What the commands share: their arguments, the way they end, and Hydra, which reads the train command's options."""
