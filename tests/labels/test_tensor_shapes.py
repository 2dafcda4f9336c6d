"""Labellers take over no tensors of another shape, which would fail, or give other labels, when they are used."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.labels.crf import Crf
from lmzoo.labels.formats import Sentence
from lmzoo.labels.hmm_tagger import HmmTagger
from lmzoo.labels.model import Labeller
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
    lambda value: value.int(), lambda value: torch.cat([value, value]),
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
