"""The chains of models that are hidden Markov models, and mixtures of them."""

from collections.abc import Iterator, MutableMapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.protocol.abilities import HasChain, HiddenChain
from lmzoo.protocol.model import LanguageModel, evaluating

_chains: MutableMapping[LanguageModel, tuple[list[tuple[float, int]], HiddenChain]] = WeakKeyDictionary()
"""The chains that were made, with the addresses and versions of the tensors they were made of, and temperatures."""


def chain_of(model: LanguageModel, name: str = "the model") -> HiddenChain:
    """The `HiddenChain` of a model in evaluation mode; a UserError where it is not of a kind that has one."""
    if not isinstance(model, HasChain):
        advice = "hidden Markov models, and mixtures of them per sentence, do, and can guide others"
        raise UserError(f"{name} gives no exact probabilities of patterns", advice)
    tensors: list[tuple[float, int]] = [(getattr(part, "temperature", 1.0), 0) for part in model.modules()]
    tensors += [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in (*model.parameters(), *model.buffers())]
    before, chain = _chains.get(model, (None, None))
    if chain is None or before != tensors:
        with torch.no_grad(), evaluating(model):
            chain = model.hidden_chain()
        _chains[model] = tensors, chain
    return chain


class ChainMixture:
    """The mixture of chains that are drawn once for each sentence: a chain with the states of all.

    Args:
        weights: (K,) λ of each chain.
    """

    def __init__(self, chains: Sequence[HiddenChain], weights: Tensor):
        self.chains, self.sizes = chains, [len(chain.start) for chain in chains]
        logs = weights.double().log()
        self.start = torch.cat([weight + chain.start for weight, chain in zip(logs, chains, strict=True)])

    def class_logprobs(self, classes: Tensor, number: int) -> Tensor:
        return torch.cat([chain.class_logprobs(classes, number) for chain in self.chains], 1)

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        return torch.cat([chain.step_backward(part, mask) for chain, part, mask in self._split_parts(v, needed)], 1)

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        return torch.cat([chain.step_forward(part, mask) for chain, part, mask in self._split_parts(u, needed)], 1)

    def words(self, w: Tensor) -> Tensor:
        return torch.stack([chain.words(part) for chain, part, _ in self._split_parts(w, None)]).logsumexp(0)

    def emission_logprobs(self, words: Tensor) -> Tensor:
        return torch.cat([chain.emission_logprobs(words) for chain in self.chains], 1)

    def _split_parts(self, x: Tensor, needed: Tensor | None) -> Iterator[tuple[HiddenChain, Tensor, Tensor | None]]:
        """Each chain with its columns of both."""
        masks = [None] * len(self.sizes) if needed is None else needed.split(self.sizes, 1)
        yield from zip(self.chains, x.split(self.sizes, 1), masks, strict=True)
