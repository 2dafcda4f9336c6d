"""A text mapped from a file has 32-bit numbers: what is learnt from it is what the same text in 64 bits gives."""

from dataclasses import replace

import pytest
import torch

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import defaults
from lmzoo.corpus import Corpus
from lmzoo.models.lds.estimation.statistics import Counts
from lmzoo.protocol.model import models
from lmzoo.words.brown import brown_clusters, cached_brown_clusters
from lmzoo.words.vectors.method import WordText

SMALL = {
    "ngram": {},
    "infinigram": {},
    "loglinear": {"order": 2, "max_iterations": 3, "classes": 5},
    "model_m": {"order": 2, "classes": 5, "max_iterations": 3},
    "hmm": {"states": 4, "iterations": 2, "begin": "clusters"},
    "lds": {"hidden": 4, "iterations": 2},
    "vlhmm": {"states": 24, "clusters": 6, "dim": 8},
}


@pytest.mark.parametrize("name", SMALL)
def test_models_learn_the_same(name: str, corpus: Corpus):
    mapped = replace(corpus, splits={split: tokens.int() for split, tokens in corpus.splits.items()})
    states = []
    for text in (corpus, mapped):
        torch.manual_seed(0)
        model = models.build({**defaults("model", name), **SMALL[name]}, vocabulary_size=len(corpus.vocabulary))
        model.estimate(text)
        states.append({key: value for key, value in model.state_dict().items() if isinstance(value, torch.Tensor)})
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_words_times_words_do_not_overflow():
    """V² is beyond 32 bits."""
    V, tokens = 70_000, torch.tensor([69_999, 69_998, 0, 69_999, 69_998, 3, 0])
    assert brown_clusters(tokens.int(), V, 2).equal(brown_clusters(tokens, V, 2))
    assert cached_brown_clusters(tokens.int(), V, 3).equal(brown_clusters(tokens, V, 3))
    assert Counts.of(tokens.int(), V, 1).pairs[0][0].tolist() == sorted(
        a * V + b for a, b in {(*pair,) for pair in zip(tokens.tolist(), tokens.roll(1).tolist(), strict=True)}
    )


def test_word_vectors_read_the_same(corpus: Corpus):
    mapped = replace(corpus, splits={"train": corpus.splits["train"].int()})
    ours, theirs = WordText.of(mapped, 2), WordText.of(corpus, 2)
    assert ours.words == theirs.words
    assert all(getattr(ours, part).equal(getattr(theirs, part)) for part in ("counts", "tokens", "lines", "places"))
