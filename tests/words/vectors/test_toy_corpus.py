"""The examples of docs/words.md."""

import math

import pytest
import torch
from vectors_corpus import corpus_of

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.counting import Factorised
from lmzoo.words.vectors.method import WordText, methods

TOY = corpus_of(["the dog saw a cat", "the cat saw a dog", "a man read the book", "a woman read the book"])


def learnt(name: str, **options) -> Factorised:
    method = methods.build({**defaults("method", name), "min_count": 1, **options})
    assert isinstance(method, Factorised)
    method.start(TOY, 0)
    method.step(0)
    return method


def cosine(method: Factorised, a: str, b: str) -> float:
    rows = method.vectors()[[method.words.index(word) for word in (a, b)]]
    return float(torch.cosine_similarity(rows[0], rows[1], dim=0))


def entry(method: Factorised, word: str, column: int) -> float:
    return float(method.counts().to_dense()[method.words.index(word), column])


def test_latent_semantic_analysis():
    lsa = learnt("lsa", dim=4, lines_per_document=1)
    assert [entry(lsa, "the", d) for d in range(4)] == pytest.approx([0] * 4, abs=1e-6)
    assert [entry(lsa, "dog", d) for d in range(4)] == pytest.approx([0.35, 0.35, 0, 0], abs=0.005)
    assert [entry(lsa, "man", d) for d in range(4)] == pytest.approx([0, 0, 0.69, 0], abs=0.005)
    assert cosine(lsa, "dog", "cat") == pytest.approx(1)
    assert cosine(lsa, "man", "woman") == pytest.approx(0, abs=1e-6)
    assert cosine(learnt("lsa", dim=2, lines_per_document=1), "man", "woman") == pytest.approx(1)


def test_shifted_ppmi():
    ppmi = learnt("ppmi", dim=9, window=1, smoothing=1.0, eigenvalue=1.0)
    assert entry(ppmi, "dog", ppmi.words.index("a")) == pytest.approx(0.58, abs=0.005)
    assert entry(ppmi, "dog", ppmi.words.index("saw")) == pytest.approx(0.98, abs=0.005)
    assert cosine(ppmi, "dog", "cat") == pytest.approx(1, abs=1e-5)
    assert cosine(ppmi, "dog", "man") == pytest.approx(0.26, abs=0.005)


def test_counts_of_glove():
    counts = Cooccurrences.of(WordText.of(TOY, 1), 10, "harmonic")
    dog, saw = TOY.vocabulary.index["dog"] - 1, TOY.vocabulary.index["saw"] - 1
    (x,) = counts.weight[(counts.row == dog) & (counts.column == saw)].tolist()
    assert x == pytest.approx(1.5)
    assert (math.log(x), (x / 10) ** 0.75) == pytest.approx((0.41, 0.24), abs=0.005)


@pytest.mark.parametrize("name", ["skipgram", "cbow", "fasttext", "glove"])
def test_lines_of_one_word_are_refused(name: str):
    method = methods.build({**defaults("method", name), "min_count": 2})
    with pytest.raises(UserError, match=r"method\.min_count: no line of train has two words with this count"):
        method.start(corpus_of(["a", "b c", "a d", "b"]), 0)
