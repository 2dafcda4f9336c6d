"""Clusters of words that a text uses alike, and vectors of words."""
