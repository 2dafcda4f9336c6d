"""The base of the package, independent of language models: errors, options, registries, files."""
