"""Log-linear models beside scikit-learn's multinomial logistic regression and a straightforward PyTorch module.

    python scripts/benchmarks/loglinear.py optimum     # bigrams to the optimum: objective and seconds as V and N grow
    python scripts/benchmarks/loglinear.py training    # Penn Treebank: tokens trained on in a second, peak memory

scikit-learn has a weight for every pair of words; "all pairs" is our model with the same features, "seen pairs" the
model as it is. The PyTorch module is a sparse embedding, a row of V weights for each last word, under
`nn.CrossEntropyLoss`; it has no penalty. All seconds are of CPU time on one thread; peaks are of a process each.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from lmzoo.core.configs import defaults
from lmzoo.corpus import load_corpus
from lmzoo.models.maxent.exponential import Events, Exponential
from lmzoo.models.maxent.features import attributes, contexts, parse_templates
from lmzoo.models.maxent.lattice import outcome_logprobs
from lmzoo.models.maxent.loglinear import LogLinear

L2 = 0.5
WINDOW = 1024
MIB = 1024 if sys.platform == "linux" else 1024**2
"""Units of ru_maxrss in a MiB."""


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def objective(x: Tensor, y: Tensor, weights: Tensor) -> float:
    """Of (V, 1 + V) weights of words, after anything and after each word: the penalised negative log-likelihood."""
    scores = weights[:, 0] + weights[:, 1:].T[x]  # (N, V)
    loss = nn.functional.cross_entropy(scores, y, reduction="sum")
    return float(loss + L2 / 2 * (weights**2).sum())


def optimum(sizes: list[int], types: list[int]) -> None:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    print("| V | N | scikit-learn s | all pairs s | seen pairs s | objectives differ by |\n|---|---|---|---|---|---|")
    for V in types:
        for N in sizes:
            source = {"states": 20, "words": V - 1, "sentence_length": 15, "concentration": 0.3, "seed": 1}
            corpus = {"name": "markov", "context": "sentence", "train": N, "valid": 100, "test": 100}
            y = load_corpus(corpus | source).splits["train"]
            if len(y.unique()) < V:  # scikit-learn knows only the words that the text has
                continue
            x = contexts(y, 2)[:, 0]
            both, positions = np.stack([np.zeros_like(x), 1 + x.numpy()], 1), np.arange(len(x) + 1) * 2
            matrix = csr_matrix((np.ones(both.size), both.ravel(), positions), shape=(len(x), 1 + V))
            theirs = LogisticRegression(C=1 / L2, fit_intercept=False, tol=1e-10, max_iter=10_000)
            slow = seconds(lambda: theirs.fit(matrix, y.numpy()))  # noqa: B023 - called at once
            weights = torch.zeros(V, 1 + V, dtype=torch.float64)
            weights[torch.from_numpy(theirs.classes_)] = torch.from_numpy(theirs.coef_)
            words = torch.arange(V)
            nothing = attributes(words.new_full((V, 1), V), V)
            every = attributes(words.repeat_interleave(V)[:, None], V)
            seen: Events = nothing, words
            listed: Events = torch.cat([nothing, every]), torch.cat([words, words.repeat(V)])
            ours, quick = (
                Exponential(
                    seen,
                    size=V + 1,
                    templates=[(), *parse_templates("w", 2, (), "")],
                    l2=[L2],
                    l1=[0.0],
                    trainable=False,
                ).double()
                for _ in range(2)
            )
            text: Events = attributes(x[:, None], V), y
            until = {"tolerance": 1e-12, "max_iterations": 10_000}
            fast = seconds(lambda: ours.fit(text, listed, **until))  # noqa: B023
            faster = seconds(lambda: quick.fit(text, seen, **until))  # noqa: B023
            features = ours.features
            table = torch.zeros(V, 1 + V, dtype=torch.float64)
            for column, rows in ((0, nothing[:1]), *((1 + w, every[w * V : w * V + 1]) for w in range(V))):
                row = features.rows(rows, features.templates[min(column, 1)])
                place = torch.searchsorted(features.pairs, row * V + words)
                table[:, column] = ours.weights[place]
            expected, found = objective(x, y, weights), objective(x, y, table)
            difference = f"{(found - expected) / expected:.1e}"
            print(f"| {V:,} | {len(y):,} | {slow:.2f} | {fast:.2f} | {faster:.3f} | {difference} |", flush=True)


class Plain(nn.Module):
    """Bigrams as most people would write them."""

    def __init__(self, V: int):
        super().__init__()
        self.bigrams = nn.Embedding(V, V, sparse=True)
        nn.init.zeros_(self.bigrams.weight)
        self.unigrams = nn.Parameter(torch.zeros(V))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.bigrams(x[:, -1]) + self.unigrams, y)


CASES = {
    "order 2, PyTorch module, minibatches": (2, None),
    "order 2, lmzoo, minibatches": (2, "minibatch"),
    "order 2, lmzoo, full batch": (2, "lbfgs"),
    "order 5, lmzoo, minibatches": (5, "minibatch"),
    "order 5, lmzoo, full batch": (5, "lbfgs"),
}


def train(case: str, steps: int) -> None:
    """A median step of one case: prints its tokens a second and the process's peak beyond its start."""
    corpus = load_corpus(defaults("corpus", "ptb"))
    V, tokens = len(corpus.vocabulary), corpus.splits["train"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    order, training = CASES[case]
    options = defaults("model", "loglinear")
    options |= {"order": order, "training": "minibatch"}
    del options["name"]
    context = contexts(tokens, order)
    if training is None:
        model = Plain(V)
    else:
        model = LogLinear(vocabulary_size=V, **options)
        model.estimate(corpus)
    if training == "lbfgs":
        lattice = model.exponential.features.lattice(attributes(context, V), tokens)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1.0)
    times = []
    for start in range(0, WINDOW * steps, WINDOW):
        started = time.process_time()
        x, y = context[start : start + WINDOW], tokens[start : start + WINDOW]
        if training is None:
            loss = model(x, y)
        elif training == "minibatch":
            loss = model.penalty() - model.token_logprobs(x, y).mean()
        else:
            loss = model.penalty() - outcome_logprobs(model.exponential.weights, lattice).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.process_time() - started)
    count = len(tokens) if training == "lbfgs" else WINDOW
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MIB
    print(f"| {case} | {count:,} | {count / statistics.median(times):,.0f} | {peak:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["optimum", "training"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[8000, 32_000])
    parser.add_argument("--types", type=int, nargs="+", default=[20, 100, 300])
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "optimum":
        optimum(arguments.tokens, arguments.types)
    elif arguments.case:
        train(arguments.case, arguments.steps)
    else:
        print("| | tokens a step | tokens/s | peak MiB beyond the start |\n|---|---|---|---|", flush=True)
        for case in CASES:
            command = [sys.executable, __file__, "training", "--case", case, "--steps", str(arguments.steps)]
            print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
