"""Models made of trained models."""
