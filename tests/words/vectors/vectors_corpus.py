"""Small corpora for word vectors."""

import random

from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.corpus import Context


def corpus_of(lines: list[str], context: Context = "sentence") -> Corpus:
    """Lines as every split."""
    vocabulary = Vocabulary.of(lines)
    tokens = vocabulary.encode(lines)
    return Corpus("toy", context, vocabulary, dict.fromkeys(("train", "valid", "test"), tokens), {})


def two_topics(lines: int = 300, mixed: int = 0) -> Corpus:
    """Lines of words a0 … a5 and lines of words b0 … b5, and some lines of both."""
    draw = random.Random(0)
    topics = ["ab"[n % 2] for n in range(lines)] + ["ab"] * mixed
    return corpus_of([" ".join(f"{draw.choice(topic)}{draw.randrange(6)}" for _ in range(8)) for topic in topics])
