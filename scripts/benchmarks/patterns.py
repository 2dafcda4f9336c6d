"""Time and memory of exact questions to HMMs with random weights: a pattern, samples, a sentence with gaps.

    python scripts/benchmarks/patterns.py
    python scripts/benchmarks/patterns.py --what "twolevel_hmm 16384" --rounds 3

One row for each model, which has a process of its own, of 10,000 words. Times are CPU seconds of one thread, medians of
the rounds. ``tables``: what is computed once for a model. ``first`` and ``next``: preparing a pattern of six states for
sentences of at most 30 words, the first of a model and a later one. ``word``: drawing one word of a single sentence;
``of 64``: the same step for 64 sentences. ``fill``: a sentence with two gaps. Memory is what the process had at most,
above that of the model.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

WORDS = 10_000
MODELS = ["hmm 1024", "vlhmm 16384", "twolevel_hmm 16384", "lowrank_hmm 16384"]
PATTERNS = ["… w50 … w77 w{} … [w3|w9] … w6 … & ..30", "w5 ___ w{} w8 ___ w10 w11 w12"]


def measure(name: str, states: int, rounds: int) -> str:
    """A row of the table."""
    import torch  # in this process alone

    from lmzoo.api.questions import fill
    from lmzoo.corpus import Vocabulary
    from lmzoo.models.combined.chains import chain_of
    from lmzoo.models.hmm.inference.product import Product
    from lmzoo.protocol.model import models
    from lmzoo.protocol.patterns import Pattern

    torch.set_num_threads(1)
    torch.manual_seed(0)
    options = {"name": name, "states": states} | ({"gradient": True} if name == "hmm" else {"clusters": 128})
    model = models.build(options, vocabulary_size=WORDS).eval()
    if name == "hmm":
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
    vocabulary = Vocabulary(["<eos>", *(f"w{number}" for number in range(1, WORDS))])
    asked, gaps = ([text.format(100 + n) for n in range(rounds + 1)] for text in PATTERNS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.no_grad():
        tables, chain = timed(lambda: chain_of(model))
        products = [timed(lambda t=t: Product(chain, Pattern.parse(t, vocabulary).automaton())) for t in asked]
        product = products[0][1]
        assert product.states == 6
        steps = []
        for batch in (1, 64):
            draws = [timed(lambda r=r, b=batch: product.draw(generators(r, b))) for r in range(rounds)]
            steps.append(statistics.median(seconds / max(map(len, texts)) for seconds, texts in draws))
        fills = [timed(lambda t=t: fill(model, vocabulary, t, 1))[0] for t in gaps[:2]]
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    later = statistics.median(seconds for seconds, _ in products[1:])
    seconds = [tables, products[0][0], later, *steps, statistics.median(fills[1:])]
    return f"{name:13} {states:6} " + "".join(f"{value:9.3f}" for value in seconds) + f"{peak:9.2f} GiB"


def generators(first: int, number: int):
    import torch

    return [torch.Generator().manual_seed(1000 * first + seed) for seed in range(number)]


def timed(work):
    """CPU seconds of a work, and its result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", default=MODELS, help='such as "hmm 1024"')
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        kind, size = given.what[0].split()
        print(measure(kind, int(size), given.rounds), flush=True)
        sys.exit()
    print(
        f"{'model':13} {'states':>6} "
        + "".join(f"{c:>9}" for c in ("tables", "first", "next", "word", "of 64", "fill"))
    )
    for what in given.what:
        line = [sys.executable, __file__, "--one", "--what", what, "--rounds", str(given.rounds)]
        subprocess.run(line, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
