"""The folder of one run: its configuration, its weights, its results, and the ways to read and write them."""
