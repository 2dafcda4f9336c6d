"""The chains of models that are hidden Markov models."""

from collections.abc import MutableMapping
from weakref import WeakKeyDictionary

import torch

from lmzoo.core.errors import UserError
from lmzoo.protocol.abilities import HasChain, HiddenChain
from lmzoo.protocol.model import LanguageModel, evaluating

_chains: MutableMapping[LanguageModel, tuple[list[tuple[float, int]], HiddenChain]] = WeakKeyDictionary()
"""The chains that were made, with the addresses and versions of the tensors they were made of, and temperatures."""


def chain_of(model: LanguageModel, name: str = "the model") -> HiddenChain:
    """The `HiddenChain` of a model in evaluation mode; a UserError where it is not of a kind that has one."""
    if not isinstance(model, HasChain):
        problem = f"{name} gives no exact probabilities of patterns"
        raise UserError(problem, "hidden Markov models do, and can guide others")
    tensors: list[tuple[float, int]] = [(getattr(part, "temperature", 1.0), 0) for part in model.modules()]
    tensors += [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in (*model.parameters(), *model.buffers())]
    before, chain = _chains.get(model, (None, None))
    if chain is None or before != tensors:
        with torch.no_grad(), evaluating(model):
            chain = model.hidden_chain()
        _chains[model] = tensors, chain
    return chain
