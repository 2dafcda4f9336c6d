"""Checkpoints of earlier versions, whose tensors had other names, load into every model with an output layer."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lmzoo.core.configs import defaults
from lmzoo.corpus import Corpus
from lmzoo.protocol.model import LanguageModel, Trained, models

CLASSES = {f"output.classes.{name}": f"classes.{name}" for name in ("word_class", "S.weight", "S.bias")}
SIZES = {"embedding": 6, "hidden": 6, "classes": 4}
CASES: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
    "nnlm": (SIZES, {"output.weight": "UW.weight", "output.bias": "UW.bias", **CLASSES}),
    "nnlm, tied": (SIZES | {"tied": True}, {"output.weight": "UW.weight", "output.bias": "UW.bias", **CLASSES}),
    "logbilinear": ({"embedding": 6, "classes": 4}, {"output.weight": None, "output.bias": None, **CLASSES}),
    "rnn": (SIZES, CLASSES),
    "lstm": (SIZES | {"tied": False}, CLASSES),
    "gru": (SIZES, CLASSES),
    "lds": ({"hidden": 6, "classes": 4, "iterations": 1}, CLASSES),
    "lds_rnn": ({"hidden": 6, "classes": 4, "iterations": 1}, CLASSES),
}
"""Options, and the former names of tensors that have another now; None for one that was not saved, being another's."""


def trained(case: str, corpus: Corpus) -> Trained:
    name = case.partition(",")[0]
    options = defaults("model", name) | CASES[case][0]
    torch.manual_seed(0)
    model = models.build(options, vocabulary_size=len(corpus.vocabulary))
    model.estimate(corpus)
    return Trained(case, options, model.eval())


def as_saved_before(case: str, saved: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """The tensors of a model under their former names; all tensors that are renamed must be there."""
    saved = dict(saved)
    for now, former in CASES[case][1].items():
        tensor = saved.pop(prefix + now)
        if former is not None:
            saved[prefix + former] = tensor
    return saved


def scores(model: LanguageModel, corpus: Corpus) -> Tensor:
    tokens = corpus.splits["valid"][:60].view(3, 20)
    with torch.no_grad():
        return model.eval()(tokens, model.initial_state(3))[0]


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_with_former_names_scores_the_same(case: str, corpus: Corpus):
    _, options, model = trained(case, corpus)
    fresh = models.build(options, vocabulary_size=len(corpus.vocabulary))
    assert not torch.equal(scores(fresh, corpus), scores(model, corpus))
    fresh.load_state_dict(as_saved_before(case, model.state_dict()))
    assert torch.equal(scores(fresh, corpus), scores(model, corpus))


def test_a_mixture_with_former_names_scores_the_same(corpus: Corpus):
    options = {"name": "mixture", "runs": [], "per": "sentence"}
    mixture, fresh = (models.build(options, vocabulary_size=len(corpus.vocabulary)) for _ in range(2))
    mixture.inherit([trained(case, corpus) for case in CASES])
    mixture.weights = torch.full((len(CASES),), 1 / len(CASES))
    saved = mixture.state_dict()
    for k, case in enumerate(CASES):
        saved = as_saved_before(case, saved, f"components.{k}.")
    fresh.load_state_dict(saved)
    assert torch.equal(scores(fresh, corpus), scores(mixture, corpus))
