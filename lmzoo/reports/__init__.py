"""Reports of runs: comparison tables, plots, model cards, maps of word vectors, TensorBoard."""
