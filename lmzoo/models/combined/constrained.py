"""A language model of the sentences that match a pattern."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.condition import shares
from lmzoo.protocol.model import LanguageModel, State, evaluating
from lmzoo.protocol.sampling import Decoding, generators, sample


class Constrained(LanguageModel):
    """p(x_t | x_<t, pattern) of sentences that match a pattern.

    Without a base model these are the sentences of a hidden Markov model, exactly. With one, the HMM is a guide
    (Ctrl-G, Zhang et al. 2024, https://arxiv.org/abs/2406.13892):

        p(x_t | x_<t, pattern) ∝ p_base(x_t | x_<t) p_guide(pattern | x_≤t).

    Every sentence matches the pattern, whatever the base is. The state is the (B, Z) log-probabilities of the next
    hidden state, the (B,) state of the automaton, the (B,) number of words so far, and the state of the base model.

    Args:
        product: of the guide's chain and the automaton of a pattern.
    """

    def __init__(self, product: Product, base: LanguageModel | None = None):
        super().__init__()
        if base is not None and shares(base) is not None:
            raise UserError(
                "a model with a label for each line does not support patterns", "choose a run without labels"
            )
        self.product, self.vocabulary_size = product, len(product.classes)
        self.base = () if base is None else (base,)  # no submodule: its mode and device are its own
        dead = torch.nn.functional.pad(product.automaton.table(), (0, 0, 0, 1), value=-1)  # row -1 after a mismatch
        self.table = dead.to(self.device)
        self.accepting = torch.nn.functional.pad(product.accepting, (0, 1))

    @property
    def device(self) -> torch.device:
        return self.product.classes.device

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with evaluating(self.base[0]) if self.base else nullcontext():
            yield

    def initial_state(self, batch_size: int) -> State:
        start = self.product.chain.start.expand(batch_size, -1)
        none = torch.zeros(batch_size, dtype=torch.int64, device=self.device)
        return start, none, none, *(part for base in self.base for part in base.initial_state(batch_size))

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs = []
        for words in tokens.unbind(1):
            predicted, begun = self.begin_step(state)
            logprobs.append(predicted.gather(1, words[:, None]))
            state = self.end_step(words, begun)
        return torch.cat(logprobs, 1), state

    def predict(self, state: State) -> Tensor:
        return self.begin_step(state)[0]

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        prior, at, length, *rest = state
        joint = self.joint(prior, at, length)
        if self.base:
            logprobs, rest = self.base[0].begin_step(tuple(rest))
            under_guide = self.product.chain.words(prior)
            joint = torch.where(joint > -torch.inf, logprobs + joint - under_guide, joint)
        total = joint.logsumexp(1, keepdim=True)
        return joint - total.clamp_min(torch.finfo(joint.dtype).min), (prior, at, length, *rest)

    def joint(self, prior: Tensor, at: Tensor, length: Tensor) -> Tensor:
        """(B, V) log p(x_t, pattern | x_<t) under the guide."""
        product, Q = self.product, self.product.states
        rows = torch.arange(len(at), device=self.device)
        keys = rows[:, None] * (Q + 1) + self.table[at]  # (B, C + 1) a row and the state after each class; -1 is Q
        pairs, inverse = torch.where(self.table[at] < 0, -1, keys).unique(return_inverse=True)
        row, after = pairs // (Q + 1), pairs % (Q + 1)
        message = product.messages[(length[row] + 1).clamp(max=len(product.messages)) - 1, after.clamp(max=Q - 1)]
        weights = (prior[row] + message).where((pairs >= 0)[:, None], -torch.inf)
        sums = product.chain.words(weights)  # (pairs, V)
        joint = sums[inverse[:, product.classes], torch.arange(self.vocabulary_size, device=self.device)]
        low, high = product.shortest, product.longest
        may_end = self.accepting[at] & (length >= low) & (length <= (length if high is None else high))
        joint[:, EOS_ID] = (prior + product.ending).logsumexp(1).where(may_end, -torch.inf)
        return joint

    def sentences(self, number: int, seed: int, decoding: Decoding, **options: Any) -> list[list[int]]:
        """Independent sentences, each with `<eos>`; the first has this seed, and each further one the next number.

        Args:
            options: ``prompt`` and ``allowed`` of `lmzoo.protocol.sampling.sample`.

        Raises: UserError if no sentence that matches begins with the prompt.
        """
        if not self.base and decoding == Decoding() and not any(option is not None for option in options.values()):
            with torch.no_grad():
                return self.product.draw(generators(seed, number))
        if (prompt := options.get("prompt")) is not None:
            with torch.no_grad(), self.frozen():
                score, _ = self(prompt[None].to(self.device), self.initial_state(1))
            if score.sum() == -torch.inf:
                raise UserError("no sentence that matches begins with the prompt", "change the prompt or the pattern")
        drawn = sample(self, None, seed, context="sentence", decoding=decoding, samples=number, sentences=1, **options)
        return [tokens.tolist() for tokens, _ in drawn.each()]

    def end_step(self, tokens: Tensor, begun: State) -> State:
        prior, at, length, *rest = begun
        product = self.product
        after = self.table[at, product.classes[tokens]]
        ahead = product.chain.step_forward(prior + product.chain.emission_logprobs(tokens), product.left[after])
        ahead = ahead - ahead.logsumexp(1, keepdim=True).clamp_min(torch.finfo(ahead.dtype).min)
        start, first, *_ = self.initial_state(len(tokens))
        ended = tokens == EOS_ID
        prior = torch.where(ended[:, None], start, ahead)
        rest = self.base[0].end_step(tokens, tuple(rest)) if self.base else ()
        return prior, torch.where(ended, first, after), (length + 1).where(~ended, 0), *rest
