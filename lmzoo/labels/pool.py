"""A pool of labellers: Smith, Cohn & Osborne, "Logarithmic opinion pools for conditional random fields", ACL 2005,
https://aclanthology.org/P05-1003.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lmzoo.core.errors import UserError
from lmzoo.core.options import Options, Source, configured
from lmzoo.labels.chain import Scores
from lmzoo.labels.formats import Sentence
from lmzoo.labels.linear_chain import ChainLabeller
from lmzoo.labels.model import StateDict, decode, encode, labellers


class PoolOptions(Options):
    runs: Sequence[Source] = ()
    """folders of runs of labeller=crf, birnn or pool of the same text, such as
    [outputs/chunk/crf,outputs/chunk/birnn]."""


@labellers.register("pool")
class Pool(ChainLabeller):
    """A logarithmic opinion pool: p(y | x) ∝ Π_k p_k(y | x)^(1/K), of K labellers that are linear chains.

    Its scores are the means of theirs, so it is a linear chain itself. It learns nothing. Its own run holds them all.
    """

    @configured(PoolOptions)
    def __init__(self, options: PoolOptions):
        if not options.runs:
            raise UserError("labeller.runs=[]: a pool needs trained runs", "set 'labeller.runs=[FOLDER,FOLDER]'")
        self.runs = options.runs

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        trained = [self.open_labeller("labeller.runs", folder) for folder in self.runs]
        chains = []
        for part in trained:
            labeller = part.labeller
            if not (isinstance(labeller, ChainLabeller) and labeller.probabilistic):
                raise UserError(f"labeller.runs: {part.folder} has no probabilities of all labels of a sentence",
                                "name runs of labeller=crf, birnn or pool")  # fmt: skip
            chains.append(labeller)
            if {*labeller.labels} != {*chains[0].labels}:
                raise UserError(f"labeller.runs: {part.folder} has other labels than {trained[0].folder}",
                                "name runs of one text")  # fmt: skip
        self._set_labellers([part.options for part in trained], chains)

    def _set_labellers(self, options: Sequence[Mapping[str, Any]], parts: Sequence[ChainLabeller]) -> None:
        """Set the labellers of the pool, each with its options."""
        self.options, self.parts, self.labels = options, parts, parts[0].labels
        self.order = [torch.tensor([part.labels.index(label) for label in self.labels]) for part in parts]

    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        each = [part.scores(sentences) for part in self.parts]
        ordered = list(zip(each, self.order, strict=True))
        emission = torch.stack([scores.emission[:, :, order] for scores, order in ordered]).mean(0)
        moves = torch.stack([scores.moves[order][:, order] for scores, order in ordered]).mean(0)
        start = torch.stack([scores.start[order] for scores, order in ordered]).mean(0)
        return Scores(emission, moves, start, each[0].lengths)

    def state_dict(self) -> StateDict:
        return {"options": encode(self.options), "parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        options = decode(state["options"])
        parts: list[ChainLabeller] = [labellers.build(chosen) for chosen in options]
        for part, trained in zip(parts, state["parts"], strict=True):
            part.load_state_dict(trained)
        self._set_labellers(options, parts)
