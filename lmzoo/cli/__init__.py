"""The base of the commands: names, arguments, exit codes, and Hydra, which reads the options of runs."""

COMMANDS = {
    "train": "Train a language model and measure its perplexity",
    "vectors": "Learn word vectors, by skip-gram, CBOW, fastText, GloVe, LSA or PPMI",
    "label": "Train and evaluate a tagger, or a classifier of texts or trees",
    "cluster": "Group the words of a text into Brown clusters",
    "check": "Check that a model, such as a plug-in, conforms to the protocol",
    "evaluate": "Measure the perplexity of a language model on a text",
    "compare": "Compare runs in a table, or two language models word by word",
    "score": "Print log p of each word or sentence of a text under a language model",
    "pairs": "Measure how often a language model prefers the grammatical sentence of a minimal pair",
    "reading": "Measure how well surprisal predicts human reading times",
    "rerank": "Rerank the hypotheses of n-best lists with a language model",
    "retrieve": "Rank documents by the likelihood of a query under their language models",
    "generate": "Generate text from a language model, by sampling or beam search",
    "ask": "Compute the exact probability of a pattern of words under a hidden Markov model",
    "fill": "Fill the gaps of a sentence with a hidden Markov model, exactly",
    "tag": "Label a text with a trained tagger or classifier",
    "embed": "Write contextual embeddings of the words of a text",
    "probe": "Measure word vectors by similarity and analogy, or list nearest neighbours",
    "map": "Plot word vectors in two dimensions by t-SNE",
    "inspect": "Show the states of a hidden Markov model, or the dynamics of a linear dynamical system",
    "demo": "Explore runs in a browser",
    "export": "Write n-grams as ARPA, word vectors as word2vec or GloVe, or a folder for transformers",
}
"""Descriptions of the commands, in the order of ``lmzoo``; each one's ``--help`` begins with it."""
