"""A bidirectional recurrent network for labels of words, optionally with a CRF layer, or of texts."""

import logging
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lmzoo.core.errors import UserError
from lmzoo.core.memory import require_memory
from lmzoo.core.options import configured
from lmzoo.corpus import Vocabulary
from lmzoo.labels.chain import Scores, batches, log_partition, score
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import DescentOptions, NetworkLabeller, initialize_embeddings, to_device
from lmzoo.labels.lexical import Lexical
from lmzoo.labels.linear_chain import ChainLabeller
from lmzoo.labels.model import FEWER, index_labels, labellers
from lmzoo.labels.network import BiRNNOptions, Inputs, Network
from lmzoo.models.neural.recurrent import Recurrent
from lmzoo.protocol.model import LanguageModel

log = logging.getLogger(__name__)

UNKNOWN = 1


@labellers.register("birnn")
class BiRNN(NetworkLabeller[Network], ChainLabeller):
    """Bidirectional recurrent network over words, their letters and other columns."""

    saved = ("labels", "numbers", "lexical")

    @configured(BiRNNOptions)
    def __init__(self, options: BiRNNOptions):
        super().__init__(**options.inherited(DescentOptions))
        self.settings = options
        if options.crf and options.pooling:
            raise UserError("labeller.crf=true: a text has one label", "leave out labeller.crf or labeller.pooling")
        if options.lexical and options.pooling:
            raise UserError("labeller.lexical: features are of words, and a text has one label",
                            "leave out labeller.lexical or labeller.pooling")  # fmt: skip
        if options.clusters and not options.lexical:
            way_out = "leave it out" if options.pooling else "set labeller.lexical=1 or more, or leave it out"
            raise UserError(f"labeller.clusters={options.clusters}: is used only for lexical features", way_out)
        self.kind = "text" if options.pooling else "words"
        self.source, self.pooling, self.clip = options.from_, options.pooling, options.clip
        self.lexical = Lexical(options.lexical, "labeller.lexical", options.clusters) if options.lexical else None

    def read(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences
        self.lengths = [len(sentence.words) for sentence in sentences]
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        columns = [sorted(set(column)) for column in zip(*(row for s in sentences for row in s.features), strict=True)]
        letters = sorted({letter for sentence in sentences for word in sentence.words for letter in word})
        if self.lexical is not None:
            self.lexical.start(sentences)
        self.labels, self.gold = index_labels(sentences)
        F, K = len(self.lexical.numbers) if self.lexical is not None else 0, len(self.labels)
        require_memory(4 * 4 * (F + K) * K, f"the weights of {K:,} labels, their neighbours and {F:,} features", FEWER)
        tables = (sorted(counts), *columns, letters)
        self.numbers = [{text: i for i, text in enumerate(table, UNKNOWN + 1)} for table in tables]
        """The indices of words, entries of other columns, and letters; 0 is padding."""
        self.once = torch.tensor([False, False, *(counts[word] == 1 for word in self.numbers[0])])

    def build(self) -> Network:
        features = 0 if self.lexical is None else len(self.lexical.numbers)
        return Network([UNKNOWN + 1 + len(table) for table in self.numbers], len(self.labels), features, self.settings)

    def begin(self) -> None:
        initialize_embeddings(
            self.settings.vectors, self.network.embeddings[0].get_parameter("weight"), [*self.numbers[0]]
        )
        if self.source is not None:
            run, vocabulary = self.open_model("labeller.from", self.source)
            self.inherit(run.model, vocabulary)

    @torch.no_grad()
    def inherit(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        """Initialize word vectors and the forward direction from a language model, if its sizes match the options."""
        if vocabulary.form.reverse:
            raise UserError(f"labeller.from={self.source}: reads backwards", "choose a run of corpus.reverse=false")
        forward = self.network.recurrent
        layers = model.recurrent if isinstance(model, Recurrent) else None
        if not (isinstance(model, Recurrent) and isinstance(layers, torch.nn.RNNBase) and layers.mode == forward.mode):
            raise UserError(f"labeller.from={self.source}: no plain network of labeller.cell={self.settings.cell}")
        sizes = {"embedding": model.embedding.embedding_dim, "hidden": layers.hidden_size, "layers": layers.num_layers}
        if wrong := [name for name, size in sizes.items() if getattr(self.settings, name) != size]:
            raise UserError(f"labeller.from={self.source}: has {wrong[0]} {sizes[wrong[0]]}", "set labeller's to that")
        for name, weight in layers.named_parameters():
            part = forward.get_parameter(name)
            (part if part.ndim == 1 else part[:, : weight.shape[1]]).copy_(weight)
        shared = {i: vocabulary.index[word] for word, i in self.numbers[0].items() if word in vocabulary.index}
        if not shared:
            raise UserError(f"labeller.from={self.source}: has none of the words of train in lower case")
        rows = model.embedding.weight[[*shared.values()]].to(self.device)
        self.network.embeddings[0].get_parameter("weight")[[*shared]] = rows
        words = f"{len(shared):,} of {len(self.numbers[0]):,}"
        log.info("%s has %s words of train in lower case", self.source, words)

    def _inputs(self, sentences: Sequence[Sentence]) -> Inputs:
        def padded(rows: Sequence[Sequence[int]]) -> Tensor:
            return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)

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

    def batches(self, random: np.random.Generator) -> list[list[int]]:
        """Batches of sentences of similar length, in random order."""
        order = random.permutation(len(self.sentences)).tolist()
        groups = [[order[i] for i in group] for group in batches([self.lengths[i] for i in order], self.batch)]
        return [groups[i] for i in random.permutation(len(groups))]

    def loss(self, batch: list[int]) -> tuple[Tensor, int]:
        inputs = self._inputs([self.sentences[i] for i in batch])
        words = inputs.columns[0]
        inputs.columns[0] = words.masked_fill(
            self.once[words] & (torch.rand(words.shape) < self.settings.unknown), UNKNOWN
        )
        gold = pad_sequence([self.gold[i] for i in batch], batch_first=True)
        scores = self.network(to_device(inputs, self.device))
        return (log_partition(scores) - score(scores, gold.to(self.device))).sum() / scores.lengths.sum(), 1

    @torch.no_grad()
    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        self.network.eval()
        scores = self.network(to_device(self._inputs(sentences), self.device))
        return Scores(*(part.detach().cpu() for part in scores))
