"""A training step of the feed-forward model beside straightforward PyTorch modules.

    python scripts/benchmarks/nnlm.py

All have the same layers up to the output's, see the same words, drawn by Zipf's law, and take turns; the figures are
medians of seconds. One softmax over all words: lmzoo and `nn.CrossEntropyLoss`; several: lmzoo with 128 classes of
equal size and `nn.AdaptiveLogSoftmaxWithLoss` (Grave et al. 2017); no softmax, but 25 noise words for each token:
noise-contrastive estimation (Mnih & Teh 2012). Each step is a forward pass, a backward pass and AdamW. Peak memory is
of a process of its own for each.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.models.neural.nnlm import NNLM

WORDS, ORDER, EMBEDDING, HIDDEN, DROPOUT = 10_000, 8, 100, 200, 0.3
CUTOFFS = [2_000, 6_000]
"""Of the adaptive softmax: so many words are frequent, and so many not rare."""
NOISE = 25
"""Noise words for each token."""
MIB = 1024 if sys.platform == "linux" else 1024**2
"""Units of ru_maxrss in a MiB."""


class NoiseContrast(nn.Module):
    """Mnih & Teh, *A fast and simple algorithm for training neural probabilistic language models*, ICML 2012.

    Each token is told from words drawn from the unigram distribution; scores are taken for log-probabilities, Z(h) = 1.
    """

    noise: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Embedding(WORDS, HIDDEN), nn.Embedding(WORDS, 1)
        self.register_buffer("noise", F.normalize(1 / torch.arange(1, WORDS + 1), 1, 0))

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        noise = torch.multinomial(self.noise, len(tokens) * NOISE, replacement=True).view(-1, NOISE)
        words = torch.cat([tokens[:, None], noise], 1)  # (N, 1 + k)
        scores = torch.bmm(self.weight(words), hidden[:, :, None])[:, :, 0]
        odds = scores + self.bias(words)[:, :, 0] - (NOISE * self.noise[words]).log()
        real = F.one_hot(torch.zeros_like(tokens), 1 + NOISE).to(odds.dtype)
        return F.binary_cross_entropy_with_logits(odds, real, reduction="sum") / len(tokens)


class Plain(nn.Module):
    """As most people would write it: a logit for every word, an adaptive softmax, or noise words."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(WORDS, EMBEDDING),
            nn.Flatten(),
            nn.Dropout(DROPOUT),
            nn.Linear((ORDER - 1) * EMBEDDING, HIDDEN),
            nn.Tanh(),
            nn.Dropout(DROPOUT),
        )
        if output == "NCE":
            self.loss = NoiseContrast()
        elif output == "adaptive":
            self.loss = nn.AdaptiveLogSoftmaxWithLoss(HIDDEN, WORDS, cutoffs=CUTOFFS)
        else:
            self.output, self.cross_entropy = nn.Linear(HIDDEN, WORDS), nn.CrossEntropyLoss()
            self.loss = lambda hidden, tokens: self.cross_entropy(self.output(hidden), tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        history = torch.cat([tokens.new_zeros(len(tokens), ORDER - 1), tokens], dim=1)
        context = history.unfold(1, ORDER, 1)[..., :-1].flatten(0, 1)  # (BT, n - 1)
        loss = self.loss(self.layers(context), tokens.flatten())
        return loss if isinstance(loss, Tensor) else loss.loss


NAMES = {
    "lmzoo": None,
    "PyTorch": "softmax",
    "lmzoo, 128 classes": 128,
    "PyTorch, adaptive": "adaptive",
    "PyTorch, NCE": "NCE",
}
"""The classes of ours, or the output layer of PyTorch's."""


def stepper(name: str, rows: int, length: int, half: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    tokens = torch.multinomial(1 / torch.arange(1, WORDS + 1), rows * length, replacement=True).view(rows, length)
    if name.startswith("lmzoo"):
        model = NNLM(
            vocabulary_size=WORDS, order=ORDER, embedding=EMBEDDING, hidden=HIDDEN, layers=1, context="concatenated",
            memory=0.95, classes=NAMES[name], clustering="brown", direct=False, tied=False, norm=False, gated=False,
            dropout=DROPOUT, init=0.1, embedding_from=None, embedding_frozen=False,
        )  # fmt: skip
    else:
        model = Plain(NAMES[name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = -model(tokens, model.initial_state(rows))[0].mean() if isinstance(model, NNLM) else model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peak", nargs=4, metavar=("NAME", "ROWS", "LENGTH", "HALF"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, rows, length, half = arguments.peak
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        step = stepper(name, int(rows), int(length), half == "1")
        for _ in range(3):
            step()
        print(int((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MIB))
        return
    cases = [(rows, length, half) for rows, length in ((20, 35), (32, 32), (64, 128)) for half in (False, True)]
    peaks = {}  # measured first, since a process starts with its parent's peak as its own
    for rows, length, half in cases:
        for name in NAMES:
            command = [sys.executable, __file__, "--peak", name, str(rows), str(length), str(int(half))]
            peaks[name, rows, length, half] = subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout.strip()
    print(f"{torch.get_num_threads()} threads, medians of {arguments.rounds} rounds in turns")
    print("| tokens a step | precision | | tokens/s | peak MiB beyond the start |\n|---|---|---|---|---|")
    for rows, length, half in cases:
        steps = {name: stepper(name, rows, length, half) for name in NAMES}
        seconds = {name: [] for name in steps}
        for step in steps.values():
            step()
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                started = time.perf_counter()
                step()
                seconds[name].append(time.perf_counter() - started)
        for name, values in seconds.items():
            rate, precision = rows * length / statistics.median(values), "bfloat16" if half else "float32"
            peak = peaks[name, rows, length, half]
            print(f"| {rows * length:,} | {precision} | {name} | {rate:,.0f} | {peak} |", flush=True)


if __name__ == "__main__":
    main()
