"""Training: estimation, gradient descent, and the session that makes a run of them."""
