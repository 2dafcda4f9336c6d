"""Conversion of lines into words."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal, get_args

from lmzoo.core.errors import UserError, format_value
from lmzoo.core.options import Bounds, Idle, Options, check, schema
from lmzoo.corpus.subwords import Kind, Subwords, joined
from lmzoo.corpus.tokenizer import TOKENIZERS

Unit = Literal["word", "char", "bpe", "unigram"]
Tokenizer = Literal["ptb", "treebank", "words"]

NAMES = {chr(i): f"<U+{i:04X}>" for i in range(0x3001) if chr(i).isspace()} | {" ": "<space>"}
"""Names of white space characters as words, which cannot contain white space; other names have one character."""

_CHARACTERS = {name: white for white, name in NAMES.items()}


class FormOptions(Options):
    """The processing of each line of a text before its words are looked up; by default none."""

    unit: Unit = "word"
    """unit of the vocabulary. word: separated by white space; char: a single character, with bits per character
    printed; bpe, unigram: a subword, learned from train by byte-pair encoding (Sennrich et al. 2016) or as a unigram
    model (Kudo 2018). The end of a line is `<eos>` in all."""
    lower: bool = False
    """whether to convert to lower case first."""
    tokenizer: Tokenizer | None = None
    """tokenizer for raw text. words: separates words and punctuation only; treebank: splits didn't into did n't, too,
    as the annotated Penn Treebank does; ptb: as language models read it, in lower case, without punctuation, and N for
    numbers. None: no tokenization."""
    reverse: bool = False
    """whether each line is reversed, so that a model predicts a word from those after it: a backward language model,
    SRILM's ``-reverse``."""
    subwords: Annotated[int, Bounds(low=2**8 + 2, high=2**20), Idle(("corpus.unit", "word", "char"))] = 8000
    """vocabulary size for bpe and unigram, `<eos>` and 256 bytes included."""


class Form(FormOptions):
    """The processing of lines, with the ``pieces`` for subwords."""

    pieces: Subwords | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Form":
        """Build a form without pieces from the options of any corpus; raise a UserError if the type of one is wrong."""
        chosen = {name: options[name] for name in schema(FormOptions) if name in options}
        check(FormOptions, chosen, "corpus.")
        return cls(**chosen)

    @property
    def options(self) -> dict[str, Any]:
        """The relevant options by name."""
        names = ["unit", "lower", "tokenizer", "reverse", *(["subwords"] if self.of_pieces else [])]
        return {name: getattr(self, name) for name in names}

    @property
    def of_words(self) -> bool:
        """Whether the vocabulary consists of words separated by white space."""
        return self.unit == "word"

    @property
    def of_pieces(self) -> bool:
        """Whether the vocabulary consists of subwords."""
        return self.unit in get_args(Kind)

    @property
    def spaced(self) -> bool:
        """Whether white space separates words, so that none contains it, and its amount is irrelevant."""
        return self.unit != "char"

    @property
    def without_reverse(self) -> "Form":
        """This form with words in the order of the text."""
        return replace(self, reverse=False) if self.reverse else self

    def with_pieces(self, pieces: Subwords) -> "Form":
        """A copy with pieces for subwords."""
        return replace(self, pieces=pieces)

    def words(self, line: str) -> list[str]:
        """The words of a line in reading order, without white space."""
        words = self._separated(line)
        if self.pieces is not None:
            words = [*chain.from_iterable(map(self.pieces.cut, words))]
        return words[::-1] if self.reverse else words

    def _separated(self, line: str) -> list[str]:
        """The words of a line in the order of the text, not cut into subwords."""
        line = self.cleaned(line)
        return [NAMES.get(c, c) for c in line.removesuffix("\r")] if self.unit == "char" else line.split()

    def cleaned(self, line: str) -> str:
        """A line before splitting: in lower case and tokenized, if so configured."""
        if self.lower:
            line = line.lower()
        return line if self.tokenizer is None else TOKENIZERS[self.tokenizer](line)

    def line(self, words: Iterable[str]) -> str:
        """Join words to a line."""
        if self.unit == "char":
            return "".join(map(character, words))
        return joined(words) if self.of_pieces else " ".join(words)

    def can_contain(self, word: str) -> bool:
        """Whether a text can contain this word, such as N for a number."""
        if self.pieces is not None:
            return word in self.pieces.words
        return word in self.words(f"{character(word) if self.unit == 'char' else word} 7")

    def changed_options(self) -> list[str]:
        """The options that differ from the default, as on a command line."""
        usual = Form().options
        return [f"corpus.{name}={format_value(v)}" for name, v in self.options.items() if v != usual.get(name)]

    def prepared(self, text: bytes) -> bytes:
        """Separate words by spaces in terminated lines of UTF-8, in the order of the text, not cut into subwords."""
        if not text or (self.unit != "char" and not self.lower and self.tokenizer is None):
            return text
        lines = text.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")
        return "".join(" ".join(self._separated(line)) + "\n" for line in lines).encode("utf-8", "surrogatepass")


def require_tokenizer(name: str, form: Form, run: object) -> None:
    """Raise a UserError if there is no such tokenizer of plain text, or a run with this form tokenizes text itself."""
    if name not in TOKENIZERS:
        raise UserError(f"tokenize={name}: no such tokenizer", f"choose {' or '.join(TOKENIZERS)}")
    if form.tokenizer is not None:
        raise UserError(
            f"tokenize={name}: {run} tokenizes text itself (corpus.tokenizer={form.tokenizer})", "leave it out"
        )


def require_one_direction(name: object, form: Form, other: object, others: Form) -> None:
    """Raise a UserError if only one of two forms, with names for the message, reads backwards."""
    if form.reverse != others.reverse:
        backwards, forwards = (name, other) if form.reverse else (other, name)
        problem = f"{backwards} reads lines backwards (corpus.reverse=true), and {forwards} forwards"
        raise UserError(problem, "choose runs with the same direction; lmzoo compare RUN… shows the perplexity of each")


def character(name: str) -> str:
    """The character of a word if ``unit="char"``; `<unk>` is unchanged."""
    return _CHARACTERS.get(name, name)
