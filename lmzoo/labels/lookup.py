"""Where tables of other texts have the words of a labelled one."""

import re
from collections.abc import Mapping
from typing import TypeVar

from lmzoo.corpus.vocabulary import EOS, UNK

T = TypeVar("T")

NUMBER = re.compile(r"[\d.,:/\\-]*\d[\d.,:/\\-]*")


def entry(word: str, table: Mapping[str, T]) -> T | None:
    """What a table has for a word: as it stands, in lower case, as N if it is a number, or as `<unk>`.

    Penn Treebank's text for language models has words in lower case, and N for a number.
    """
    forms = [word, word.lower(), *(["N"] if NUMBER.fullmatch(word) else []), UNK]
    return next((table[form] for form in forms if form in table and form != EOS), None)
