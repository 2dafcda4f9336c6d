"""Skip-gram, CBOW and fastText beside gensim: words in a CPU second, and figures.

    python scripts/benchmarks/vectors.py --rounds 3
    python scripts/benchmarks/vectors.py --text ptb.txt mr.txt --methods skipgram --options window=10 sample=1e-4

One thread. Rounds alternate between the tools and have seeds 0, 1, … Both have the default options but those of
``--options``. gensim reads the same lines.
"""

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gensim.models import FastText, Word2Vec
from gensim.models.word2vec import LineSentence
from omegaconf import OmegaConf

import lmzoo.words.vectors  # noqa: F401  which registers the methods
from lmzoo.core.configs import defaults
from lmzoo.core.memory import keep_freed_memory
from lmzoo.corpus import load_corpus
from lmzoo.words.vectors.measures import Pairs
from lmzoo.words.vectors.method import methods
from lmzoo.words.vectors.word_vectors import WordVectors

DATA = Path(os.environ.get("LMZOO_DATA", "data"))
METHODS = ("skipgram", "cbow", "fasttext")
SETS = ("WS-353-ALL", "MEN-TR-3k", "SIMLEX-999")


def ours(texts: Sequence[str], options: dict[str, Any], seed: int) -> tuple[WordVectors, float]:
    """Vectors, and words read in a CPU second."""
    own = {"train": list(texts), "valid": texts[0], "unknown": True, "context": "sentence"}
    corpus = load_corpus(defaults("corpus", "text") | own)
    method = methods.build(options)
    started = time.process_time()
    method.start(corpus, seed)
    for number in range(method.steps):
        method.step(number)
    speed = len(method.text.tokens) * options["epochs"] / (time.process_time() - started)
    return WordVectors(method.words, method.vectors()), speed


class Lines:
    """The sentences of several files, which gensim reads again in each epoch."""

    def __init__(self, texts: Sequence[str]):
        self.texts = texts

    def __iter__(self):
        return itertools.chain.from_iterable(map(LineSentence, self.texts))


def gensims(texts: Sequence[str], options: dict[str, Any], seed: int) -> tuple[WordVectors, float]:
    """Vectors, and words read in a CPU second."""
    o, kind, more = options, Word2Vec, {}
    if o["name"] == "fasttext":
        kind, more = FastText, {"min_n": o["shortest"], "max_n": o["longest"], "bucket": o["buckets"]}
    started = time.process_time()
    model = kind(
        sentences=Lines(texts), sg=int(o["name"] != "cbow"), vector_size=o["dim"], window=o["window"],
        epochs=o["epochs"], min_count=o["min_count"], negative=o["negative"], sample=o["sample"], workers=1,
        seed=seed + 1, alpha=o["lr"], **more,
    )  # fmt: skip
    speed = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key) * o["epochs"]
    return WordVectors(model.wv.index_to_key, torch.from_numpy(model.wv.vectors)), speed / (
        time.process_time() - started
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", nargs="+", default=[str(DATA / "ptb/ptb.train.txt")], help="files (Penn Treebank)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--options", nargs="+", default=[], metavar="NAME=VALUE", help="of both, such as epochs=10")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    sets = [Pairs.read(DATA / "wordsim" / f"EN-{name}.txt") for name in SETS]
    for name in arguments.methods:
        options = defaults("method", name) | dict(OmegaConf.from_dotlist(arguments.options))
        speeds: dict[str, list[float]] = {"lmzoo": [], "gensim": []}
        for seed in range(arguments.rounds):
            for tool, learn in (("lmzoo", ours), ("gensim", gensims)):
                vectors, speed = learn(arguments.text, options, seed)
                speeds[tool].append(speed)
                figures = ", ".join(f"{pairs.name} {pairs.measure(vectors)[0]:.3f}" for pairs in sets)
                print(f"{name} {tool} seed {seed}: {speed:,.0f} words/s, {figures}", flush=True)
        medians = {tool: statistics.median(each) for tool, each in speeds.items()}
        print(f"{name}: medians {medians['lmzoo']:,.0f} and {medians['gensim']:,.0f} words/s, ratio "
              f"{medians['lmzoo'] / medians['gensim']:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
