"""An automaton times a hidden Markov model: what is exactly known of all sentences that match a pattern.

GeLaTo: Zhang, Dang, Peng and Van den Broeck, "Tractable control for autoregressive language generation", ICML 2023,
https://arxiv.org/abs/2304.07438. Ctrl-G: Zhang, Kung, Yoshida, Van den Broeck and Peng, "Adaptable logical control for
large language models", NeurIPS 2024, https://arxiv.org/abs/2406.13892.

After t words a sentence is in state q of the automaton and z_t = i of the chain. The backward message is the
probability that it goes on so as to be accepted, `<eos>` ($) included:

    β_t(q, i) = Σ_j p(j | i) v_t(q, j),
    v_t(q, j) = [q accepts, and t words are allowed] p($ | j) + Σ_q′ p(words that lead from q to q′ | j) β_{t+1}(q′, j).

So p(pattern) = Σ_j p(z_1 = j) v_0(0, j). Where any length is allowed, β_t is the same for all t: the least solution,
to which iteration from 0 converges from below. The probability that a sentence is still on a path to acceptance after
so many words bounds what is left out; it obeys the same recursion, from 1. Forward, with π_t(q, j) the probability of
being in q before word t and in z_t = j, the expected number of uses of an edge from q to q′ by words emitted by j is

    γ(q, q′, j) = Σ_t π_t(q, j) p(words that lead from q to q′ | j) β_t(q′, j) / p(pattern).

Everything is in log space, float64, in nats. The recursion is the same for dense and block-sparse tables.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.progress import tracked
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.hmm.inference.underflow import logsumexp_by_label
from lmzoo.protocol.abilities import HiddenChain
from lmzoo.protocol.patterns import Automaton
from lmzoo.protocol.sampling import LONGEST_SENTENCE, draw

PATIENCE = 5
"""The seconds after which a progress bar is shown."""
TOLERANCE = 1e-7
"""The share of p(pattern) that may be left out where sentences of any length match."""


class Product:
    """A pattern's automaton and a chain, with the backward messages.

    Attributes:
        shortest, longest: bounds of the number of words; no bound is None.
        logprob: log p(pattern) in nats.
        left_out: an upper bound of the probability of matching sentences of over `LONGEST_SENTENCE` words, which
            `logprob` leaves out; 0 where the share of longer ones is below `TOLERANCE` before.
        messages: (n, Q, Z) log β_t for t = 1, …, n; later ones are equal to the last.
    """

    def __init__(self, chain: HiddenChain, automaton: Automaton):
        device = chain.start.device
        self.chain, self.automaton = chain, automaton
        self.classes, self.source, self.target = (part.to(device) for part in automaton[:3])
        C, self.states = automaton.allowed.shape[1], len(automaton.accepting)
        masses = chain.class_logprobs(self.classes, C)  # (C, Z)
        self.kinds, self.kind = automaton.allowed.to(device).unique(dim=0, return_inverse=True)
        sums = [masses[kind].logsumexp(0) for kind in self.kinds]  # of the words of an edge
        self.mass = torch.stack(sums) if sums else masses[:0]
        self.ending = chain.emission_logprobs(torch.tensor([EOS_ID], device=device))[0]  # (Z,)
        self.accepting = automaton.accepting.to(device)
        possible = self.mass[self.kind] > -torch.inf  # (E, Z)
        self.entered = self._any(self.target, possible)  # (Q, Z) whether z_t = i is possible after arriving in q
        self.left = self._any(self.source, possible) | (self.accepting[:, None] & (self.ending > -torch.inf))
        self.left_out = 0.0
        self.shortest, self.longest, reached = automaton.shortest, automaton.longest, [torch.arange(self.states) == 0]
        while bool(reached[-1].any()) and len(reached) <= (self.states if self.longest is None else self.longest):
            targets = automaton.target[reached[-1][automaton.source]]
            reached.append(torch.zeros_like(reached[0]).index_fill(0, targets, True))
        if not bool(reached[-1].any()):  # without cycles there is a longest sentence
            self.longest = len(reached) - 2
        none = self.mass.new_full((self.states, len(chain.start)), -torch.inf)
        if (size := (max(self.shortest, self.longest or 0) + 1) * none.nbytes) > 2**32:
            raise UserError(f"the pattern needs {size / 2**30:.0f} GiB", "ask for fewer words")
        if self.longest is None:
            messages, steps = [self._stationary(none)], self.shortest - 1
        else:
            messages, steps = [none], self.longest
        for t in tracked(range(steps, 0, -1), steps, "word", "pattern", PATIENCE):
            here = torch.ones_like(reached[0]) if t >= len(reached) else reached[t]
            needed = self.entered & here.to(device)[:, None]
            messages.append(chain.step_backward(self._choices(messages[-1], t), needed))
        self.messages = torch.stack(messages[::-1])
        first = self._choices(self.message(1), 0)[0]
        self.logprob = float((chain.start + first).logsumexp(0))

    def message(self, t: int) -> Tensor:
        """(Q, Z) log β_t, t of at least 1."""
        return self.messages[min(t, len(self.messages)) - 1]

    def may_end(self, t: int) -> bool:
        """Whether t words are allowed."""
        return self.shortest <= t and (self.longest is None or t <= self.longest)

    def word_counts(self) -> Tensor:
        """(E, V) the expected number of uses of each edge by each word, given the pattern."""
        if not len(self.kind):
            return self.mass.new_zeros(0, len(self.classes))
        prior = self.chain.start.new_full(self.messages.shape[1:], -torch.inf)
        prior[0] = self.chain.start
        mass, t = self.mass[self.kind], 1
        counts = torch.full_like(mass, -torch.inf)  # (E, Z) log γ
        while t <= (LONGEST_SENTENCE if self.longest is None else self.longest):
            used = prior[self.source] + mass
            further = used + self.message(t)[self.target] - self.logprob
            counts = torch.logaddexp(counts, further)
            if float(further.logsumexp((0, 1))) < math.log(TOLERANCE):  # p(sentence has t words | pattern)
                break
            prior = self.chain.step_forward(logsumexp_by_label(used, self.target, self.states), self.left)
            t += 1
        weights = counts - mass.where(mass > -torch.inf, 0.0)
        allowed = torch.nn.functional.pad(self.kinds[self.kind], (0, 1))[:, self.classes]  # (E, V), never <eos>
        return self.chain.words(weights).exp().where(allowed, 0.0)

    def draw(self, randoms: Sequence[torch.Generator]) -> list[list[int]]:
        """A sentence, `<eos>` included, from p(x | pattern) by each generator, along with hidden states, not shown.

        Given z_t = i and state q, z_{t+1} = j is drawn in proportion to p(j | i) v_t(q, j), then the edge to take or
        `<eos>`, then the word. So a step needs a row of transitions alone.
        """
        if not randoms:
            return []
        rows, at = torch.arange(len(randoms)), torch.zeros(len(randoms), dtype=torch.int64)
        prior, mass = self.chain.start.expand(len(randoms), -1), self.mass[self.kind]
        allowed = torch.nn.functional.pad(self.kinds[self.kind], (0, 1))[:, self.classes]  # (E, V)
        texts: list[list[int]] = [[] for _ in randoms]
        for t in range(LONGEST_SENTENCE + 1):
            uniform = torch.stack(
                [torch.rand(3, 1, generator=randoms[row], dtype=torch.float64) for row in rows.tolist()]
            )
            message = self.message(t + 1)
            at_device = at.to(prior.device)
            states = _drawn(self._choices(message, t)[at_device].add_(prior), uniform[:, 0])
            onward = (mass[:, states] + message[self.target[:, None], states]).T  # (B, E)
            onward = onward.where(self.source == at_device[:, None], -torch.inf)
            may_end = self.accepting[at_device] & self.may_end(t)
            stop = self.ending[states].where(may_end, -torch.inf)
            edge = _drawn(torch.cat([stop[:, None], onward], 1), uniform[:, 1]) - 1  # -1 is <eos>
            for row in rows[(edge < 0).cpu()].tolist():
                texts[row].append(EOS_ID)
            on = edge >= 0
            rows, uniform, states, edge = rows[on.cpu()], uniform[on.cpu()], states[on], edge[on]
            if not len(rows):
                return texts
            here = torch.full((len(rows), prior.shape[1]), -torch.inf, dtype=prior.dtype, device=prior.device)
            here[torch.arange(len(rows)), states] = 0.0
            words = _drawn(self.chain.words(here).where(allowed[edge], -torch.inf), uniform[:, 2])
            for row, word in zip(rows.tolist(), words.tolist(), strict=True):
                texts[row].append(word)
            at = self.target[edge].cpu()
            prior = self.chain.step_forward(here, self.left[self.target[edge]])
        raise UserError(
            f"a sentence has over {LONGEST_SENTENCE:,} words", "limit the number of words, such as by the pattern ..100"
        )

    def _choices(self, message: Tensor, t: int | None) -> Tensor:
        """(Q, Z) log v_t, given the next messages; no sentence ends where t is None."""
        terms = self.mass[self.kind] + message[self.target]
        going_on = torch.full_like(message, -torch.inf)
        if len(terms):
            going_on = logsumexp_by_label(terms, self.source, self.states)
        if t is None or not self.may_end(t):
            return going_on
        return torch.where(self.accepting[:, None], torch.logaddexp(going_on, self.ending), going_on)

    def _stationary(self, none: Tensor) -> Tensor:
        """(Q, Z) log β of sentences of any length, once what is left out is a small share of p(pattern)."""
        t, message, remaining = self.shortest, none, torch.zeros_like(none)
        left_out = none.new_zeros(())
        for _ in tracked(range(LONGEST_SENTENCE), LONGEST_SENTENCE, "word", "pattern", PATIENCE):
            choices, on = self._choices(message, t), self._choices(remaining, None)
            logprob, left_out = ((self.chain.start + v[0]).logsumexp(0) for v in (choices, on))
            if float(left_out) < max(float(logprob) + math.log(TOLERANCE), math.log(torch.finfo(left_out.dtype).tiny)):
                return message
            both = torch.cat([choices, on])
            message, remaining = self.chain.step_backward(both, self.entered.repeat(2, 1)).chunk(2)
        self.left_out = float(left_out.exp())
        return message

    def _any(self, labels: Tensor, possible: Tensor) -> Tensor:
        """(E, Z) bool of edges with (E,) labels -> (Q, Z) bool, any of each label."""
        none = torch.zeros(self.states, possible.shape[1], device=possible.device, dtype=torch.int64)
        return none.index_add(0, labels, possible.long()) > 0


def _drawn(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """(B,) columns drawn in proportion to the exponentials of (B, N), given (B, 1) uniform numbers on the CPU."""
    weights = (logprobs - logprobs.amax(1, keepdim=True)).exp_().cpu()
    return draw(weights, uniform)[:, 0].to(logprobs.device)
