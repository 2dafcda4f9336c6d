"""Documents ranked for queries by the likelihood of the query: formats, words, index, smoothing, measures."""
