"""Clusters of words that a text uses alike."""
