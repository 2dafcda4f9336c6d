"""Models that start from word vectors."""

from pathlib import Path

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.protocol.model import LanguageModel, models
from lmzoo.words.vectors.formats import encoded
from lmzoo.words.vectors.word_vectors import WordVectors

NAMES = {"nnlm": "C.weight", "logbilinear": "R.weight", "rnn": "embedding.weight", "lstm": "embedding.weight"}


@pytest.fixture
def file(corpus: Corpus, tmp_path: Path) -> Path:
    """Vectors of the first 50 words, the last of them in upper case, and of a word that is not in the text."""
    words = [*corpus.vocabulary.words[1:50], corpus.vocabulary.words[50].upper(), "other"]
    matrix = torch.randn(51, 6, generator=torch.Generator().manual_seed(0)) * 40
    (tmp_path / "v.txt").write_bytes(encoded(WordVectors(words, matrix), "word2vec-text"))
    return tmp_path / "v.txt"


def build(corpus: Corpus, name: str, **options) -> LanguageModel:
    torch.manual_seed(0)
    sizes = {"embedding": 6, "hidden": 6} if name != "logbilinear" else {"embedding": 6}
    return models.build(defaults("model", name) | sizes | options, vocabulary_size=len(corpus.vocabulary))


@pytest.mark.parametrize("name", list(NAMES))
@pytest.mark.parametrize("frozen", [False, True])
def test_words_with_vectors_start_from_them_and_others_as_drawn(corpus: Corpus, file: Path, name: str, frozen: bool):
    drawn = build(corpus, name).get_parameter(NAMES[name])
    model = build(corpus, name, embedding_from=str(file), embedding_frozen=frozen)
    model.estimate(corpus)
    weight = model.get_parameter(NAMES[name])
    assert weight.requires_grad == (not frozen)
    given = torch.randn(51, 6, generator=torch.Generator().manual_seed(0))[:50]
    torch.testing.assert_close(weight[1:51] / weight[1, 0], given / given[0, 0])
    torch.testing.assert_close(weight[1:51].square().mean(), drawn[1:51].square().mean())
    assert torch.equal(weight[51:], drawn[51:])
    assert torch.equal(weight[0], drawn[0])


def test_vectors_stay_as_they_are_where_other_words_begin_with_zeros(corpus: Corpus, file: Path):
    model = build(corpus, "lstm", embedding_from=str(file), init=0)
    model.estimate(corpus)
    given = torch.randn(51, 6, generator=torch.Generator().manual_seed(0))[:50] * 40
    torch.testing.assert_close(model.get_parameter(NAMES["lstm"])[1:51], given)


def test_vectors_that_do_not_fit_are_refused(corpus: Corpus, file: Path):
    for options, message in (
        ({"embedding_from": str(file), "embedding": 7, "tied": False}, "model.embedding=7: .* have 6; set it to 6"),
        ({"embedding_from": "absent"}, "model.embedding_from: absent: no such file"),
    ):
        with pytest.raises(UserError, match=message):
            build(corpus, "lstm", **options).estimate(corpus)
    with pytest.raises(UserError, match=r"embedding_frozen=true would keep random vectors"):
        build(corpus, "lstm", embedding_frozen=True).estimate(corpus)
    file.write_text("other 1 2 3 4 5 6\n")
    with pytest.raises(UserError, match="none of the words"):
        build(corpus, "lstm", embedding_from=str(file)).estimate(corpus)
