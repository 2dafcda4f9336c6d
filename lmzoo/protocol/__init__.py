"""The interface of every language model, and what works with all of them: perplexity, sampling, encoding."""
