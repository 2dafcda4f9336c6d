"""From a text to its perplexity under an n-gram model: lmzoo against KenLM's query, in turns, medians.

    python scripts/benchmarks/evaluate.py ptb/ptb.train.txt --kenlm kenlm/bin

The model is of the given text, by lmzoo, and KenLM reads its ARPA file. Two texts are scored: the given one again and
again, and words drawn by Zipf's law, of which many are unknown to the model. Loading is not counted; that lmzoo hashes
the table of the model is.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from ngram import MODEL, zipf

from lmzoo.core.files import read_text
from lmzoo.corpus import Vocabulary
from lmzoo.models.ngram.arpa_file import write_arpa
from lmzoo.models.ngram.ngram import NGram
from lmzoo.models.ngram.smoothing import estimate
from lmzoo.protocol.perplexity import score

WORDS = 1_000_000
"""How many different words are drawn from."""


def drawn(vocabulary: Vocabulary, tokens: int) -> bytes:
    """A text of words by Zipf's law, the commonest of which are those of a vocabulary."""
    words = [*vocabulary.words[1:], *(f"word{i}" for i in range(len(vocabulary), WORDS))]
    random = np.random.default_rng(0)
    ends = (random.random(tokens) < 0.045).tolist()
    ranks = zipf(random.random(tokens), len(words)).clip(max=len(words) - 1).tolist()
    return (" ".join("\n" if end else words[rank] for rank, end in zip(ranks, ends, strict=True)) + "\n").encode()


def clocks() -> np.ndarray:
    """Seconds of CPU time, of processes that have ended too, and on the clock."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return np.array([sum(each.ru_utime + each.ru_stime for each in used), time.perf_counter()])


def query(command: Sequence[str | Path], file: Path) -> float:
    """The perplexity of a file by KenLM."""
    with file.open() as stream:
        done = subprocess.run(command, stdin=stream, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[3])


def compare(model: NGram, vocabulary: Vocabulary, file: Path, command: Sequence[str | Path], rounds: int) -> None:
    seconds, tokens, perplexities = [], torch.empty(0), (0.0, 0.0)
    for _ in range(rounds):
        times = [clocks()]
        tokens = vocabulary.encode(read_text(file))
        times.append(clocks())
        ours = score(model, tokens, "sentence").perplexity
        times.append(clocks())
        query(command, Path(os.devnull))
        times.append(clocks())
        perplexities = ours, query(command, file)
        times.append(clocks())
        encoding, scoring, loading, querying = np.diff(times, axis=0)
        seconds.append([encoding + scoring, scoring, querying - loading])
    names = ["lmzoo, from the file", "lmzoo, from numbers", "KenLM's query, from the file"]
    for name, values, perplexity in zip(
        names, np.median(seconds, axis=0), (perplexities[0], *perplexities), strict=True
    ):
        busy, clock = (len(tokens) / values).tolist()
        print(f"| {file.name} | {name} | {len(tokens):,} | {perplexity:.4f} | {busy:,.0f} | {clock:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--kenlm", type=Path, required=True, help="the folder of KenLM's query and build_binary")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=10_000_000, help="of each of the two texts, at least")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    text, order = read_text(arguments.text), arguments.order
    vocabulary = Vocabulary.of(text)
    tokens = vocabulary.encode(text)
    model = NGram(vocabulary_size=len(vocabulary), order=order, unknown=False, **MODEL)
    model.table = estimate(tokens, vocabulary_size=len(vocabulary), order=order, **MODEL)
    print(f"order {order}, {torch.get_num_threads()} threads, medians of {arguments.rounds} rounds")
    print("| text | program | tokens | perplexity | tokens/s of CPU time | tokens/s |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_arpa(folder / "model.arpa", model.table, vocabulary.words)
        build = [arguments.kenlm / "build_binary", "probing", folder / "model.arpa", folder / "model"]
        subprocess.run(build, check=True, capture_output=True)
        (folder / "repeated").write_bytes(text * -(-arguments.tokens // len(tokens)))
        (folder / "drawn").write_bytes(drawn(vocabulary, arguments.tokens))
        command = [arguments.kenlm / "query", "-v", "summary", folder / "model"]
        for file in ("repeated", "drawn"):
            compare(model, vocabulary, folder / file, command, arguments.rounds)


if __name__ == "__main__":
    main()
