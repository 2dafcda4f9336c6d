"""What the commands share: their arguments, how they end, and Hydra, from which the train command has its options."""
