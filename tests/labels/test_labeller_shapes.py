"""Labellers take over no tensors of another shape, which would fail, or give other labels, when they are used."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.labels.crf import Crf
from lmzoo.labels.dense import Dense
from lmzoo.labels.formats import Sentence
from lmzoo.labels.hmm_tagger import HmmTagger
from lmzoo.labels.model import Labeller, Opener
from lmzoo.labels.ngrams import NaiveBayes
from lmzoo.labels.perceptron import Perceptron

CHAIN = {"min_count": 1, "clusters": None}
LABELLERS: dict[str, Callable[[], Labeller]] = {
    "crf": lambda: Crf(l2=1.0, tolerance=0.0, iterations=2, vectors=None, encoder=None, around=0, scale=1.0, **CHAIN),
    "perceptron": lambda: Perceptron(epochs=1, **CHAIN),
    "hmm_tagger": lambda: HmmTagger(rare=10, suffix=3),
    "naive_bayes": lambda: NaiveBayes(order=1, prefixes=[], alpha=1.0),
}
SENTENCES = [Sentence(["a", "b", "C"], ["X", "Y", "Z"], [[]] * 3), Sentence(["b", "a"], ["Y", "X"], [[]] * 2)]
CHANGES: list[Callable[[Tensor], Tensor]] = [
    lambda value: value[None], lambda value: value.reshape(-1)[:1], lambda value: value.sum(),
    lambda value: value.int(), Tensor.half, Tensor.float, Tensor.double, lambda value: torch.cat([value, value]),
]  # fmt: skip


@pytest.mark.parametrize("name", LABELLERS)
def test_tensors_of_another_shape_are_refused(name: str):
    learner = LABELLERS[name]()
    texts = [Sentence(s.words, s.labels[:1], s.features) for s in SENTENCES] if learner.kind == "text" else SENTENCES
    learner.start(texts, 0)
    state = learner.state_dict()
    LABELLERS[name]().load_state_dict(state)
    floating = [key for key, value in state.items() if value.is_floating_point()]
    assert len(floating) >= 2
    for key in floating:
        for change in CHANGES:
            if (wrong := change(state[key])).shape != state[key].shape or wrong.dtype != state[key].dtype:
                with pytest.raises(UserError, match=f"{key} has the shape"):
                    LABELLERS[name]().load_state_dict({**state, key: wrong})


def test_counts_of_words_that_no_state_can_have_are_refused():
    """A word without states would leave the search for the best labels without a path."""
    tagger = LABELLERS["hmm_tagger"]()
    tagger.start(SENTENCES, 0)
    state = tagger.state_dict()
    for key, change in (("count", -1.0), ("count", math.inf), ("count", 0.0), ("word", 0)):
        with pytest.raises(UserError, match="count is not how often each word has each state"):
            LABELLERS["hmm_tagger"]().load_state_dict({**state, key: torch.full_like(state[key], change)})


@pytest.mark.parametrize(
    "change", [lambda rows: rows[:, None], Tensor.bool, lambda rows: rows - 1, lambda rows: rows + 9]
)
def test_rows_that_the_vectors_of_words_have_not_are_refused(change: Callable[[Tensor], Tensor]):
    dense = Dense(vectors=str(Path(__file__).parent / "vectors.txt"), encoder=None, around=0, scale=1.0)
    dense.start([Sentence(["the"], ["X"], [[]])], Opener())
    state = dense.state_dict()
    dense.load_state_dict(state)
    with pytest.raises(UserError, match=r"vectors.rows are not rows of \d+ vectors"):
        dense.load_state_dict({**state, "vectors.rows": change(state["vectors.rows"])})
