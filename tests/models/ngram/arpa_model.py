"""An ARPA text as a model."""

from pathlib import Path

import torch

from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.ngram.arpa import Arpa

WORDS = ["<eos>", "a", "b", "c", "dé"]


def stream(lines: list[list[int]]) -> torch.Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


def corpus_of(words: list[str]) -> Corpus:
    empty = torch.zeros(1, dtype=torch.int64)
    return Corpus("text", "sentence", Vocabulary(words), dict.fromkeys(("train", "valid", "test"), empty), {})


def model_of(text: str, words: list[str], folder: Path) -> Arpa:
    path = folder / "model.arpa"
    path.write_text(text, encoding="utf-8")
    model = Arpa(vocabulary_size=len(words), path=str(path))
    model.estimate(corpus_of(words))
    return model
