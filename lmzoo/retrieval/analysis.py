"""Texts as the words that an index has: lower case, without stop words, stemmed."""

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from lmzoo.core.errors import UserError, nearest
from lmzoo.core.extras import import_optional
from lmzoo.corpus.tokenizer import ALPHANUMERIC

log = logging.getLogger(__name__)

STOP_WORDS = Path(__file__).with_name("stop_words.txt")
"""English, 318 words: the list of the Glasgow Information Retrieval Group, as scikit-learn has it."""


def stemmer(name: str) -> Callable[[str], str]:
    """Snowball's stemmer of that name, such as ``porter`` (Porter 1980); ``none`` changes no word."""
    if name == "none":
        return str
    install = "'lmzoo-torch[retrieval]', or ask for --stem none"
    snowballstemmer = import_optional("snowballstemmer", f"--stem {name}", "snowballstemmer", install)
    if name not in (names := [*snowballstemmer.algorithms(), "none"]):
        raise UserError(f"--stem {name}: no such stemmer", nearest(name, names))
    return snowballstemmer.stemmer(name).stemWord


def analysis(stop: Iterable[str], stem: Callable[[str], str]) -> Callable[[str], list[str]]:
    """A function from a text to its words. A word is letters and digits side by side; stop words go before stemming."""
    stopped, stemmed, pattern = frozenset(stop), cache(stem), re.compile(ALPHANUMERIC)
    if cut := sorted(word for word in stopped if not pattern.fullmatch(word)):
        what = "%d stop words have no effect, as they have other characters than letters and digits, such as %s"
        log.warning(what, len(cut), cut[0])

    def words(text: str) -> list[str]:
        found = pattern.findall(unicodedata.normalize("NFC", text.lower()))
        return [stemmed(word) for word in found if word not in stopped]

    return words
