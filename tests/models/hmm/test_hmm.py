"""The HMM with tables: how EM estimates it from a text."""

import dataclasses
import logging
import math
import re

import pytest
import torch

from lmzoo.core import progress
from lmzoo.corpus import Corpus
from lmzoo.models.hmm.hmm import ROW_TOKENS
from lmzoo.models.hmm.inference.baum_welch import cluster_start, random_start
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import score
from lmzoo.words.brown import cached_brown_clusters


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_estimate_counts_its_text_and_adds_its_pseudocount(corpus: Corpus, context):
    """A single state emits words as often as they occur; a stream is cut into rows of equal length."""
    options = {"name": "hmm", "states": 1, "begin": "random", "iterations": 1, "gradient": False}
    model = models.build(options | {"pseudocount": 2.5}, vocabulary_size=150)
    model.estimate(dataclasses.replace(corpus, context=context))
    rows = len(corpus.splits["train"]) // ROW_TOKENS
    read = (
        corpus.splits["train"][: len(corpus.splits["train"]) // rows * rows]
        if context == "stream"
        else corpus.splits["train"]
    )
    assert len(read) < len(corpus.splits["train"]) or context == "sentence"
    counts = torch.bincount(read, minlength=150) + 2.5
    torch.testing.assert_close(model.tables().emission[:, 0].exp(), counts / counts.sum())


@pytest.mark.parametrize("begin", ["random", "clusters"])
def test_em_begins_as_asked_for(corpus: Corpus, begin):
    options = {"name": "hmm", "states": 4, "iterations": 0, "pseudocount": 0.0, "gradient": False}
    model = models.build(options | {"begin": begin}, vocabulary_size=150)
    torch.manual_seed(0)
    model.estimate(corpus)
    torch.manual_seed(0)
    if begin == "random":
        expected = random_start(corpus.splits["train"], 150, 4)
    else:
        expected = cluster_start(corpus.splits["train"], cached_brown_clusters(corpus.splits["train"], 150, 4), 4)
    for name, table in expected._asdict().items():
        torch.testing.assert_close(model.get_buffer(name), table)


@pytest.mark.parametrize("begin", ["random", "clusters"])
@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_em_learns_from_a_text_and_reports_it(corpus: Corpus, begin, context, caplog, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0)  # a line for each iteration
    corpus = dataclasses.replace(corpus, context=context)
    options = {"name": "hmm", "states": 7, "begin": begin, "iterations": 15, "pseudocount": 0.0, "gradient": False}
    torch.manual_seed(0)
    model = models.build(options, vocabulary_size=150).double()
    with caplog.at_level(logging.INFO):
        model.estimate(corpus)
    reported = torch.tensor([float(x) for x in re.findall(r"log-likelihood of (-[\d.]+)", caplog.text)])
    assert len(reported) == 16  # the last one again at the end
    assert reported.diff().min() >= 0
    assert reported[-1] - reported[0] > 0.05
    if context == "sentence":  # in which EM and `score` begin at the same places
        assert score(model, corpus.splits["train"], context).perplexity < math.exp(-float(reported[-1]))


def test_gradient_training_starts_where_em_stops(corpus: Corpus):
    pair = []
    for gradient_training in (False, True):
        torch.manual_seed(0)
        options = {"name": "hmm", "states": 4, "begin": "random", "iterations": 2, "pseudocount": 0.1}
        pair.append(models.build(options | {"gradient": gradient_training}, vocabulary_size=150))
        pair[-1].estimate(corpus)
    fixed, learning = pair
    assert not list(fixed.parameters())
    assert {name for name, _ in learning.named_parameters()} == {"start", "transition", "emission"}
    for name, table in learning.named_parameters():
        torch.testing.assert_close(table.detach(), fixed.get_buffer(name))
