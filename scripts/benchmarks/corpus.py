"""A text larger than the usual: how fast it is encoded, in how much memory, and how soon a later start has it.

    python scripts/benchmarks/corpus.py FOLDER --tokens 100000000

The words are drawn by Zipf's law and written to FOLDER, a new folder, as is the cache; it is removed at the end. Every
start is a process of its own, on one thread. Time and memory are those beyond the imports of lmzoo and PyTorch.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from ngram import zipf

from lmzoo.core.configs import defaults
from lmzoo.corpus import load_corpus
from lmzoo.corpus.encoded import SETTLED

PIECE = 10**6
"""How many tokens are drawn and written at once."""
END = 1 / 25
"""The share of ends of lines among tokens."""


def names(words: int) -> list[str]:
    """Different words, the commonest ones short."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    found = []
    for number in range(words):
        word, rest = "", number
        while rest or not word:
            word, rest = word + letters[rest % 26], rest // 26
        found.append(f"{word}{'-ingstable'[: number * 7919 % 10] if number > 99 else ''}")
    return [word if i < 100 else f"{word}{i % 10}" for i, word in enumerate(found)]


def draw(file: Path, tokens: int, words: int) -> None:
    """Write a text of so many tokens, ends of lines included."""
    spelt, random = np.array([f" {word}" for word in names(words)] + ["\n"], object), np.random.default_rng(0)
    with file.open("w", encoding="utf-8") as stream:
        for begin in range(0, tokens, PIECE):
            size = min(PIECE, tokens - begin)
            ranks = zipf(random.random(size), words).clip(max=words - 1)
            ranks[random.random(size) < END] = words
            ranks[-1] = words
            stream.write("".join(spelt[ranks].tolist()))


def peak() -> float:
    """The most memory that this process has taken, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def start(file: Path) -> None:
    """Load the text in this process and print figures as JSON."""
    torch.set_num_threads(1)
    before, clock, cpu = peak(), time.perf_counter(), time.process_time()
    corpus = load_corpus(defaults("corpus", "text") | {"train": str(file), "valid": str(file.with_name("valid"))})
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    figures = {"tokens": len(corpus.splits["train"]), "words": len(corpus.vocabulary), "cpu": cpu, "clock": clock}
    print(json.dumps(figures | {"memory": peak() - before}))


def measure(file: Path, cache: Path) -> None:
    """Three starts in processes of their own."""
    print("| start | tokens | words | CPU s | tokens/s of CPU time | s | memory, MiB |\n|---|---|---|---|---|---|---|")
    for name in ("first", "second", "third"):
        command, environment = (
            [sys.executable, __file__, file.parent, "--start"],
            os.environ | {"LMZOO_CACHE": str(cache)},
        )
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        found = json.loads(done.stdout)
        speed = f"{found['tokens'] / found['cpu']:,.0f}" if name == "first" else ""
        print(
            f"| {name} | {found['tokens']:,} | {found['words']:,} | {found['cpu']:.2f} | {speed} | "
            f"{found['clock']:.2f} | {found['memory']:,.0f} |",
            flush=True,
        )
    print(f"{sum(each.stat().st_size for each in cache.iterdir()) / 1e6:,.0f} MB of cache")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--words", type=int, default=267_735, help="different ones, at most")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    file = arguments.folder / "train"
    if arguments.start:
        start(file)
        return
    arguments.folder.mkdir(parents=True)
    try:
        draw(file, arguments.tokens, arguments.words)
        with file.open("rb") as stream:
            file.with_name("valid").write_bytes(stream.read(10**6).rpartition(b"\n")[0])
        print(f"{file.stat().st_size / 1e6:,.0f} MB of text")
        time.sleep(SETTLED)
        measure(file, arguments.folder / "cache")
    finally:
        shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
