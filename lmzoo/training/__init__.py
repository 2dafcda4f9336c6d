"""Setting a model's numbers: estimation, gradient descent, and the session that makes a run of them."""
