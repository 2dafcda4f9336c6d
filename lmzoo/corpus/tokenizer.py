"""Tokenizers for plain text."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

MARKS = "".join(
    c
    for c in map(chr, range(0x300, 0x20000))
    if unicodedata.category(c)[0] == "M" and not "\ufe00" <= c <= "\ufe0f"  # which choose how a sign looks
)
"""Combining marks, which belong to the letter before them, as the vowel signs of Hindi do."""
JOINERS = "\u200c\u200d"
"""Two signs that belong to a word in the middle of it."""


def _with_marks(letter: str) -> str:
    """A regular expression of letters side by side, with their marks; the range soon excludes most other signs."""
    return rf"{letter}+(?:(?=[{MARKS[0]}-{MARKS[-1]}])(?:[{MARKS}]|[{JOINERS}](?={letter})){letter}*)*"


ALPHANUMERIC, _WORD = _with_marks(r"[^\W_]"), _with_marks(r"\w")
"""Letters and digits side by side; these and _."""
_CUT = (
    r"<unk>|n't|'(?:s|re|ve|ll|d|m)\b|[$#&]|(?:[a-z]\.){2,}"
    r"|(?:mr|mrs|ms|messrs|dr|prof|rev|sen|rep|gov|gen|jr|sr|st|inc|corp|co|ltd|vs"
    r"|jan|feb|aug|sept|oct|nov|dec)\.(?!\w)"
    r"|can(?=not\b)|g(?:on(?=na\b)|ot(?=ta\b)|im(?=me\b))|wan(?=na\b)|lem(?=me\b)"  # can not, gon na, got ta, gim me
    rf"|[^\W_]+?(?=n't\b)|{ALPHANUMERIC}(?:[-/&.]{ALPHANUMERIC})*"
)
PTB = re.compile(rf"N|{_CUT}")
NUMBER = re.compile(r"(?<![\w-])\d[\d,.]*(?<![,.])(?![\w-])|%")
STUCK, PROSE = ".,;:!?\"'“”‘’()…", 0.05
"""Signs of punctuation, and the share of words that are stuck to them in raw prose, at least."""
TREEBANK = re.compile(rf"(?i)\d+(?:[.,]\d+)+(?!\w)|[^\W_]'(?!(?:s|re|ve|ll|d|m)\b){ALPHANUMERIC}|{_CUT}|\.{{2,}}|--|\S")
WORDS = re.compile(rf"<unk>|\d+(?:[.,]\d+)+(?!\w)|{_WORD}(?:['’-]{_WORD})*|[^\w\s]")
PATTERNS = {"ptb": PTB, "treebank": TREEBANK, "words": WORDS}


def ptb(line: str) -> str:
    """Tokenize as Mikolov et al. (2010) did Penn Treebank: lower case, no punctuation, clitics split, N for numbers."""
    return " ".join(PTB.findall(NUMBER.sub("N", line.lower().replace("’", "'"))))


def treebank(line: str) -> str:
    """Separate punctuation and clitics as Penn Treebank does, with capitals, numbers and quotes as they are written."""
    return " ".join(TREEBANK.findall(line.replace("’", "'")))


def words(line: str) -> str:
    """Separate words and punctuation; apostrophes and hyphens inside words are left in place."""
    return " ".join(WORDS.findall(line))


def with_punctuation(words: Iterable[str]) -> list[str]:
    """Those of some words that are letters with punctuation attached to them, such as ``end.`` and ``(in``."""
    return [word for word in words if (bare := word.strip(STUCK)) != word and bare.isalpha()]


TOKENIZERS: Mapping[str, Callable[[str], str]] = {"ptb": ptb, "treebank": treebank, "words": words}
"""A line of plain text -> words separated by spaces."""

Places = list[tuple[int, int]]
"""The beginning and the end in the original text of each character of a text made from it."""


def traced(text: str, places: Places, tokenizer: str) -> tuple[str, Places]:
    """The text that a tokenizer makes of a text, and the places of its characters."""
    if tokenizer == "ptb":
        text, places = lowered(text, places)
        text = text.replace("’", "'")
        found = [(match.start(), match.end()) for match in NUMBER.finditer(text)]
        for begin, end in reversed(found):
            text = f"{text[:begin]}N{text[end:]}"
            places = [*places[:begin], (places[begin][0], places[end - 1][1]), *places[end:]]
    if tokenizer == "treebank":
        text = text.replace("’", "'")
    words, kept = [], Places()
    for match in PATTERNS[tokenizer].finditer(text):
        words.append(match[0])
        of_word = places[match.start() : match.end()]
        kept += [*of_word, (of_word[-1][1], of_word[-1][1])]  # and of the space behind it
    return " ".join(words), kept[:-1]


def lowered(text: str, places: Places) -> tuple[str, Places]:
    """A text in lower case, in which a character may become several, and the places of its characters."""
    return text.lower(), [place for c, place in zip(text, places, strict=True) for _ in c.lower()]
