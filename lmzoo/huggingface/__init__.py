"""Hugging Face, both ways: models of the zoo for transformers, and causal transformers beside the zoo."""
