"""Hidden Markov models: dense ones with tables or networks, and block-sparse ones with very many states."""
