"""What everything stands on and what knows nothing of language models: errors, options, registries, files."""
