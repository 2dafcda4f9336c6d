"""How the lines of a text become words."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from lmzoo.core.options import call
from lmzoo.corpus.tokenizer import TOKENIZERS

Unit = Literal["word", "char"]
Tokenizer = Literal["ptb", "words"]

NAMES = {chr(i): f"<U+{i:04X}>" for i in range(0x3001) if chr(i).isspace()} | {" ": "<space>"}
"""White space as words, which white space cannot be itself. No other character has a name of several."""

_CHARACTERS = {name: white for white, name in NAMES.items()}


@dataclass(frozen=True)
class Form:
    """What is done to each line of a text before its words are looked up; by default nothing.

    Args:
        unit: whether a word is what white space parts, or a single character, and bits per character are printed. The
            end of a line is `<eos>` in both.
        lower: whether letters become small, first of all.
        tokenizer: what cuts plain text into words and signs of punctuation then: words does no more; ptb as Penn
            Treebank was prepared, with small letters, no punctuation, and N for numbers. None: nothing does.
    """

    unit: Unit = "word"
    lower: bool = False
    tokenizer: Tokenizer | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Form":
        """From the options of a corpus, many of which have none of these; a UserError for one of another type."""
        return call(cls, {field.name: options.get(field.name, field.default) for field in fields(cls)}, "corpus.")

    @property
    def of_words(self) -> bool:
        """Whether white space parts the words, so that none has it in it."""
        return self.unit == "word"

    def words(self, line: str) -> list[str]:
        """The words of a line, none of which has white space in it."""
        if self.lower:
            line = line.lower()
        if self.tokenizer is not None:
            line = TOKENIZERS[self.tokenizer](line)
        return [NAMES.get(c, c) for c in line.removesuffix("\r")] if self.unit == "char" else line.split()

    def makes(self, word: str) -> bool:
        """Whether a text can have this word, which may be what becomes of a number."""
        return word in self.words(f"{character(word) if self.unit == 'char' else word} 7")

    def changes(self) -> list[str]:
        """The options that are unlike the default, as they are written on a command line."""
        values = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return [f"corpus.{name}={str(value).lower()}" for name, value, default in values if value != default]

    def prepared(self, text: bytes) -> bytes:
        """UTF-8 whose lines end with a line feed each -> the same lines as words that spaces part."""
        if self == Form():
            return text
        lines = text.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")
        return "".join(" ".join(self.words(line)) + "\n" for line in lines).encode("utf-8", "surrogatepass")


def character(name: str) -> str:
    """The character that a word of ``unit="char"`` stands for; `<unk>` as it is."""
    return _CHARACTERS.get(name, name)
