"""Trained labellers as one: Smith, Cohn & Osborne, "Logarithmic opinion pools for conditional random fields", ACL 2005,
https://aclanthology.org/P05-1003.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.configs import completed
from lmzoo.core.errors import UserError
from lmzoo.core.options import Source
from lmzoo.labels.chain import Scores
from lmzoo.labels.chained import Chained
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Learnt, State, labellers, packed, unpacked


@labellers.register("pool")
class Pool(Chained):
    """A logarithmic opinion pool: p(y | x) ∝ Π_k p_k(y | x)^(1/K), of K labellers that are linear chains.

    Its scores are the means of theirs, so it is a linear chain itself. It learns nothing. Its own run holds them all.

    Args:
        runs: folders of runs of labeller=crf, birnn or pool of one text, such as
            [outputs/chunk/crf,outputs/chunk/birnn].
    """

    def __init__(self, *, runs: list[Source]):
        if not runs:
            raise UserError("labeller.runs=[]: a pool needs trained runs", "set 'labeller.runs=[FOLDER,FOLDER]'")
        self.runs = runs

    @property
    def made_of(self) -> tuple[str, Sequence[str]]:
        return "labeller.runs", self.runs

    def join(self, parts: Sequence[Learnt]) -> None:
        chains = []
        for part in parts:
            labeller = part.labeller
            if not (isinstance(labeller, Chained) and labeller.probabilistic):
                raise UserError(f"labeller.runs: {part.folder} has no probabilities of all labels of a sentence",
                                "name runs of labeller=crf, birnn or pool")  # fmt: skip
            chains.append(labeller)
            if {*labeller.labels} != {*chains[0].labels}:
                raise UserError(f"labeller.runs: {part.folder} has other labels than {parts[0].folder}",
                                "name runs of one text")  # fmt: skip
        self._be([part.options for part in parts], chains)

    def _be(self, options: Sequence[Mapping[str, Any]], parts: Sequence[Chained]) -> None:
        """Be made of these, each of which was built from its options."""
        self.options, self.parts, self.labels = options, parts, parts[0].labels
        self.order = [torch.tensor([part.labels.index(label) for label in self.labels]) for part in parts]

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        """There is nothing to learn."""

    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        each = [part.scores(sentences) for part in self.parts]
        ordered = list(zip(each, self.order, strict=True))
        emission = torch.stack([scores.emission[:, :, order] for scores, order in ordered]).mean(0)
        moves = torch.stack([scores.moves[order][:, order] for scores, order in ordered]).mean(0)
        start = torch.stack([scores.start[order] for scores, order in ordered]).mean(0)
        return Scores(emission, moves, start, each[0].lengths)

    def state(self) -> State:
        found = {"options": packed([json.dumps(chosen) for chosen in self.options])}
        for k, part in enumerate(self.parts):
            found |= {f"{k}.{name}": value for name, value in part.state().items()}
        return found

    def take(self, state: Mapping[str, Tensor]) -> None:
        options = [json.loads(line) for line in unpacked(state["options"])]
        parts: list[Chained] = [labellers.build(completed(chosen, "labeller")) for chosen in options]
        for k, part in enumerate(parts):
            own = f"{k}."
            part.take({name.removeprefix(own): value for name, value in state.items() if name.startswith(own)})
        self._be(options, parts)
