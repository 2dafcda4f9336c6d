"""Reports of runs: tables that compare them, plots, cards, maps of word vectors, TensorBoard."""
