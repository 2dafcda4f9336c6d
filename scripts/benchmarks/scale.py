"""How time and memory grow with the tokens of a text, the words of a vocabulary, the states of an HMM and the ranks.

    python scripts/benchmarks/scale.py scale.csv --plot scale.png
    python scripts/benchmarks/scale.py scale.csv --plot scale.png --most 100000000    5-grams of a larger text, too

Words are drawn by Zipf's law. Every figure is from a process of its own, on one thread: CPU time, and the most memory
beyond that of the imports. Counting models are estimated; the others take steps, and the figure is the median of a
step's time for each of its tokens. Where several processes, ranks, share the work, time is on the clock, and memory is
that of rank 0: leave them a core each. Figures that the file has are not measured again, so an interrupted run goes on.
"""

import argparse
import csv
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ngram import zipf

from lmzoo.core import ranks
from lmzoo.core.configs import defaults
from lmzoo.core.files import write_output
from lmzoo.core.memory import keep_freed_memory
from lmzoo.core.options import call
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.reports.charts import charts, legend, logarithmic, rendered
from lmzoo.runs.loading import build_model
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.descent import Descent

STEPS = 7
"""Steps that are timed, after two that are not."""
SHARED = {"max_tokens": 8192}
"""The windows that ranks share: with few tokens for each, they do little but send gradients to each other."""
SENTENCE = 25
"""Words of a sentence, its end included."""
WORDS = 10_000
TOKENS = [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
VOCABULARIES = [10_000, 30_000, 100_000, 267_735]
LSTM = {"name": "lstm", "embedding": 200, "hidden": 200, "dropout": 0.0}
NGRAM = {"name": "ngram", "order": 5}
RANKS = [n for n in (1, 2, 4, 8) if n <= (os.cpu_count() or 1)]
LINES: dict[tuple[str, str], list[tuple[int, dict[str, Any], int, int]]] = {
    ("5-gram, 267,735 words", "tokens of the text"): [(n, NGRAM, n, 267_735) for n in TOKENS],
    ("5-gram, 10,000 words", "tokens of the text"): [(n, NGRAM, n, WORDS) for n in TOKENS[:4]],
    ("LSTM, one softmax", "words of the vocabulary"): [(n, LSTM | {"classes": None}, 10**6, n) for n in VOCABULARIES],
    ("LSTM, √words classes by frequency", "words of the vocabulary"): [
        (n, LSTM | {"classes": round(math.sqrt(n)), "clustering": "frequency"}, 10**6, n) for n in VOCABULARIES
    ],
    ("hmm, all of EM", "states"): [(n, {"name": "hmm", "states": n}, 10**5, WORDS) for n in (64, 128, 256, 512)],
    ("vlhmm, no state left out", "states"): [
        (n, {"name": "vlhmm", "states": n, "clusters": 64, "state_dropout": 0.0}, 10**5, WORDS)
        for n in (512, 1024, 2048, 4096)
    ],
    ("LSTM, 100 classes", "ranks"): [(n, LSTM | {"classes": 100}, 10**6, WORDS) for n in RANKS],
    ("vlhmm, 2,048 states", "ranks"): [
        (n, {"name": "vlhmm", "states": 2048, "clusters": 64, "state_dropout": 0.0}, 10**5, WORDS) for n in RANKS
    ],
    ("5-gram, 30 million tokens", "ranks"): [(n, NGRAM, 3 * 10**7, WORDS) for n in RANKS],
}
"""The lines of the plots by name and axis: the value on the axis, the model, tokens and words."""
PER_TOKEN = {
    "tokens of the text": ("n-grams", "CPU s"),
    "words of the vocabulary": ("vocabulary", "CPU ms a token"),
    "states": ("hidden states", "CPU ms a token"),
    "ranks": ("ranks", "ms a token on the clock"),
}


def peak() -> float:
    """The most memory that this process has taken, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def drawn(tokens: int, words: int) -> Corpus:
    """A corpus of sentences; int32 like a large text, which a file of the cache would hold."""
    random, text = np.random.default_rng(0), torch.empty(tokens, dtype=torch.int32)
    for begin in range(0, tokens, 10**6):
        part = text[begin : begin + 10**6]
        part.copy_(torch.from_numpy(1 + zipf(random.random(len(part)), words - 1).clip(max=words - 2)))
    text[SENTENCE - 1 :: SENTENCE] = EOS_ID
    text[-1] = EOS_ID
    vocabulary = Vocabulary(["<eos>", *(f"w{i}" for i in range(1, words))])
    return Corpus("drawn", "sentence", vocabulary, {"train": text, "valid": text[: 40 * SENTENCE]}, {})


def measure(model: dict[str, Any], tokens: int, words: int) -> dict[str, float]:
    """Seconds of estimating, and milliseconds of training for each token where the model learns by steps."""
    by_ranks = "LOCAL_RANK" in os.environ
    clock = time.perf_counter if by_ranks else time.process_time
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    corpus = drawn(tokens, words)
    before = peak()
    built = build_model(defaults("model", model["name"]) | model, corpus.vocabulary)
    started = clock()
    built.estimate(corpus)
    figures = {"estimate": clock() - started}
    if any(parameter.requires_grad for parameter in built.parameters()):
        trainer = defaults("trainer", "default") | {"precision": "float32"} | (SHARED if by_ranks else {})
        options = call(TrainerOptions, trainer, "trainer.")
        recipe = {"optimizer": defaults("optimizer", "adamw"), "schedule": defaults("schedule", "constant")}
        descent, times = Descent(built, corpus, options, seed=0, **recipe), []
        descent.begin()
        descent.share()
        for window, _ in zip(descent.windows.epoch(0), range(STEPS + 2), strict=False):
            started = clock()
            descent.step(window)
            times.append((clock() - started) / window.count * 1000)
        figures["step"] = statistics.median(times[2:])
    return figures | {"memory": peak() - before}


def slope(values: list[tuple[int, float]]) -> float:
    """The exponent b of the figures ~ a xᵇ, from the upper half of the values."""
    upper = np.log(np.array(values[(len(values) - 1) // 2 :], float))
    return float(np.polyfit(upper[:, 0], upper[:, 1], 1)[0])


def plot(found: dict[tuple[str, int], dict[str, float]], file: Path) -> None:
    """Two panels for each axis: time on the left, memory on the right."""
    with charts("--plot") as pyplot:
        figure, panels = pyplot.subplots(len(PER_TOKEN), 2, figsize=(7.2, 9.6), sharex="row")
        for row, (axis, (title, unit)) in zip(panels, PER_TOKEN.items(), strict=True):
            for panel, kind, what in zip(row, ("time", "memory"), (unit, "GiB"), strict=True):
                for name in (name for name, its_axis in LINES if its_axis == axis):
                    values = [(x, found[name, x][kind]) for x, *_ in LINES[name, axis] if (name, x) in found]
                    panel.plot(*zip(*values, strict=True), marker="o", label=f"{name}, b={slope(values):.2f}")
                panel.set(title=f"{title}: {kind}", xlabel=axis, ylabel=what)
                panel.margins(x=0.15, y=0.18)
                logarithmic(panel, "y")
                logarithmic(panel, "x")
                if axis == "ranks":
                    panel.set_xticks(RANKS, [str(n) for n in RANKS])
                legend(panel, fontsize=6.5)
        write_output(file, rendered(figure, file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a CSV file of the figures")
    parser.add_argument("--plot", type=Path, required=True)
    parser.add_argument("--most", type=int, default=30_000_000, help="tokens")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with ranks.process_group():
            figures = measure(*json.loads(arguments.one))
            if ranks.is_main():
                print(json.dumps(figures))
        return
    rows = list(csv.reader(arguments.file.open())) if arguments.file.exists() else []
    found = {(name, int(x)): {"time": float(cpu), "memory": float(memory)} for name, x, cpu, memory in rows}
    for (name, axis), points in LINES.items():
        for x, model, tokens, words in points:
            if (name, x) in found or tokens > arguments.most:
                continue
            several = (
                ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={x}"] if axis == "ranks" else []
            )
            command = [sys.executable, *several, __file__, arguments.file, "--plot", arguments.plot]
            done = subprocess.run(
                [*command, "--one", json.dumps([model, tokens, words])], stdout=subprocess.PIPE, check=True
            )
            figures = json.loads(done.stdout)
            estimate = figures["estimate"] if axis == "tokens of the text" else figures["estimate"] / tokens * 1000
            row = [name, x, round(figures.get("step", estimate), 4), round(figures["memory"], 3)]
            found[name, x] = {"time": row[2], "memory": row[3]}
            print(*row, sep=",", flush=True)
            with arguments.file.open("a", newline="") as stream:
                csv.writer(stream).writerow(row)
    plot(found, arguments.plot)


if __name__ == "__main__":
    main()
