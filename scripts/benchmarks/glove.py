"""GloVe beside a loop in C that does what that of Stanford's glove.c does, in one thread: seconds, and figures.

    python scripts/benchmarks/glove.py --rounds 3

The loop takes one entry of the matrix after the other, in an order drawn once, in float64: equation 8 of Pennington et
al. (2014) by AdaGrad, whose sums begin with 1. gcc compiles it at the start. Both learn from the matrix that lmzoo
counts on Penn Treebank, with the default options; lmzoo's seconds include the counting. Rounds alternate, and have
seeds 0, 1, …
"""

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import lmzoo.words.vectors  # noqa: F401  which registers the methods
from lmzoo.core.configs import defaults
from lmzoo.core.memory import keep_freed_memory
from lmzoo.corpus import load_corpus
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.measures import Pairs
from lmzoo.words.vectors.method import WordText, methods
from lmzoo.words.vectors.word_vectors import WordVectors

DATA = Path(os.environ.get("LMZOO_DATA", "data"))
SETS = ("WS-353-ALL", "MEN-TR-3k", "SIMLEX-999")

LOOP = r"""
#include <math.h>

void epoch(long entries, const long *row, const long *column, const double *x, double *words, double *contexts,
           double *word_squares, double *context_squares, long d, double x_max, double alpha, double rate) {
    for (long e = 0; e < entries; e++) {
        double *w = words + row[e] * (d + 1), *c = contexts + column[e] * (d + 1);
        double *w_sq = word_squares + row[e] * (d + 1), *c_sq = context_squares + column[e] * (d + 1);
        double error = w[d] + c[d] - log(x[e]);
        for (long i = 0; i < d; i++) error += w[i] * c[i];
        double push = rate * error * (x[e] < x_max ? pow(x[e] / x_max, alpha) : 1);
        for (long i = 0; i < d; i++) {
            double to_w = push * c[i], to_c = push * w[i];
            w[i] -= to_w / sqrt(w_sq[i]);
            c[i] -= to_c / sqrt(c_sq[i]);
            w_sq[i] += to_w * to_w;
            c_sq[i] += to_c * to_c;
        }
        w[d] -= push / sqrt(w_sq[d]);
        c[d] -= push / sqrt(c_sq[d]);
        w_sq[d] += push * push;
        c_sq[d] += push * push;
    }
}
"""


def compiled(flags: Sequence[str]) -> ctypes.CDLL:
    """The loop as a library."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(LOOP)
        subprocess.run(["gcc", *flags, "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
        return ctypes.CDLL(str(library))


class Loop:
    """Tables of w and b, and of w̃ and b̃, that the loop learns.

    Attributes:
        tables: (2, V, d + 1) float64.
        squares: of the same shape; sums of squared gradients.
    """

    def __init__(self, library: ctypes.CDLL, X: Cooccurrences, dim: int, seed: int):
        random = np.random.default_rng(seed)
        order = random.permutation(len(X.row))
        self.library, self.dim = library, dim
        self.entries = [part.numpy()[order] for part in (X.row, X.column, X.weight.double())]
        self.tables = (random.random((2, X.size, dim + 1)) - 0.5) / dim
        self.squares = np.ones_like(self.tables)

    def epoch(self, x_max: float, alpha: float, lr: float) -> None:
        arrays = [*self.entries, *self.tables, *self.squares]
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
        numbers = ctypes.c_long(self.dim), *map(ctypes.c_double, (x_max, alpha, lr))
        self.library.epoch(ctypes.c_long(len(self.entries[0])), *pointers, *numbers)

    def vectors(self) -> torch.Tensor:
        return torch.from_numpy(self.tables[:, :, : self.dim].sum(0)).float()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="-Ofast -march=native -funroll-loops", help="of gcc (%(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    library, o = compiled(arguments.flags.split()), defaults("method", "glove")
    sets = [Pairs.read(DATA / "wordsim" / f"EN-{name}.txt") for name in SETS]
    corpus = load_corpus(defaults("corpus", "ptb") | {"context": "sentence"})
    text = WordText.of(corpus, o["min_count"])
    X = Cooccurrences.of(text, o["window"], "harmonic")
    for seed in range(arguments.rounds):
        started = time.process_time()
        method = methods.build(o)
        method.start(corpus, seed)
        for number in range(method.steps):
            method.step(number)
        ours = time.process_time() - started
        started = time.process_time()
        loop = Loop(library, X, o["dim"], seed)
        for _ in range(o["epochs"]):
            loop.epoch(o["x_max"], o["alpha"], o["lr"])
        theirs = time.process_time() - started
        for tool, seconds, matrix in (("lmzoo", ours, method.vectors()), ("C", theirs, loop.vectors())):
            vectors = WordVectors(text.words, matrix)
            figures = ", ".join(f"{pairs.name} {pairs.measure(vectors)[0]:.3f}" for pairs in sets)
            speed = o["epochs"] * len(X.row) / seconds
            print(f"{tool} seed {seed}: {seconds:.1f} s, {speed:,.0f} updates/s, {figures}", flush=True)


if __name__ == "__main__":
    main()
