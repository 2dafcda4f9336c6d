"""What exact questions to a hidden Markov model are worth: text under constraints, and gaps that are filled.

    python scripts/benchmarks/asking.py constraints HMM LSTM --judges NGRAM LSTM2 --texts FILE.tsv > FILE.csv
    python scripts/benchmarks/asking.py gaps HMM FORWARD BACKWARD --sentences 1000 > FILE.csv

All are runs on Penn Treebank, each sentence by itself. `constraints` draws pairs of words that stand together in a
sentence of valid, beyond the `COMMON` most frequent ones. Each method writes a sentence of at most `LONGEST` words that
has both in that order: the HMM by exact sampling; the LSTM guided by the HMM (Ctrl-G, Zhang et al. 2024); the LSTM by
rejection, of at most `DRAWS` samples; and a beam search of the LSTM that must insert the words (grid beam search,
Hokamp & Liu 2017). Judges are models that take no part. Seconds are CPU time of one thread, preparation included.

`gaps` leaves one word out of sentences of test. The HMM has its exact posterior from both sides; the forward LSTM sees
the left side alone; "product" is that of forward and backward LSTM, p_f p_b / p_unigram^a, normalised, with a chosen on
valid among 0, 0.5 and 1.
"""

import argparse
import csv
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

import lmzoo
from lmzoo.api import Loaded
from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID
from lmzoo.corpus.lines import by_line
from lmzoo.models.combined.chains import chain_of
from lmzoo.protocol.model import LanguageModel, evaluating

COMMON, LONGEST, DRAWS, BATCH, BEAM = 200, 30, 1000, 50, 10


def lines(tokens: Tensor) -> list[list[int]]:
    """The sentences of a split, without `<eos>`."""
    return [line[:-1].tolist() for line in by_line(tokens, tokens)]


def drawn_pairs(lm: Loaded, number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs of different words, the first of which stands before the second in a sentence of valid."""
    words, counts = lm.vocabulary.words, lm.run.split("train").tokens.bincount(minlength=len(lm.vocabulary))
    common = {*counts.topk(COMMON).indices.tolist(), EOS_ID, lm.vocabulary.index["<unk>"]}
    draw, pairs = random.Random(seed), []
    sentences = [[w for w in line if w not in common and counts[w] > 0] for line in lines(lm.run.split("valid").tokens)]
    sentences = [line for line in sentences if len(set(line)) > 1]
    while len(pairs) < number:
        line = draw.choice(sentences)
        i, j = sorted(draw.sample(range(len(line)), 2))
        if line[i] != line[j]:
            pairs.append((words[line[i]], words[line[j]]))
    return pairs


def has_both(text: str, pair: tuple[str, str]) -> bool:
    words = text.split()
    return pair[0] in words and pair[1] in words[words.index(pair[0]) + 1 :] and len(words) <= LONGEST


class Rejection:
    """The first of `DRAWS` samples with both words. The same samples serve all pairs, and count anew for each."""

    def __init__(self, lm: Loaded):
        begun = time.process_time()
        self.texts = [
            text.removesuffix("<eos>").strip()
            for first in range(0, DRAWS, BATCH)
            for text in lm.sample(sentences=1, samples=BATCH, seed=first)
        ]
        self.seconds = (time.process_time() - begun) / DRAWS
        """CPU time of a sample."""

    def write(self, pair: tuple[str, str]) -> tuple[str, float]:
        number, text = next(((n, text) for n, text in enumerate(self.texts, 1) if has_both(text, pair)), (DRAWS, ""))
        return text, number * self.seconds


@torch.no_grad()
def forced_beam(lm: Loaded, pair: tuple[str, str]) -> str | None:
    """The likeliest finished sentence of beams of `BEAM` prefixes with none, one and both of the words."""
    model, wanted = lm.model, [lm.vocabulary.index[word] for word in pair]
    with evaluating(model):
        logprobs, state = model.begin_step(model.initial_state(1))
        beams: list[tuple[list[int], float, int]] = [([], 0.0, 0)]
        best: tuple[float, list[int]] = (-math.inf, [])
        for _ in range(LONGEST + 1):
            offers: dict[int, list[tuple[float, int, int]]] = {0: [], 1: [], 2: []}
            values, words = logprobs.topk(BEAM)
            for row, (tokens, score, met) in enumerate(beams):
                likely = zip(values[row].tolist(), words[row].tolist(), strict=True)
                forced = [(float(logprobs[row, w]), w) for w in wanted[met : met + 1]]
                for value, word in {word: (value, word) for value, word in [*likely, *forced]}.values():
                    if word == EOS_ID:
                        if met == 2 and score + value > best[0]:
                            best = score + value, tokens
                        continue
                    offers[met + (met < 2 and word == wanted[min(met, 1)])].append((score + value, row, word))
            chosen = [(offer, met) for met, part in offers.items() for offer in sorted(part, reverse=True)[:BEAM]]
            if not chosen or max(offer[0] for offer, _ in chosen) <= best[0]:
                break
            rows = torch.tensor([row for (_, row, _), _ in chosen])
            beams = [([*beams[row][0], word], score, met) for (score, row, word), met in chosen]
            last = torch.tensor([tokens[-1] for tokens, _, _ in beams])
            state = model.end_step(last, tuple(part[rows] for part in state))
            logprobs, state = model.begin_step(state)
    return lm.vocabulary.decode(best[1]) if best[1] else None


def constraints(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    hmm, lstm = lmzoo.load(arguments.hmm), lmzoo.load(arguments.lstm)
    judges = [lmzoo.load(judge) for judge in arguments.judges]
    rejection, drawn = Rejection(lstm), f"LSTM, at most {DRAWS:,} draws"
    methods: dict[str, Callable[[tuple[str, str], int], str | None]] = {
        "HMM, exact": lambda pair, seed: hmm.sample(pattern=pattern(pair), length=f"..{LONGEST}", seed=seed)[0],
        "LSTM guided by the HMM": lambda pair, seed: lstm.sample(
            pattern=pattern(pair), length=f"..{LONGEST}", guide=hmm, seed=seed
        )[0],
        drawn: lambda pair, _: rejection.write(pair)[0],
        "LSTM, beam with forced words": lambda pair, _: forced_beam(lstm, pair),
    }

    def pattern(pair: tuple[str, str]) -> str:
        return f"… {pair[0]} … {pair[1]} …"

    pairs, file = drawn_pairs(hmm, arguments.pairs), Path(arguments.texts)
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    written = {(int(seed), method): (float(seconds), text) for seed, method, seconds, _, text in rows}
    with file.open("a", encoding="utf-8") as stream:
        for seed, pair in enumerate(pairs):
            for method, write in methods.items():
                if (seed, method) in written:
                    continue
                begun = time.process_time()
                try:
                    text = write(pair, seed) or ""
                except UserError:  # of probability 0 under the guide
                    text = ""
                seconds = rejection.write(pair)[1] if method == drawn else time.process_time() - begun
                written[seed, method] = seconds, text
                stream.write("\t".join([str(seed), method, f"{seconds:.2f}", " ".join(pair), text]) + "\n")
                stream.flush()
    texts = {
        method: [text for seed, pair in enumerate(pairs) if has_both(text := written[seed, method][1], pair)]
        for method in methods
    }
    for method, found in texts.items():
        bigrams = [pair for text in found for pair in zip(text.split(), text.split()[1:], strict=False)]
        row: dict[str, object] = {"method": method, "pairs": len(pairs), "holds": f"{len(found) / len(pairs):.1%}"}
        for judge, name in zip(judges, arguments.judges, strict=True):
            tokens = sum(len(text.split()) + 1 for text in found)
            logprob = sum(judge.score(found)) if found else math.nan
            row[f"perplexity under {name.rstrip('/').rpartition('/')[2]}"] = (
                f"{math.exp(-logprob / max(tokens, 1)):.1f}"
            )
        row["words"] = f"{sum(len(text.split()) for text in found) / max(1, len(found)):.1f}"
        row["distinct bigrams"] = f"{len({*bigrams}) / max(1, len(bigrams)):.2f}"
        row["seconds"] = f"{sum(written[seed, method][0] for seed in range(len(pairs))) / len(pairs):.1f}"
        yield row


def with_gaps(sentences: list[list[int]], number: int, seed: int) -> list[tuple[list[int], int]]:
    """So many sentences of 2 to 40 words, and the place that is left out of each."""
    draw = random.Random(seed)
    suitable = [line for line in sentences if 2 <= len(line) <= 40]
    return [(line, draw.randrange(len(line))) for line in draw.sample(suitable, number)]


@torch.no_grad()
def left_side(model: LanguageModel, line: list[int], place: int) -> Tensor:
    """(V,) log p(x_place | the words before it)."""
    with evaluating(model):
        state = model.initial_state(1)
        if place:
            _, state = model(torch.tensor([line[:place]]), state)
        logprobs = model.predict(state)[0].clone()
    logprobs[EOS_ID] = -torch.inf
    return logprobs.double().log_softmax(0)


@torch.no_grad()
def both_sides(lm: Loaded) -> Callable[[list[int], int], Tensor]:
    """The exact (V,) log p(x_place | all other words) under an HMM."""
    chain = chain_of(lm.model)

    def posterior(line: list[int], place: int) -> Tensor:
        emitted = chain.emission_logprobs(torch.tensor([*line, EOS_ID]))[:, None]
        prior, message = chain.start[None], emitted[-1]
        for t in range(place):  # only the states that emit the word beside it are needed
            prior = chain.step_forward(prior + emitted[t], emitted[t + 1] > -torch.inf if t + 1 < place else None)
        for t in range(len(line) - 1, place, -1):
            message = chain.step_backward(message, emitted[t] > -torch.inf) + emitted[t]
        joint = chain.words(prior + chain.step_backward(message))[0]
        joint[EOS_ID] = -torch.inf
        return joint.log_softmax(0)

    return posterior


def gaps(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    hmm, forward, backward = map(lmzoo.load, (arguments.hmm, arguments.forward, arguments.backward))
    unigram = forward.run.split("train").tokens.bincount(minlength=len(forward.vocabulary)).double()
    unigram = (unigram / unigram.sum()).clamp(min=1e-9).log()
    number = {word: i for i, word in enumerate(backward.vocabulary.words)}
    order = torch.tensor([number[word] for word in forward.vocabulary.words])

    def product(line: list[int], place: int, a: float) -> Tensor:
        behind = [int(order[word]) for word in reversed(line)]
        of_backward = left_side(backward.model, behind, len(line) - 1 - place)[order]
        joint = left_side(forward.model, line, place) + of_backward - a * unigram
        joint[EOS_ID] = -torch.inf
        return joint.log_softmax(0)

    chosen = with_gaps(lines(forward.run.split("valid").tokens), arguments.sentences // 5, 1)
    powers = {a: sum(float(product(line, at, a)[line[at]]) for line, at in chosen) for a in (0.0, 0.5, 1.0)}
    best = max(powers, key=lambda a: powers[a])
    posterior = both_sides(hmm)
    methods: dict[str, Callable[[list[int], int], Tensor]] = {
        "HMM, both sides": posterior,
        "LSTM, left side": lambda line, at: left_side(forward.model, line, at),
        "LSTM, right side": lambda line, at: left_side(
            backward.model, [int(order[word]) for word in reversed(line)], len(line) - 1 - at
        )[order],
        f"LSTMs, product, a = {best}": lambda line, at: product(line, at, best),
    }
    assert hmm.vocabulary.words == forward.vocabulary.words
    tests = with_gaps(lines(forward.run.split("test").tokens), arguments.sentences, 0)
    for method, of_gap in methods.items():
        begun, right, logprob = time.process_time(), 0, 0.0
        for line, at in tests:
            p = of_gap(line, at)
            right += int(p.argmax()) == line[at]
            logprob += float(p[line[at]])
        yield {
            "method": method, "sentences": len(tests), "accuracy": f"{right / len(tests):.1%}",
            "mean log p in nats": f"{logprob / len(tests):.3f}",
            "seconds a sentence": f"{(time.process_time() - begun) / len(tests):.3f}",
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    of_pairs = kinds.add_parser("constraints")
    of_pairs.add_argument("hmm")
    of_pairs.add_argument("lstm")
    of_pairs.add_argument("--judges", nargs="+", default=[])
    of_pairs.add_argument("--pairs", type=int, default=200)
    of_pairs.add_argument("--texts", default="texts.tsv", help="the sentences, of which those there are not made again")
    of_pairs.set_defaults(measure=constraints)
    of_gaps = kinds.add_parser("gaps")
    for name in ("hmm", "forward", "backward"):
        of_gaps.add_argument(name)
    of_gaps.add_argument("--sentences", type=int, default=1000)
    of_gaps.set_defaults(measure=gaps)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    writer = None
    for row in arguments.measure(arguments):
        if writer is None:
            writer = csv.DictWriter(sys.stdout, row)
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
