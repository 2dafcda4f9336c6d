"""The folder of one run: what it was told, what it has learnt, what came out of it."""
