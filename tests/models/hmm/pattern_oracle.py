"""Small HMMs over five words, and log p of every string of at most seven words under each, by a plain recursion."""

import functools
import itertools
import math
import re

import pytest
import torch
from block_hmm_oracle import dense_tables
from hmm_oracle import recursion

from lmzoo.corpus import Vocabulary
from lmzoo.models.combined.chains import chain_of
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.model import LanguageModel, models
from lmzoo.protocol.patterns import Pattern

LETTERS = "abcd"
VOCABULARY = Vocabulary(["<eos>", *LETTERS])
LONGEST = 7
BLOCKS = {"states": 4, "clusters": 2, "dim": 6, "state_dropout": 0.0}
KINDS = {
    "hmm": {"states": 4, "gradient": True},
    "neural_hmm": {"states": 4, "dim": 5},
    "vlhmm": BLOCKS,
    "twolevel_hmm": BLOCKS,
    "lowrank_hmm": BLOCKS | {"features": 3},
    "lowrank_hmm, features in clusters": BLOCKS | {"features": 2, "block_features": True},
}


def make(kind: str, seed: int = 0) -> LanguageModel:
    """A model with random parameters, whose sentences are not very long."""
    torch.manual_seed(seed)
    model = models.build({"name": kind.partition(",")[0]} | KINDS[kind], vocabulary_size=5).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
            if name.endswith(("emission", "word.bias")) and len(parameter) == 5:
                parameter[0] += 1
    return model


@functools.cache
def matching(expression: str) -> list[str]:
    """The strings that match a regular expression."""
    strings = ("".join(letters) for n in range(LONGEST + 1) for letters in itertools.product(LETTERS, repeat=n))
    return list(filter(re.compile(expression).fullmatch, strings))


@torch.no_grad()
def scores(model: LanguageModel) -> dict[str, float]:
    """log p of every string."""
    tables = model.tables()
    if hasattr(model, "cluster"):
        start, transition, emission = dense_tables(model, tables.active)
    else:
        start, transition, emission = tables.start, tables.transition, tables.emission.T
    found = {}
    for n in range(LONGEST + 1):
        strings = list(itertools.product(range(1, 5), repeat=n))
        tokens = torch.tensor([[*string, 0] for string in strings])
        logprobs = recursion(start, transition, emission, tokens)[0].sum(1)
        if n <= 4:
            assert logprobs.tolist() == pytest.approx(over_all_paths(start, transition, emission, tokens).tolist())
        found |= {"".join(LETTERS[w - 1] for w in s): float(p) for s, p in zip(strings, logprobs, strict=True)}
    return found


def over_all_paths(start: torch.Tensor, transition: torch.Tensor, emission: torch.Tensor, tokens: torch.Tensor):
    """(N,) log p of (N, T) tokens, summed over every path of hidden states."""
    z = torch.cartesian_prod(*[torch.arange(len(start))] * tokens.shape[1]).view(-1, tokens.shape[1])  # (paths, T)
    prior = start[z[:, 0]] + transition[z[:, :-1], z[:, 1:]].sum(1)
    return (prior + emission[z, tokens[:, None]].sum(2)).logsumexp(1)


@torch.no_grad()
def product(model: LanguageModel, text: str) -> Product:
    return Product(chain_of(model), Pattern.parse(text, VOCABULARY).automaton())


def encoded(string: str) -> list[int]:
    return [*VOCABULARY.encode([" ".join(string)]).tolist()]


def letters(tokens: list[int]) -> str:
    assert tokens[-1] == 0
    return "".join(VOCABULARY.words[token] for token in tokens[:-1])


def chi_squared(model: LanguageModel, logprobs: dict[str, float], texts: list[str], expression: str) -> float:
    """χ² less its mean, in standard deviations; every text matches."""
    probabilities = {s: math.exp(logprobs[s]) for s in matching(expression)}
    total, counts = sum(probabilities.values()), dict.fromkeys(probabilities, 0)
    for text in texts:
        counts[text] += 1
    expected = {s: len(texts) * p / total for s, p in probabilities.items()}
    frequent = [s for s in probabilities if expected[s] >= 5]
    rare = sum(counts[s] for s in probabilities if expected[s] < 5), sum(e for e in expected.values() if e < 5)
    cells = [*((counts[s], expected[s]) for s in frequent), *([rare] if rare[1] >= 5 else [])]
    chi2, freedom = sum((seen - e) ** 2 / e for seen, e in cells), len(cells) - 1
    return (chi2 - freedom) / math.sqrt(2 * freedom)
