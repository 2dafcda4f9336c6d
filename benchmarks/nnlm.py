"""A training step of the feed-forward model beside a straightforward PyTorch module with `nn.CrossEntropyLoss`.

    python benchmarks/nnlm.py

Both have the layers of `experiment=nnlm_2003_ptb`, see the same random words and take turns; the figures are medians of
seconds. Each step is a forward pass, a backward pass and AdamW. Peak memory is of a process of its own for each.
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

from lmzoo.models.nnlm import NNLM

WORDS, ORDER, EMBEDDING, HIDDEN, DROPOUT = 10_000, 8, 100, 200, 0.3
MIB = 1024 if sys.platform == "linux" else 1024**2
"""Units of ru_maxrss in a MiB."""


class Plain(nn.Module):
    """Logits of every next word, as most people would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(WORDS, EMBEDDING),
            nn.Flatten(),
            nn.Dropout(DROPOUT),
            nn.Linear((ORDER - 1) * EMBEDDING, HIDDEN),
            nn.Tanh(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, WORDS),
        )
        self.loss = nn.CrossEntropyLoss()

    def forward(self, tokens: Tensor) -> Tensor:
        history = torch.cat([tokens.new_zeros(len(tokens), ORDER - 1), tokens], dim=1)
        context = history.unfold(1, ORDER, 1)[..., :-1].flatten(0, 1)  # (BT, n - 1)
        return self.loss(self.layers(context), tokens.flatten())


def stepper(name: str, rows: int, length: int, half: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    tokens = torch.randint(WORDS, (rows, length))
    if name == "lmzoo":
        model = NNLM(
            vocabulary_size=WORDS, order=ORDER, embedding=EMBEDDING, hidden=HIDDEN, layers=1, context="concatenated",
            memory=0.95, classes=None, direct=False, tied=False, norm=False, dropout=DROPOUT, init=0.1,
        )  # fmt: skip
    else:
        model = Plain()
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
        for name in ("lmzoo", "PyTorch"):
            command = [sys.executable, __file__, "--peak", name, str(rows), str(length), str(int(half))]
            peaks[name, rows, length, half] = subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout.strip()
    print(f"{torch.get_num_threads()} threads, medians of {arguments.rounds} rounds in turns")
    print("| tokens a step | precision | | tokens/s | peak MiB beyond the start |\n|---|---|---|---|---|")
    for rows, length, half in cases:
        steps = {name: stepper(name, rows, length, half) for name in ("lmzoo", "PyTorch")}
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
