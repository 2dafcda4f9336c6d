"""Training and evaluation of the LSTM beside a plain PyTorch module, and beside its matrix products alone.

    python scripts/benchmarks/recurrent.py
    python scripts/benchmarks/recurrent.py --threads 2

The plain module is written as public examples write it: `nn.Embedding`, `nn.LSTM`, `nn.Linear`, cross-entropy, AdamW
with PyTorch's defaults, gradients clipped at norm 1. All read the same words, drawn by Zipf's law. Each works in a
process of its own, and they take turns: a round is one training step of each, then one evaluation of each. Figures are
medians: of CPU time on one thread, of the clock on several. The products are those of a training step, written into
memory that is there; no step that computes the same can take less time.
"""

import argparse
import itertools
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.configs import defaults
from lmzoo.core.memory import keep_freed_memory
from lmzoo.core.options import call
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.neural.recurrent import LSTM
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.descent import Descent

WORDS, HIDDEN, LAYERS, ROWS, LENGTH, CLASSES = 10_000, 200, 2, 20, 35, 128
EVALUATED = 7_000
"""Tokens of a text to evaluate."""
MIB = 1024 if sys.platform == "linux" else 1024**2
"""Units of ru_maxrss in a MiB."""


class Plain(nn.Module):
    """The module of the examples."""

    def __init__(self, words: int, hidden: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.recurrent = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, words)

    def forward(self, inputs: Tensor, memory: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, memory = self.recurrent(self.embedding(inputs), memory)
        return self.output(hidden), memory


def rows_of(text: Tensor, rows: int) -> Tensor:
    """(N,) text -> (rows, N / rows + 1), each row with the end of a sentence before it."""
    length = len(text) // rows
    return F.pad(text[: rows * length].view(rows, length), (1, 0), value=EOS_ID)


def plain_losses(module: Plain, text: Tensor, rows: int, length: int) -> Iterator[float]:
    """The loss of each training step, epoch after epoch."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=defaults("optimizer", "adamw")["lr"], weight_decay=0.0)
    stream = rows_of(text, rows)
    while True:
        memory = None
        for start in range(0, stream.shape[1] - 1, length):
            part = stream[:, start : start + length + 1]
            if memory is not None:
                memory = (memory[0].detach(), memory[1].detach())
            optimizer.zero_grad()
            logits, memory = module(part[:, :-1], memory)
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            yield loss.item()


@torch.no_grad()
def plain_evaluation(module: Plain, text: Tensor, length: int, rows: int = 1) -> float:
    """The mean loss of a text. In one row no token lacks what came before it."""
    stream, memory, total = rows_of(text, rows), None, 0.0
    for start in range(0, stream.shape[1] - 1, length):
        part = stream[:, start : start + length + 1]
        logits, memory = module(part[:, :-1], memory)
        total += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
    return total / len(text)


def our_model(words: int, hidden: int, layers: int, classes: int | None) -> LSTM:
    sizes = {"embedding": hidden, "hidden": hidden, "layers": layers, "classes": classes}
    return models.build(defaults("model", "lstm") | sizes | {"tied": False, "dropout": 0.0}, vocabulary_size=words)


def our_losses(model: LSTM, text: Tensor, rows: int, length: int) -> Iterator[float]:
    """The loss of each training step, epoch after epoch."""
    words = ["<eos>", *(f"w{i}" for i in range(1, model.vocabulary_size))]
    corpus = Corpus("drawn", "stream", Vocabulary(words), {"train": text}, {})
    changed = {"batch_size": rows, "bptt": length, "clip": 1.0, "precision": "float32"}
    descent = Descent(
        model, corpus, call(TrainerOptions, defaults("trainer", "default") | changed, "trainer."), seed=0,
        optimizer=defaults("optimizer", "adamw"), schedule=defaults("schedule", "constant"),
    )  # fmt: skip
    for epoch in itertools.count():
        for window in descent.windows.epoch(epoch):
            yield float(torch.tensor(descent.step(window)["perplexity/train"]).log())


def products() -> Callable[[], None]:
    """The matrix products of a training step: forward, to the inputs of each layer, and to its weights."""
    tokens = ROWS * LENGTH
    once = [(tokens, HIDDEN, WORDS), *[(tokens, HIDDEN, 4 * HIDDEN)] * LAYERS]  # the output layer, the cells' inputs
    factors = [(torch.randn(n, d), torch.randn(v, d), torch.randn(n, v)) for n, d, v in once]
    results = [tuple(torch.empty_like(part) for part in parts) for parts in factors]
    memory, recurrent, gates = torch.randn(ROWS, HIDDEN), torch.randn(4 * HIDDEN, HIDDEN), torch.randn(ROWS, 4 * HIDDEN)
    memories, all_gates = torch.randn(tokens, HIDDEN), torch.randn(tokens, 4 * HIDDEN)
    after, before, to_recurrent = torch.empty_like(gates), torch.empty_like(memory), torch.empty_like(recurrent)

    def multiply() -> None:
        for (x, W, g), (to_x, to_W, y) in zip(factors, results, strict=True):
            torch.mm(x, W.T, out=y)
            torch.mm(g, W, out=to_x)
            torch.mm(g.T, x, out=to_W)
        for _ in range(LAYERS):
            for _ in range(LENGTH):
                torch.mm(memory, recurrent.T, out=after)
                torch.mm(gates, recurrent, out=before)
            torch.mm(all_gates.T, memories, out=to_recurrent)

    return multiply


NAMES = {"plain module": None, "lmzoo": None, f"lmzoo, {CLASSES} classes": CLASSES, "products alone": None}
"""The classes of ours."""


def tasks(name: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """A training step, and an evaluation."""
    torch.manual_seed(0)
    text = torch.multinomial(1 / torch.arange(1, WORDS + 1), ROWS * LENGTH * 20, replacement=True)
    evaluated = text[:EVALUATED]
    if name == "products alone":
        return products(), lambda: None
    if name == "plain module":
        module = Plain(WORDS, HIDDEN, LAYERS)
        losses = plain_losses(module, text, ROWS, LENGTH)
        return lambda: next(losses), lambda: plain_evaluation(module, evaluated, LENGTH)
    keep_freed_memory()  # as the commands do
    model = our_model(WORDS, HIDDEN, LAYERS, NAMES[name])
    steps = our_losses(model, text, ROWS, LENGTH)
    return lambda: next(steps), lambda: text_logprobs(model, evaluated, "stream")


def work(name: str, threads: int, asked: Connection) -> None:
    """Time a training step (0) or an evaluation (1) whenever asked; None ends it, and it tells its peak memory."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    both = tasks(name)
    while (which := asked.recv()) is not None:
        started = clock()
        both[which]()
        asked.send(clock() - started)
    asked.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MIB)


def measured(rounds: int, threads: int) -> tuple[dict[str, list[list[float]]], dict[str, float]]:
    """Seconds of the training steps and of the evaluations of each, and the MiB by which its memory grew."""
    spawn, pipes = multiprocessing.get_context("spawn"), {}
    for name in NAMES:
        pipes[name], theirs = spawn.Pipe()
        spawn.Process(target=work, args=(name, threads, theirs), daemon=True).start()
    seconds: dict[str, list[list[float]]] = {name: [[], []] for name in NAMES}
    for turn in range(-2, rounds):  # two rounds to warm up
        for which in (0, 1):
            for name, pipe in pipes.items():
                pipe.send(which)
                took = pipe.recv()
                if turn >= 0:
                    seconds[name][which].append(took)
    peaks = {}
    for name, pipe in pipes.items():
        pipe.send(None)
        peaks[name] = pipe.recv()
    return seconds, peaks


def ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times as long theirs take, round by round."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    seconds, peaks = measured(arguments.rounds, arguments.threads)
    clock = "CPU time" if arguments.threads == 1 else "the clock"
    print(f"{arguments.threads} threads, {clock}, medians of {arguments.rounds} rounds in turns\n")
    print("| | tokens/s, training | × plain | share of the floor | tokens/s, evaluation | × plain | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for name, (train, evaluate) in seconds.items():
        row = [
            name,
            f"{ROWS * LENGTH / statistics.median(train):,.0f}",
            f"{ratio(train, seconds['plain module'][0]):.2f}",
        ]
        if name == "products alone":
            row += ["1", "", "", ""]
        else:
            floor = "" if NAMES[name] else f"{ratio(train, seconds['products alone'][0]):.2f}"
            row += [floor, f"{EVALUATED / statistics.median(evaluate):,.0f}"]
            row += [f"{ratio(evaluate, seconds['plain module'][1]):.2f}", f"{peaks[name]:,.0f}"]
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
