"""What a text tells of its words: clusters of words that are used alike."""
