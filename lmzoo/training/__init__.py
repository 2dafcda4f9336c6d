"""Training: estimation, gradient descent, and the session of a run."""
