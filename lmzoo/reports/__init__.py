"""Reports of runs: comparison tables, plots, maps of word vectors, TensorBoard."""
