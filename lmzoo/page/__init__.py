"""The page of ``lmzoo demo``, on which one plays with trained runs: what it shows, how it looks, and its server."""
