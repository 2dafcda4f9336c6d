"""The commands: ``lmzoo NAME`` calls ``main`` of the module NAME here. Nothing is imported, since they take long."""

COMMANDS = {
    "train": "Train a language model and measure its perplexity",
    "vectors": "Learn word vectors",
    "label": "Learn to label words, texts or trees",
    "cluster": "Group words into classes by their neighbours (Brown clusters)",
    "evaluate": "Measure the perplexity of a trained model on a text",
    "compare": "Compare runs in a table, and two of them token by token",
    "score": "Print the log-probability of each word or sentence of a text",
    "pairs": "Measure how often a model prefers the grammatical sentence of a minimal pair",
    "rerank": "Order the hypotheses of n-best lists by a language model",
    "retrieve": "Rank documents by the likelihood of a query",
    "generate": "Generate text",
    "tag": "Label a text with a trained model",
    "embed": "Print vectors of words or sentences in their context",
    "probe": "Measure word vectors: similarity, analogies, neighbours",
    "map": "Draw word vectors on a plane",
    "inspect": "Show the states of a hidden Markov model",
    "transitions": "Show the dynamics of a linear dynamical system",
    "export_arpa": "Write an n-gram model as an ARPA file",
}
"""What each command does, in the order in which ``lmzoo`` lists them."""
