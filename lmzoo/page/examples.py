"""What the fields of the page hold at first, so that there is something to see."""

from itertools import takewhile
from typing import NamedTuple

from lmzoo.corpus import EOS
from lmzoo.page import data
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.sampling import Decoding

WORDS = 10
"""Of a line that a model draws."""


class Example(NamedTuple):
    """A text that suits a vocabulary.

    Attributes:
        text: a line whose words are coloured, or come from hidden states.
        begun: the beginning of a line.
        gaps: a line with gaps.
        word: whose neighbours are shown.
        analogies: words a, a*, b.
    """

    text: str
    begun: str
    gaps: str
    word: str
    analogies: tuple[tuple[str, str, str], ...]


NEWS = Example(
    "the bank of england said it will raise interest rates",
    "the bank of ",
    "the ___ of england said it ___ raise interest rates",
    "bank",
    (("he", "his", "she"), ("france", "french", "germany"), ("company", "companies", "bank")),
)
PYTHON = Example(
    "the class statement defines a new class object .",
    "if the class ",
    "the ___ statement ___ a new class object .",
    "function",
    (("class", "classes", "object"), ("function", "functions", "method"), ("list", "lists", "string")),
)


def example(zoo: Zoo) -> Example:
    """One whose words the vocabulary has; where there is none, words that the first model draws."""
    for known in (NEWS, PYTHON):
        if all(word in zoo.vocabulary.index for word in zoo.vocabulary.form.words(known.text)):
            return known
    tokens = []
    if zoo.predicting:
        tokens = data.samples(next(iter(zoo.predicting.values())), "", WORDS, 0, 1, Decoding(top_k=10))[0].tokens
    words = [*takewhile(lambda word: word != EOS, (token.word for token in tokens))]
    words = words or zoo.vocabulary.words[1 : WORDS + 1]
    line, begun = map(zoo.vocabulary.form.line, (words, words[:1]))
    first, second, third, *_ = [*words, *words, *words]
    return Example(line, f"{begun} ", " ".join(["___", *words[1:]]), first, ((first, second, third),))
