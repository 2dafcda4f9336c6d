"""The hidden Markov model with tables, learnt by EM (Baum et al. 1970) or by gradient."""

import logging
import math
from typing import Annotated, Literal

import torch
from torch import nn

from lmzoo.core.iterations import StateDict, iterations
from lmzoo.core.options import Count, Idle, Initial, NonNegative, Options, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.models.hmm.dense_hmm import DenseHMM, DenseTables, over_words
from lmzoo.models.hmm.inference import baum_welch
from lmzoo.protocol.model import models
from lmzoo.words.brown import cached_brown_clusters

log = logging.getLogger(__name__)

WINDOW_TOKENS = 8192
"""How many tokens EM reads at once: enough to keep matrix products busy."""
ROW_TOKENS = 128
"""The length of the rows into which EM cuts a stream."""


class HMMOptions(Options):
    states: Size = 64
    """Z, the number of hidden states."""
    begin: Annotated[Literal["random", "clusters"], Initial()] = "random"
    """initialization of EM: random, or a class bigram model of Z Brown clusters, one for each state."""
    iterations: Annotated[Count, Initial()] = 30
    """number of EM iterations."""
    pseudocount: Annotated[NonNegative, Idle(("model.iterations", 0)), Initial()] = 0.01
    """added to every expected count."""
    gradient: bool = False
    """whether training continues by gradient descent after EM."""


@models.register("hmm")
class HMM(DenseHMM):
    """An HMM with a table each for start, transition and emission (Rabiner 1989), normalised by softmax.

    `estimate` runs EM. Every row of its text begins with the start distribution. A row is a line where the context is
    ``sentence``, and `ROW_TOKENS` tokens where it is ``stream``.
    """

    takes_steps = "gradient", True
    estimated_tensors = ("start", "transition", "emission")

    @configured(HMMOptions)
    def __init__(self, vocabulary_size: int, options: HMMOptions):
        super().__init__(vocabulary_size, options.states)
        self.begin, self.iterations, self.pseudocount = options.begin, options.iterations, options.pseudocount
        Z, new = options.states, nn.Parameter if options.gradient else nn.Buffer
        self.start, self.transition = new(torch.zeros(Z)), new(torch.zeros(Z, Z))
        self.emission = new(torch.zeros(vocabulary_size, Z))

    def tables(self) -> DenseTables:
        active = torch.arange(self.states, device=self.device)
        start, transition, emission = self.start, self.transition, self.emission
        return DenseTables(active, start.log_softmax(0), transition.log_softmax(1), over_words(emission))

    @torch.no_grad()
    def estimate(self, corpus: Corpus) -> None:
        tokens, V = corpus.splits["train"].to(self.device, torch.int64), self.vocabulary_size
        if self.begin == "clusters":
            cluster = cached_brown_clusters(tokens, V, self.states, "model.states")
            tables = baum_welch.cluster_start(tokens, cluster, self.states)
        else:
            tables = baum_welch.random_start(tokens, V, self.states)
        tables = baum_welch.Parameters(*(table.to(self.start) for table in tables))
        if corpus.context == "sentence":
            windows = SentenceWindows(corpus.splits["train"], WINDOW_TOKENS, seed=None)
        else:
            windows = StreamWindows(
                corpus.splits["train"], max(1, min(WINDOW_TOKENS, len(tokens)) // ROW_TOKENS), ROW_TOKENS
            )

        def state_dict() -> StateDict:
            return tables._asdict()

        def load_state_dict(saved: StateDict) -> None:
            nonlocal tables
            tables = baum_welch.Parameters(**{name: table.to(self.start) for name, table in saved.items()})

        def notes() -> list[str]:
            return [f"log-likelihood of {mean:.6f} nats per token"]

        mean = math.nan
        for _ in iterations(self.iterations, "EM", state_dict, load_state_dict, notes=notes):
            counts, loglikelihood = baum_welch.expected_counts(tables, windows.epoch(0))
            mean = loglikelihood / float(counts.emission.sum())  # every token is emitted once
            tables = baum_welch.maximise(counts, self.pseudocount, tables)
        if not math.isnan(mean):  # a resumed run may have done them all before
            log.info("the last of %d iterations of EM began at a %s", self.iterations, *notes())
        for name, table in tables._asdict().items():
            getattr(self, name).copy_(table)
