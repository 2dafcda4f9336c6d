"""Vocabularies as tokenizers of Hugging Face, beside `Vocabulary.encode`."""

import pytest

from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import learn_subwords
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.huggingface.tokenizer import tokenizer

pytest.importorskip("tokenizers")

TEXTS = [
    "the cat  sat on\tthe mat",
    "The Company's shares fell 3,000.5 % in 1987, didn't they? It's Mr. Smith-Jones’ u.s. unit",
    "unseen wörds <unk> état 12 3.4 x-1 ...",
    "m² CO₂ ½ 5¼ ① ⓐ ΟΔΟΣ हिन्दी cafe\u0301 a_b a‿b cannot",
    "",
]
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "company",
    "'s",
    "shares",
    "fell",
    "N",
    "%",
    "in",
    "they",
    "it",
    "mr.",
    ",",
    ".",
    "?",
    "<unk>",
    "u.s.",
    "smith-jones",
    "The",
    "Company's",
    *[
        "m²",
        "CO₂",
        "co₂",
        "½",
        "5¼",
        "①",
        "ΟΔΟΣ",
        "οδος",
        "हिन्दी",
        "cafe\u0301",
        "a_b",
        "a",
        "b",
        "can",
        "not",
        "cannot",
    ],
]


def encoded(vocabulary: Vocabulary) -> None:
    """Compare the two on texts, and decode what has no unknown words."""
    made = tokenizer(vocabulary)
    for text in TEXTS:
        tokens = vocabulary.encode([text])[:-1].tolist()
        assert made.encode(text).ids == tokens
        if vocabulary.form.pieces is not None:
            assert made.decode(tokens) == vocabulary.decode(tokens)


@pytest.mark.parametrize(
    "options",
    [{}, {"lower": True}, {"tokenizer": "words", "lower": True}, *({"tokenizer": name} for name in TOKENIZERS)],
)
def test_words(options: dict):
    encoded(Vocabulary(["<eos>", *WORDS], Form(**options)))


def test_characters():
    form = Form(unit="char")
    vocabulary = Vocabulary(["<eos>", "<unk>", *dict.fromkeys(form.words("\t".join(TEXTS[:2])))], form)
    encoded(vocabulary)
    assert tokenizer(vocabulary).decode(vocabulary.encode(TEXTS[:1])[:-1].tolist()) == TEXTS[0]


def test_a_closed_vocabulary_has_no_other_words():
    made = tokenizer(Vocabulary(["<eos>", "the"]))
    assert made.encode("the the <eos>").ids == [1, 1, 0]
    with pytest.raises(Exception, match="Missing"):
        made.encode("the cat")


def test_words_cut_into_characters_are_refused():
    with pytest.raises(UserError, match="does both"):
        tokenizer(Vocabulary(["<eos>", "a"], Form(unit="char", tokenizer="ptb")))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords(kind):
    pytest.importorskip("sentencepiece")
    pieces = learn_subwords([*TEXTS[:2], "the cats sat on mats that the company fell on"] * 3, kind, 256 + 45)
    encoded(Vocabulary(pieces.words, Form(unit=kind).with_pieces(pieces)))
    encoded(Vocabulary(pieces.words, Form(unit=kind, lower=True).with_pieces(pieces)))
