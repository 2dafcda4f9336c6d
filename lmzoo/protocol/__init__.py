"""The interface of language models, and operations on any of them: perplexity, sampling, encoding."""
