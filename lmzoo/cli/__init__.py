"""The base of the commands: arguments, exit codes, and Hydra, which reads the options of runs."""
