"""The machine that every language model is, and what can be done with any: measure it, draw from it, encode with it."""
