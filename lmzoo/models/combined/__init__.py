"""Models that combine trained models."""
