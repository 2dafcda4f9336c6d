"""Maximum-entropy models: exponential, exactly normalised, of indicator features."""
