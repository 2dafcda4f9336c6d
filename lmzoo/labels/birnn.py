"""A bidirectional recurrent network that labels words, with or without a random field as its last layer, or texts."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from lmzoo.core.errors import UserError
from lmzoo.core.options import BelowOne, Count, Depth, Dropout, NonNegative, Size, Source
from lmzoo.corpus import Vocabulary
from lmzoo.labels.chain import Scores, batches, log_partition, score
from lmzoo.labels.chained import Chained
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import NetworkLabeller, placed, start_from
from lmzoo.labels.lexical import Lexical
from lmzoo.labels.model import State, labellers, packed, unpacked
from lmzoo.labels.network import Inputs, Network, Pooling
from lmzoo.models.neural.recurrent import Recurrent
from lmzoo.protocol.model import LanguageModel

log = logging.getLogger(__name__)

UNKNOWN = 1


@labellers.register("birnn")
class BiRNN(NetworkLabeller[Network], Chained):
    """Recurrent layers in both directions over words, their letters and other columns, learnt by Adam.

    A step is a batch.

    Args:
        cell: the kind of the recurrent layers.
        embedding: dimensions of the vectors of words.
        column: dimensions of the vectors of the entries of each other column.
        filters: how many look at the letters of a word; 0: letters are not read.
        hidden: units of a layer in each direction.
        layers: how many recurrent layers are stacked.
        dropout: the rate of inputs, between layers, and of outputs.
        unknown: the rate at which a word that train has once is unknown.
        crf: whether neighbouring labels depend on each other.
        pooling: what becomes of the states of a text's words, and the text has one label: the last of each direction,
            or the mean or largest of each component. None: each word has one.
        vectors: a run of ``lmzoo vectors``, or a file of word vectors, to start from; None: none.
        epochs: how often train is read.
        batch: words and padding of a step.
        lr: Adam's rate in the first step, from which it falls to 0 in a straight line.
        clip: the largest norm of a gradient.
        lexical: how often train must have a feature of labeller=crf for it to score labels beside the network, as in
            Huang, Xu & Yu (2015), section 2.6; dropout leaves some of them out. None: none does.
        clusters: where such features score labels, a file of ``lmzoo cluster --paths``: beginnings of words' paths are
            features, too. None: none are.
        average: the decay of the exponential average of the weights that labels; None: the weights label themselves.
        from_: a run of a recurrent language model, whose word vectors and layers the forward direction starts from; it
            must have the same cell and sizes. Words beyond its vocabulary keep the vectors that were drawn for them.
            None: none.
    """

    def __init__(
        self,
        *,
        cell: Literal["rnn", "gru", "lstm"],
        embedding: Size,
        column: Size,
        filters: Count,
        hidden: Size,
        layers: Depth,
        dropout: Dropout,
        unknown: Dropout,
        crf: bool,
        pooling: Pooling | None,
        vectors: Source | None,
        epochs: Size,
        batch: Size,
        lr: NonNegative,
        clip: NonNegative,
        lexical: Size | None,
        clusters: Source | None,
        average: BelowOne | None,
        from_: Source | None,
    ):
        self.shape: dict[str, Any] = {
            "cell": cell, "embedding": embedding, "column": column, "filters": filters, "hidden": hidden,
            "layers": layers, "dropout": dropout, "crf": crf, "pooling": pooling,
        }  # fmt: skip
        if crf and pooling:
            raise UserError("labeller.crf=true: a text has one label", "leave out labeller.crf or labeller.pooling")
        if lexical and pooling:
            raise UserError("labeller.lexical: features are of words, and a text has one label",
                            "leave out labeller.lexical or labeller.pooling")  # fmt: skip
        if clusters and not lexical:
            way_out = "leave it out" if pooling else "set labeller.lexical=1 or more, or leave it out"
            raise UserError(f"labeller.clusters={clusters}: is read for lexical features alone", way_out)
        self.kind = "text" if pooling else "words"
        self.source, self.vectors, self.pooling = from_, vectors, pooling
        self.unknown, self.crf, self.epochs, self.batch, self.lr, self.clip = unknown, crf, epochs, batch, lr, clip
        self.lexical = Lexical(lexical, "labeller.lexical", clusters) if lexical else None
        self.decay = average

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.sentences, self.seed = sentences, seed
        self.lengths = [len(sentence.words) for sentence in sentences]
        self.epoch = sum(1 for _ in batches(self.lengths, self.batch))
        self.steps = self.epochs * self.epoch
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        number = len(next(iter(sentences[0].features), ()))
        others = [sorted({row[k] for sentence in sentences for row in sentence.features}) for k in range(number)]
        letters = sorted({letter for sentence in sentences for word in sentence.words for letter in word})
        if self.lexical is not None:
            self.lexical.start(sentences)
        labels = sorted({x for sentence in sentences for x in sentence.labels})
        torch.manual_seed(seed)
        self._know([sorted(counts), *others, letters], labels)
        self.once = torch.tensor([False, False, *(counts[word] == 1 for word in self.tables[0][2:])])
        start_from(self.vectors, self.network.embeddings[0].get_parameter("weight"), self.tables[0][2:])
        self.network.to(self.device)
        self.optimizer = torch.optim.Adam(self.learnt(), lr=self.lr)
        self.follow(self.decay)

    @property
    def starts_from(self) -> tuple[str, str] | None:
        return None if self.source is None else ("labeller.from", self.source)

    @torch.no_grad()
    def inherit(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        if vocabulary.form.unit == "char":
            raise UserError(f"labeller.from={self.source}: predicts characters, not words")
        own = self.network.recurrent
        layers = model.recurrent if isinstance(model, Recurrent) else None
        if not (isinstance(model, Recurrent) and isinstance(layers, torch.nn.RNNBase) and layers.mode == own.mode):
            raise UserError(f"labeller.from={self.source}: no plain network of labeller.cell={self.shape['cell']}")
        sizes = {"embedding": model.embedding.embedding_dim, "hidden": layers.hidden_size, "layers": layers.num_layers}
        if wrong := [name for name, size in sizes.items() if self.shape[name] != size]:
            raise UserError(f"labeller.from={self.source}: has {wrong[0]} {sizes[wrong[0]]}", "set labeller's to that")
        for name, weight in layers.named_parameters():
            part = own.get_parameter(name)
            (part if part.ndim == 1 else part[:, : weight.shape[1]]).copy_(weight)
        numbers = [vocabulary.index.get(word) for word in self.tables[0]]
        known = [i for i, number in enumerate(numbers) if number is not None]
        rows = model.embedding.weight[[number for number in numbers if number is not None]]
        if not len(rows):
            raise UserError(f"labeller.from={self.source}: has none of the words of train in lower case")
        self.network.embeddings[0].get_parameter("weight")[known] = rows.to(self.device)
        log.info(
            "%s has %s of %s words of train in lower case", self.source, f"{len(known):,}", f"{len(numbers) - 2:,}"
        )

    def _know(self, tables: Sequence[Sequence[str]], labels: Sequence[str]) -> None:
        """Take words, entries of other columns, letters, and labels, and build a network for them."""
        self.tables = [["", "", *table] for table in tables]
        self.numbers = [{text: i for i, text in enumerate(table, 2)} for table in tables]
        self.labels = list(labels)
        sizes = [len(table) for table in self.tables]
        features = 0 if self.lexical is None else len(self.lexical.numbers)
        self.network = Network(sizes, len(self.labels), features, **self.shape)

    def _inputs(self, sentences: Sequence[Sentence]) -> Inputs:
        def padded(rows: Sequence[Sequence[int]]) -> Tensor:
            return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)

        *numbers, letters = self.numbers
        texts = [[[word.lower() for word in s.words] for s in sentences]]
        texts += [[[row[k] for row in s.features] for s in sentences] for k in range(len(numbers) - 1)]
        columns = [padded([[number.get(text, UNKNOWN) for text in row] for row in rows])
                   for number, rows in zip(numbers, texts, strict=True)]  # fmt: skip
        words = {word: i for i, word in enumerate(dict.fromkeys(word for s in sentences for word in s.words))}
        spelled = padded([[letters.get(letter, UNKNOWN) for letter in word] for word in words])
        spelling = padded([[words[word] for word in s.words] for s in sentences])
        lengths = torch.tensor([len(s.words) for s in sentences])
        rows = None if self.lexical is None else self.lexical.rows(sentences)
        return Inputs(columns, spelled, spelling, lengths, rows)

    def _groups(self, epoch: int) -> Sequence[list[int]]:
        """The sentences of the steps of an epoch: groups of similar length."""

        def drawn(random: np.random.Generator) -> list[list[int]]:
            order = random.permutation(len(self.sentences)).tolist()
            groups = [[order[i] for i in group] for group in batches([self.lengths[i] for i in order], self.batch)]
            return [groups[i] for i in random.permutation(len(groups))]

        return self.in_order(epoch, drawn)

    def step(self, number: int) -> dict[str, float]:
        epoch, place = divmod(number, self.epoch)
        self.draw(number)
        sentences = [self.sentences[i] for i in self._groups(epoch)[place]]
        inputs = self._inputs(sentences)
        words = inputs.columns[0]
        inputs.columns[0] = words.masked_fill(self.once[words] & (torch.rand(words.shape) < self.unknown), UNKNOWN)
        of = {label: i for i, label in enumerate(self.labels)}
        gold = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor([of[x] for x in s.labels]) for s in sentences], batch_first=True
        )
        self.network.train()
        scores = self.network(placed(inputs, self.device))
        loss = (log_partition(scores) - score(scores, gold.to(self.device))).sum() / scores.lengths.sum()
        self.optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(self.learnt(), self.clip)
        self.optimizer.param_groups[0]["lr"] = rate = self.lr * (1 - number / self.steps)
        self.descend()
        found = {"loss/train": loss.detach(), "train/gradient_norm": norm, "train/learning_rate": rate}
        return {name: float(value) for name, value in found.items()}

    def known(self) -> State:
        features = {} if self.lexical is None else self.lexical.state()
        tables = {f"table{i}": packed(table) for i, table in enumerate(self.tables)}
        return {"labels": packed(self.labels), **tables, **features}

    def know(self, state: Mapping[str, Tensor]) -> None:
        tables = [f"table{i}" for i in range(sum(name.startswith("table") for name in state))]
        if self.lexical is not None:
            self.lexical.take(state)
        self._know([unpacked(state[name])[2:] for name in tables], unpacked(state["labels"]))

    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        with self.labelling():
            emission, moves, start, lengths = self.network(placed(self._inputs(sentences), self.device))
        return Scores(emission.cpu(), moves.detach().cpu(), start.detach().cpu(), lengths.cpu())
