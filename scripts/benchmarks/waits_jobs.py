"""What scripts/benchmarks/waits.py measures beside whole commands: a work of lmzoo, or of its peer.

    python scripts/benchmarks/waits_jobs.py NAME [ARGUMENT …]

prints the seconds of CPU time that a unit of it takes: a token, a query. The first time does not count, as it may
compile, unless it is a long one.
"""

import math
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from hmm_jobs import dense_example, dynamax_gradient, family_job, lmzoo_dense, matrix_products, products_job
from ngram import MODEL, draw, zipf
from recurrent import EVALUATED, HIDDEN, LAYERS, LENGTH, WORDS, Plain, our_model, plain_evaluation
from torch.nn.functional import cross_entropy

import lmzoo
from lmzoo.api import Loaded
from lmzoo.core.memory import keep_freed_memory
from lmzoo.corpus.vocabulary import Lexicon, Vocabulary
from lmzoo.models.ngram.smoothing import estimate
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import sample
from lmzoo.retrieval.index import Index
from lmzoo.retrieval.likelihood import RankingOptions, score
from lmzoo.runs.directory import Run

Job = tuple[Callable[[], object], int]
"""What is timed, and how many units it has."""
TURN = 1.0
"""Seconds that are timed, about."""
LONG = 4.0
"""A work of so many seconds is done once."""


def write(file: str, tokens: int, seed: int) -> None:
    """A drawn text, a sentence a line."""
    words = np.array(["\n", *(f"{i}" if i % 3 else f"word{i}" for i in range(1, 50_001))], object)
    text = draw(tokens, seed=seed).numpy()
    with Path(file).open("w") as stream:
        for begin in range(0, tokens, 10**6):
            stream.write(" ".join(words[text[begin : begin + 10**6]].tolist()) + " ")


def sampled(texts: str) -> Job:
    ours, number = our_model(WORDS, HIDDEN, LAYERS, None).eval(), int(texts.split()[0])
    tokens = 400 if number == 1 else 60
    return lambda: sample(ours, tokens, 0, context="stream", samples=number), tokens * number


def loop(texts: str) -> Job:
    """As PyTorch's example word_language_model draws: a step of the module, then `torch.multinomial`."""
    plain, number = Plain(WORDS, HIDDEN, LAYERS).eval(), int(texts.split()[0])
    tokens = 400 if number == 1 else 60

    @torch.no_grad()
    def work() -> None:
        words, memory = torch.zeros(number, 1, dtype=torch.long), None
        for _ in range(tokens):
            logprobs, memory = plain(words, memory)
            words = torch.multinomial(logprobs[:, 0].exp(), 1)

    return work, tokens * number


def perplexity() -> Job:
    text = torch.multinomial(1 / torch.arange(1, WORDS + 1), EVALUATED, replacement=True)
    model = our_model(WORDS, HIDDEN, LAYERS, None)
    return lambda: text_logprobs(model, text, "stream"), EVALUATED


def example() -> Job:
    """In ten rows, as PyTorch's example word_language_model evaluates: all but the first lack what came before."""
    text = torch.multinomial(1 / torch.arange(1, WORDS + 1), EVALUATED, replacement=True)
    plain = Plain(WORDS, HIDDEN, LAYERS).eval()
    return lambda: plain_evaluation(plain, text, LENGTH, 10), EVALUATED


SENTENCES = 10_000


def sentences(folder: str) -> list[str]:
    with (Path(folder) / "1").open() as stream:
        return [line.rstrip() for line in islice(stream, SENTENCES)]


def of_sentences(lm: Loaded, texts: list[str], how: str) -> Job:
    if how == "in a list":
        return lambda: lm.surprisal(texts), len(texts)
    return lambda: [lm.surprisal(text) for text in texts], len(texts)


def kenlm_surprisals(folder: str, how: str) -> Job:
    import kenlm

    file = Path(folder) / "binary"
    model, texts = kenlm.Model(str(file if file.exists() else file.with_name("arpa"))), sentences(folder)

    def work() -> list[list[tuple[str, float]]]:
        scored = ((text.split(), model.full_scores(text)) for text in texts)
        return [[(word, -score[0]) for word, score in zip([*line, "</s>"], scores, strict=True)]
                for line, scores in scored]  # fmt: skip

    return work, SENTENCES


def drawn_sentences() -> tuple[list[str], list[str]]:
    """The words of a vocabulary, and 200 sentences of 20 of them."""
    words, drawn = (
        ["<eos>", *(f"w{i}" for i in range(1, WORDS))],
        zipf(np.random.default_rng(0).random((200, 20)), WORDS),
    )
    return words, [" ".join(words[max(1, word)] for word in line) for line in drawn]


def network_surprisals(how: str) -> Job:
    words, texts = drawn_sentences()
    model = our_model(WORDS, HIDDEN, LAYERS, None).eval()
    return of_sentences(Loaded(model, Vocabulary(words), Run(Path("drawn")), "sentence"), texts, how)


def plain_surprisals(how: str) -> Job:
    """Each sentence by itself, whatever ours does."""
    words, texts = drawn_sentences()
    plain, index = Plain(WORDS, HIDDEN, LAYERS).eval(), {word: number for number, word in enumerate(words)}

    @torch.no_grad()
    def work() -> list[list[tuple[str, float]]]:
        found = []
        for text in texts:
            line = [*text.split(), "<eos>"]
            tokens = torch.tensor([[0, *map(index.__getitem__, line)]])
            logits, _ = plain(tokens[:, :-1], None)
            losses = cross_entropy(logits[0], tokens[0, 1:], reduction="none")
            found.append([*zip(line, (losses / math.log(2)).tolist(), strict=True)])
        return found

    return work, len(texts)


TOKENS = 2_000_000


def new_words() -> bytes:
    """A text of words by Zipf's law, of which every sixth is a word that comes once."""
    random = np.random.default_rng(0)
    words = zipf(random.random(TOKENS), 100_000)
    words[::6] = 10**6 + np.arange(len(words[::6]))
    return b"\n".join(" ".join(map(str, line)).encode() for line in words.reshape(-1, 20).tolist()) + b"\n"


def encoded() -> Job:
    text = new_words()
    return lambda: Lexicon().encode(text), TOKENS + TOKENS // 20


def dictionary() -> Job:
    """The loop of PyTorch's example word_language_model."""
    text = new_words()

    def work() -> torch.Tensor:
        numbers: dict[str, int] = {}
        return torch.cat([
            torch.tensor([numbers.setdefault(word, len(numbers)) for word in [*line.split(), "<eos>"]])
            for line in text.decode().splitlines()
        ])  # fmt: skip

    return work, TOKENS + TOKENS // 20


DOCUMENTS, DIFFERENT, STOP, QUERIES, DEPTH = 140_000, 100_000, 100, 50, 1000
OPTIONS = RankingOptions()


def documents() -> tuple[list[list[str]], list[list[str]]]:
    """Documents of about 36 words and queries of 8, without the 100 commonest, as a list of stop words leaves them."""
    random = np.random.default_rng(0)
    lengths = random.integers(20, 100, DOCUMENTS)
    drawn = zipf(random.random(lengths.sum()), DIFFERENT)
    drawn = drawn[drawn >= STOP].astype(str).tolist()
    ends = np.cumsum(lengths * 0.6).astype(int)
    texts = [drawn[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    return texts, [zipf(random.uniform(0.42, 1, 8), DIFFERENT).astype(str).tolist() for _ in range(QUERIES)]


def retrieved() -> Job:
    texts, queries = documents()
    index = Index({str(number): text for number, text in enumerate(texts)})
    numbers, prior = [index.numbers(query) for query in queries], np.zeros(DOCUMENTS)
    return lambda: [score(index, query, OPTIONS, prior).best(DEPTH) for query in numbers], QUERIES


def bm25s_retrieved() -> Job:
    import bm25s

    texts, queries = documents()
    peer = bm25s.BM25(backend="numba")
    peer.index(texts, show_progress=False)
    peer.retrieve([queries[0]], k=DEPTH, show_progress=False)  # compiles, which takes seconds
    return lambda: [peer.retrieve([query], k=DEPTH, show_progress=False) for query in queries], QUERIES


HMM = (128, 32, 2**14)
"""Rows, tokens of each, states."""


def dense(make: Callable[..., Callable[[], float]], states: str) -> Job:
    return make(*dense_example(16, 32, int(states))), 16 * 32


def estimated(millions: str) -> Job:
    tokens = draw(int(millions) * 10**6)
    return lambda: estimate(tokens, vocabulary_size=50_001, order=5, **MODEL), len(tokens)


JOBS: dict[str, Callable[..., Job]] = {
    "surprisal": lambda folder, how: of_sentences(lmzoo.load(Path(folder) / "run"), sentences(folder), how),
    "kenlm": kenlm_surprisals, "network": network_surprisals, "plain": plain_surprisals, "sample": sampled,
    "loop": loop, "perplexity": perplexity, "example": example, "encode": encoded, "dictionary": dictionary,
    "retrieve": retrieved, "bm25s": bm25s_retrieved, "estimate": estimated,
    "family": lambda name, precision: (family_job(name, *HMM, precision), HMM[0] * HMM[1]),
    "products": lambda name, precision: (products_job(name, *HMM, precision), HMM[0] * HMM[1]),
    "hmm": lambda *rest: dense(lmzoo_dense, *rest), "dynamax": lambda *rest: dense(dynamax_gradient, *rest),
    "dense": lambda *rest: dense(matrix_products, *rest),
}  # fmt: skip


def main() -> None:
    torch.manual_seed(0)
    keep_freed_memory()  # as the commands do
    work, units = JOBS[sys.argv[1]](*sys.argv[2:])
    began = time.process_time()
    work()
    taken, times = time.process_time() - began, 1
    if taken < LONG:
        times, began = 0, time.process_time()
        while (taken := time.process_time() - began) < TURN:
            work()
            times += 1
    print(taken / times / units)


if __name__ == "__main__":
    main()
