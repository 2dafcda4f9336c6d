"""Hidden Markov models: with tables, with neural tables, and with very many states."""
