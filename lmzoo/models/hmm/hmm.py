"""The hidden Markov model, its tables learnt by EM (Baum et al. 1970) or by gradient."""

import logging
from typing import Literal

import torch
from torch import nn
from tqdm import trange

from lmzoo.core.options import Count, NonNegative, Size
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.models.hmm.dense_hmm import DenseHMM, Tables
from lmzoo.models.hmm.inference import baum_welch
from lmzoo.words.clusters import brown_classes

log = logging.getLogger(__name__)

WINDOW_TOKENS = 8192
"""How many tokens EM looks at together: enough to keep matrix products busy."""
ROW_TOKENS = 128
"""Into rows of how many tokens EM cuts a stream."""


@models.register("hmm")
class HMM(DenseHMM):
    """An HMM with a table for each of start, transition and emission (Rabiner 1989), normalised by softmax.

    `estimate` runs EM; every row of a text begins with the start distribution: a line where lines stand alone,
    `ROW_TOKENS` tokens of a stream.

    Args:
        states: their number Z.
        begin: EM with random tables, or with a class bigram model of Z Brown clusters.
        iterations: of EM.
        pseudocount: added to every expected count.
        gradient: whether the trainer goes on from there.
    """

    start: torch.Tensor
    transition: torch.Tensor
    emission: torch.Tensor

    def __init__(
        self,
        *,
        vocabulary_size: int,
        states: Size,
        begin: Literal["random", "clusters"],
        iterations: Count,
        pseudocount: NonNegative,
        gradient: bool,
    ):
        super().__init__(vocabulary_size=vocabulary_size, states=states)
        self.begin, self.iterations, self.pseudocount = begin, iterations, pseudocount
        shapes = {"start": (states,), "transition": (states, states), "emission": (vocabulary_size, states)}
        for name, shape in shapes.items():
            if gradient:
                self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
            else:
                self.register_buffer(name, torch.zeros(shape))

    def tables(self) -> Tables:
        kept = torch.arange(self.states, device=self.device)
        return Tables(kept, self.start.log_softmax(0), self.transition.log_softmax(1), self.emission.log_softmax(0))

    @torch.no_grad()
    def estimate(self, corpus: Corpus) -> None:
        tokens, V = corpus.train.to(self.device), self.vocabulary_size
        if self.begin == "clusters":
            cluster = brown_classes(corpus.train, V, self.states, "model.states").to(self.device)
            tables = baum_welch.cluster_start(tokens, cluster, self.states)
        else:
            tables = baum_welch.random_start(tokens, V, self.states)
        tables = baum_welch.Parameters(*(table.to(self.start) for table in tables))
        if corpus.context == "sentence":
            windows = SentenceWindows(corpus.train, WINDOW_TOKENS, seed=None)
        else:
            windows = StreamWindows(corpus.train, max(1, min(WINDOW_TOKENS, len(tokens)) // ROW_TOKENS), ROW_TOKENS)
        for iteration in trange(self.iterations, desc="EM", unit="iteration", disable=None, leave=False):
            counts, loglikelihood = baum_welch.expected_counts(tables, windows.epoch(0))
            mean = loglikelihood / float(counts.emission.sum())  # every token is emitted once
            log.info("EM iteration %d began at a log-likelihood of %.6f nats per token", iteration + 1, mean)
            tables = baum_welch.maximise(counts, self.pseudocount, tables)
        for own, table in zip((self.start, self.transition, self.emission), tables, strict=True):
            own.copy_(table)
