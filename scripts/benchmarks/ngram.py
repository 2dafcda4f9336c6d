"""n-gram models side by side: lmzoo, the kenlm module and nltk.lm on the same text, in turns, medians of wall time.

    python scripts/benchmarks/ngram.py compare            estimation and scoring, lmzoo against kenlm and nltk
    python scripts/benchmarks/ngram.py grow --plot FILE   time and memory of estimating up to 20 million tokens

The text is drawn from a fixed source, in which words and what follows each of them obey Zipf's law, or is read
with --text. The kenlm module only scores; with --lmplz KenLM's trainer is timed as well.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from lmzoo.core.files import write_output
from lmzoo.corpus.vocabulary import EOS_ID, Vocabulary
from lmzoo.models.ngram.arpa_file import write_arpa
from lmzoo.models.ngram.smoothing import estimate
from lmzoo.models.ngram.table import NGramTable
from lmzoo.reports.charts import charts, rendered

MODEL = {
    "smoothing": "modified_kneser_ney",
    "interpolated": True,
    "interpolate_unigrams": True,
    "pseudocount": 1.0,
    "discount_fallback": True,
    "prune": [0],
    "memory": None,
}
SIZES = [300_000, 1_000_000, 3_000_000, 10_000_000, 20_000_000]


def zipf(uniform: np.ndarray, most: int) -> np.ndarray:
    """Ranks 0 … most - 1 with density about 1 / (rank + 1)."""
    return np.floor((most + 1.0) ** uniform).astype(np.int64) - 1


def draw(tokens: int, words: int = 50_000, seed: int = 0) -> torch.Tensor:
    """(tokens,) word numbers from 1,000 chains, 0 ending sentences of about 20 words.

    Words follow Zipf's law, and so do the successors of each word: the successor of a given rank is
    found by hashing word and rank, so that no table of them is needed.
    """
    random = np.random.default_rng(seed)
    text = np.empty((1000, -(-tokens // 1000)), dtype=np.int64)
    word = np.zeros(1000, dtype=np.int64)
    for column in text.T:
        key = (word * 2**20 + zipf(random.random(1000), 2**17)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        word = 1 + zipf((key >> np.uint64(11)) / 2.0**53, words).clip(max=words - 1)
        word[random.random(1000) < 0.045] = EOS_ID
        column[:] = word
    text[:, -1] = EOS_ID
    stream = torch.from_numpy(text).view(-1)[:tokens].clone()
    stream[-1] = EOS_ID
    return stream


def timed(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def in_turns(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each job, the jobs taking turns in every round."""
    seconds = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            seconds[name].append(timed(job))
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(task: str, seconds: dict[str, float], tokens: dict[str, int]) -> None:
    """One line of the table for each toolkit; the first is the one the others are compared with."""
    rates = {name: tokens[name] / value for name, value in seconds.items()}
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        print(
            f"| {task} | {name} | {tokens[name]:,} | {seconds[name]:.3f} | {rate:,.0f} | {first / rate:,.2f} |",
            flush=True,
        )


class Text:
    """Training and test sentences, as strings and as numbers."""

    def __init__(self, path: Path | None, size: int):
        if path is not None:
            lines = path.read_text(encoding="utf-8").splitlines()
        else:
            stream = draw(size)
            ends = (stream == EOS_ID).nonzero()[:, 0] + 1
            lines = [" ".join(map(str, line[:-1].tolist())) for line in stream.tensor_split(ends[:-1])]
        cut = len(lines) * 9 // 10
        self.vocabulary = Vocabulary.of(lines)
        self.train, self.test = lines[:cut], lines[cut:]
        self.train_tokens, self.test_tokens = self.vocabulary.encode(self.train), self.vocabulary.encode(self.test)

    def estimated(self, tokens: torch.Tensor, order: int) -> NGramTable:
        return estimate(tokens, vocabulary_size=len(self.vocabulary), order=order, **MODEL)


def sentence_scores(table: NGramTable, tokens: torch.Tensor, order: int) -> torch.Tensor:
    """log10 probability of each sentence of a (T,) text."""
    history = torch.cat([tokens.new_zeros(order - 1), tokens])[None]
    sums = table.score(history, order - 1)[0].double().cumsum(0)[tokens == EOS_ID]
    return torch.diff(sums, prepend=sums.new_zeros(1)) / math.log(10)


def compare(text: Text, order: int, rounds: int, nltk_tokens: int, lmplz: Path | None) -> None:
    print(f"order {order}, {torch.get_num_threads()} threads, medians of {rounds} rounds; {5 * rounds} against kenlm")
    print("| task | toolkit | tokens | seconds | tokens/s | lmzoo is × as fast |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        compare_kenlm(text, order, rounds, lmplz, Path(folder))
    compare_nltk(text, order, rounds, nltk_tokens)


def compare_kenlm(text: Text, order: int, rounds: int, lmplz: Path | None, folder: Path) -> None:
    import kenlm

    table = text.estimated(text.train_tokens, order)
    write_arpa(folder / "model.arpa", table, text.vocabulary.words)
    theirs = kenlm.Model(str(folder / "model.arpa"))
    for what, lines, tokens in (
        ("score the test sentences", text.test, text.test_tokens),
        ("score all sentences", text.train + text.test, torch.cat([text.train_tokens, text.test_tokens])),
    ):
        jobs = {
            "lmzoo": lambda tokens=tokens: sentence_scores(table, tokens, order),
            "lmzoo, from strings": lambda lines=lines: sentence_scores(table, text.vocabulary.encode(lines), order),
            "kenlm.Model.score": lambda lines=lines: [theirs.score(line) for line in lines],
        }
        report(what, in_turns(jobs, 5 * rounds), dict.fromkeys(jobs, len(tokens)))
    ours = sentence_scores(table, text.test_tokens, order)
    worst = (ours - torch.tensor([theirs.score(line) for line in text.test]).double()).abs().max()
    print(f"| largest difference of a sentence's log10 score | | | | {worst:.1e} | |")
    if lmplz is None:
        return
    (folder / "train.txt").write_text("\n".join(text.train).replace("<unk>", "<UNKNOWN>") + "\n", encoding="utf-8")
    command = [lmplz, "-o", str(order), "-S", "4G", "-T", folder, "--discount_fallback", "--text", folder / "train.txt"]
    seconds = in_turns(
        {
            "lmzoo": lambda: text.estimated(text.train_tokens, order),
            "lmzoo, from strings": lambda: text.estimated(Vocabulary.of(text.train).encode(text.train), order),
            "lmplz, text file to ARPA file": lambda: subprocess.run(
                [*command, "--arpa", folder / "kenlm.arpa"], check=True, capture_output=True
            ),
        },
        rounds,
    )
    report("estimate", seconds, dict.fromkeys(seconds, len(text.train_tokens)))


def compare_nltk(text: Text, order: int, rounds: int, size: int) -> None:
    from nltk.lm import KneserNeyInterpolated
    from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline
    from nltk.util import ngrams

    ends = (text.train_tokens == EOS_ID).nonzero()[:, 0]
    number = int((ends < size).sum())  # of sentences
    tokens, sentences = text.train_tokens[: int(ends[number - 1]) + 1], [line.split() for line in text.train[:number]]
    model = KneserNeyInterpolated(order)

    def fit() -> None:
        nonlocal model
        model = KneserNeyInterpolated(order)
        model.fit(*padded_everygram_pipeline(order, sentences))

    seconds = in_turns({"lmzoo": lambda: text.estimated(tokens, order), "nltk.lm": fit}, rounds)
    report("estimate", seconds, dict.fromkeys(seconds, len(tokens)))
    table = text.estimated(tokens, order)
    few = [line.split() for line in text.test[:5]]
    spans = [gram for line in few for gram in ngrams(pad_both_ends(line, order), order)]
    seconds = in_turns(
        {
            "lmzoo": lambda: sentence_scores(table, text.test_tokens, order),
            "nltk.lm": lambda: [model.logscore(gram[-1], gram[:-1]) for gram in spans],
        },
        rounds,
    )
    report("score", seconds, {"lmzoo": len(text.test_tokens), "nltk.lm": len(spans)})


def grow(order: int, plot: Path) -> None:
    """Each size in a process of its own, whose peak memory is that of its largest moment."""
    print("| tokens | n-grams | seconds | peak GiB |\n|---|---|---|---|")
    figures = []
    for size in SIZES:
        command = [sys.executable, __file__, "one", "--order", str(order), "--tokens", str(size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures.append(json.loads(done.stdout))
        print("| {tokens:,} | {ngrams:,} | {seconds:.2f} | {gib:.2f} |".format(**figures[-1]), flush=True)
    picture(figures, f"Estimating modified Kneser–Ney of order {order}", plot)


def picture(figures: list[dict[str, float]], title: str, plot: Path) -> None:
    """Seconds and memory by the tokens of the text."""
    millions = [figure["tokens"] / 1e6 for figure in figures]
    with charts("--plot") as pyplot:
        drawn, panels = pyplot.subplots(1, 2, figsize=(7.6, 3.2))
        for panel, key, label in zip(
            panels, ("seconds", "gib"), ("seconds", "peak memory of the process, GiB"), strict=True
        ):
            values = [figure[key] for figure in figures]
            panel.plot(millions, values, marker="o")
            panel.plot([0, millions[-1]], [0, values[-1]], ":", color="#888888", linewidth=1, label="in proportion")
            panel.set(xlabel="million tokens", ylabel=label, xlim=(0, None), ylim=(0, None))
            panel.legend(loc="upper left")
        panels[0].set_title(title)
        write_output(plot, rendered(drawn, plot))


def one(order: int, size: int) -> None:
    tokens = draw(size)
    started = time.perf_counter()
    table = estimate(tokens, vocabulary_size=50_001, order=order, **MODEL)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"tokens": size, "ngrams": len(table.logprob), "seconds": seconds, "gib": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compare", "grow", "one"])
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="how many to draw for compare and one")
    parser.add_argument("--text", type=Path, help="compare on this file instead")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nltk-tokens", type=int, default=200_000, help="nltk is trained on so many at most")
    parser.add_argument("--lmplz", type=Path, help="KenLM's trainer, if it is there")
    parser.add_argument("--plot", type=Path, default=Path("ngram.png"))
    arguments = parser.parse_args()
    if arguments.what == "compare":
        text = Text(arguments.text, arguments.tokens)
        compare(text, arguments.order, arguments.rounds, arguments.nltk_tokens, arguments.lmplz)
    elif arguments.what == "grow":
        grow(arguments.order, arguments.plot)
    else:
        one(arguments.order, arguments.tokens)


if __name__ == "__main__":
    main()
