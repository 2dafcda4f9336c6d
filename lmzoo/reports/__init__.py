"""What is told of runs: tables that compare them, plots, maps of word vectors, TensorBoard."""
