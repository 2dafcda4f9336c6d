"""The run directory: configuration, weights, results, and their input and output."""
