"""Part-of-speech tagging from token embeddings of a linear dynamical system, as Belanger & Kakade (ICML 2015) do it.

    python scripts/tagging.py --data FOLDER

FOLDER holds ptb/ptb.train.txt, conll2000/{train,test}.txt (Penn tags) and ud-ewt/en_ewt-ud-{train,dev,test}.conllu
(universal tags). The system and word2vec see the raw words of PTB's train and of all parts of both tagged corpora.
They see the words of development and test, and never the tags. A network of 25 hidden units then tags each token from
its own embedding, or from those of its neighbours too. The network is trained on train and measured on test. Its epoch
is chosen on development, which EWT has; for CoNLL-2000 it is the last tenth of train.
"""

import argparse
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.files import read_lines
from lmzoo.corpus.vocabulary import EOS_ID, UNK, Vocabulary
from lmzoo.models.lds.estimation.fit import Fit, em
from lmzoo.models.lds.estimation.statistics import Counts, whiten
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.protocol.encoder import embed_lines

HIDDEN_UNITS = 25
BATCH, RATE, EPOCHS = 128, 3e-3, 20

WINDOW = 5
"""Words on either side that word2vec predicts."""

Sentence = list[tuple[str, str]]
"""(word, tag) of each token."""


class Embedder(NamedTuple):
    """An `Encoder` on the CPU, made of a function."""

    embed: Callable[[Tensor, Tensor | None], Tensor]
    """(B, T) tokens and a mask that is False on padding -> (B, T, h)."""
    device: torch.device = torch.device("cpu")


class Tagged(NamedTuple):
    """A tagged corpus in three parts."""

    train: list[Sentence]
    development: list[Sentence]
    test: list[Sentence]


def normalise(word: str) -> str:
    """A word as in the language-modelling text of Penn Treebank: lower case, and N for a number."""
    return "N" if re.fullmatch(r"[\d.,:/\\-]*\d[\d.,:/\\-]*", word) else word.lower()


def read_conll2000(lines: Iterable[str]) -> list[Sentence]:
    """Sentences with an empty line between them; every other line is a token ``word tag chunk``."""
    return _sentences([line.split()[:2] for line in lines])


def read_conllu(lines: Iterable[str]) -> list[Sentence]:
    """Words and universal tags. Comments, ranges (``2-3 don't``) and empty nodes (``8.1``) are left out."""
    rows = [line.split("\t") for line in lines]
    return _sentences([row[1:4:2] for row in rows if row[0] == "" or row[0].isdigit()])


def _sentences(rows: Iterable[list[str]]) -> list[Sentence]:
    sentences: list[Sentence] = [[]]
    for row in rows:
        if len(row) == 2:
            sentences[-1].append((normalise(row[0]), row[1]))
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def read_corpora(data: Path) -> dict[str, Tagged]:
    train, test = (read_conll2000(read_lines(data / "conll2000" / f"{part}.txt")) for part in ("train", "test"))
    cut = len(train) * 9 // 10
    ewt = [read_conllu(read_lines(data / "ud-ewt" / f"en_ewt-ud-{part}.conllu")) for part in ("train", "dev", "test")]
    return {"CoNLL-2000": Tagged(train[:cut], train[cut:], test), "UD EWT": Tagged(*ewt)}


def words_of(sentences: Iterable[Sentence]) -> list[str]:
    """Each sentence as a line of text."""
    return [" ".join(word for word, _ in sentence) for sentence in sentences]


def most_frequent_tag(train: Sequence[Sentence], test: Sequence[Sentence]) -> float:
    """Share of tokens whose tag is the most frequent one of their type in train, or of all tokens for a new type."""
    tags, overall = defaultdict(Counter), Counter()
    for sentence in train:
        for word, tag in sentence:
            tags[word][tag] += 1
            overall[tag] += 1
    right = [tags.get(word, overall).most_common(1)[0][0] == tag for sentence in test for word, tag in sentence]
    return sum(right) / len(right)


class Tags(NamedTuple):
    """Features and tags of the tokens of a text."""

    features: Tensor
    """(N, F)."""
    tags: Tensor
    """(N,) int64."""


def windowed(rows: Tensor, lines: Tensor, around: int) -> Tensor:
    """(N, h) embeddings -> (N, (2·around + 1) h), with those around a token in its line, and zeros beyond the line."""
    columns = []
    for shift in range(-around, around + 1):
        same = lines.roll(-shift) == lines
        if shift > 0:
            same[-shift:] = False
        elif shift < 0:
            same[:-shift] = False
        columns.append(rows.roll(-shift, 0) * same[:, None])
    return torch.cat(columns, dim=1)


def train_tagger(train: Tags, development: Tags, classes: int, seed: int) -> nn.Module:
    """25 hidden units with tanh, and a softmax; the weights of the epoch that did best on development."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(train.features.shape[1], HIDDEN_UNITS), nn.Tanh(), nn.Linear(HIDDEN_UNITS, classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS)
    best, weights = -1.0, {}
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(train.tags)).split(BATCH):
            loss = F.cross_entropy(net(train.features[batch]), train.tags[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if (score := accuracy(net, development)) > best:
            best, weights = score, {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(weights)
    return net


@torch.no_grad()
def accuracy(net: nn.Module, text: Tags) -> float:
    """Share of tokens whose tag is right."""
    return float((net(text.features).argmax(1) == text.tags).double().mean())


def embedders(fitted: Fit) -> dict[str, Embedder]:
    """Ways to embed a token with a system: from the word alone, from the line up to the word, from the whole line."""
    h = len(fitted.lds.A)
    options = {"hidden": h, "blocks": 0, "lags": 0, "pseudocount": 0.0, "iterations": 0, "classes": None}
    model = LinearDynamicalSystem(vocabulary_size=len(fitted.mu), **options)
    model.take(fitted)

    def alone(tokens: Tensor, _: Tensor | None) -> Tensor:
        return F.normalize(model.gains[tokens] @ model.whitener, dim=-1)

    def filtered(tokens: Tensor, _: Tensor | None) -> Tensor:
        return F.normalize(model.filter(tokens, model.initial_state(len(tokens))) @ model.whitener, dim=-1)

    return {"by type": Embedder(alone), "filtered": Embedder(filtered), "smoothed": Embedder(model.embed)}


def word2vec(lines: Sequence[str], vocabulary: Vocabulary, size: int, seed: int) -> Embedder:
    """Skip-gram vectors (Mikolov et al. 2013) of the same text, `<unk>` included, of mean square 1 / size."""
    from gensim.models import Word2Vec

    sentences = [[word if word in vocabulary.index else UNK for word in line.split()] for line in lines]
    fitted = Word2Vec(
        sentences, vector_size=size, sg=1, window=WINDOW, epochs=10, negative=5, min_count=1, workers=1, seed=seed
    )
    vectors = torch.zeros(len(vocabulary), size)
    for word, number in vocabulary.index.items():
        if word in fitted.wv:
            vectors[number] = torch.tensor(fitted.wv[word])
    vectors /= vectors.norm() / len(vectors) ** 0.5
    return Embedder(lambda tokens, _: vectors[tokens])


def evaluate(name: str, embedder: Embedder, vocabulary: Vocabulary, corpora: dict[str, Tagged], around: int, seed: int):
    """Train and measure a tagger for each corpus, and print the line of the table."""
    scores = []
    for corpus in corpora.values():
        classes = sorted({tag for sentence in corpus.train for _, tag in sentence})
        number = {tag: i for i, tag in enumerate(classes)}
        parts = []
        for part in corpus:
            tokens = vocabulary.encode(words_of(part))
            is_word = tokens != EOS_ID
            rows = embed_lines(embedder, tokens)[is_word]
            rows = windowed(rows * rows.shape[1] ** 0.5, (~is_word).cumsum(0)[is_word], around)
            tags = torch.tensor([number.get(tag, -1) for sentence in part for _, tag in sentence])
            parts.append(Tags(rows, tags))
        net = train_tagger(parts[0], parts[1], len(classes), seed)
        scores += [100 * accuracy(net, part) for part in parts[1:]]
    print(f"| {name} | {around} | " + " | ".join(f"{score:.2f}" for score in scores) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--size", type=int, default=20_000, help="of the vocabulary; rarer words are <unk>")
    parser.add_argument("--hidden", type=int, default=200, help="dimensions of every embedding")
    parser.add_argument("--blocks", type=int, default=4, help="r of subspace identification")
    parser.add_argument("--lags", type=int, default=7, help="of EM")
    parser.add_argument("--pseudocount", type=float, default=20.0)
    parser.add_argument("--iterations", type=int, default=30, help="of EM")
    parser.add_argument("--around", type=int, nargs="+", default=[0, 1], help="embeddings on either side of a token's")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    corpora = read_corpora(arguments.data)
    lines = read_lines(arguments.data / "ptb" / "ptb.train.txt")
    lines += [line for corpus in corpora.values() for part in corpus for line in words_of(part)]
    vocabulary = Vocabulary.of(lines, max_size=arguments.size)
    tokens = vocabulary.encode(lines)
    print(f"{len(tokens):,} tokens of {len(vocabulary):,} words")
    print(
        "| embedding | around | " + " | ".join(f"{name}, {part}" for name in corpora for part in ("dev", "test")) + " |"
    )
    print("|" + "---|" * 6)
    scores = [most_frequent_tag(c.train, part) for c in corpora.values() for part in (c.development, c.test)]
    print(
        "| most frequent tag of a type | | " + " | ".join(f"{100 * score:.2f}" for score in scores) + " |", flush=True
    )

    def row(name: str, embedder: Embedder) -> None:
        for around in arguments.around:
            evaluate(name, embedder, vocabulary, corpora, around, arguments.seed)

    row("word2vec", word2vec(lines, vocabulary, arguments.hidden, arguments.seed))
    lags = max(2 * arguments.blocks - 1, arguments.lags)
    mu, psi = whiten(Counts.of(tokens, len(vocabulary), lags), arguments.pseudocount)
    steps = em(psi, len(mu) - 1, arguments.hidden, arguments.blocks, arguments.lags)
    started = time.process_time()
    row("LDS, SSID, smoothed", embedders(Fit(*next(steps), mu))["smoothed"])
    fitted = Fit(*next(islice(steps, arguments.iterations - 1, None)), mu)
    for name, embedder in embedders(fitted).items():
        row(f"LDS, EM, {name}", embedder)
    print(f"{time.process_time() - started:.0f} s of processor time for the system and its taggers")


if __name__ == "__main__":
    main()
