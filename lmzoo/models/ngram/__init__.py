"""n-gram models: counts, smoothing, backing off, and the ARPA format."""
