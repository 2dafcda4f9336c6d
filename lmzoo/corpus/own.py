"""Files of the user's: texts in one file or several, and vocabularies."""

import glob
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from lmzoo.core.errors import UserError
from lmzoo.core.files import read_lines
from lmzoo.corpus.vocabulary import ADDED, EOS, UNK, Vocabulary

CONDITIONS = "conditions.txt"
"""The file of a run with a label a line, in the order of their numbers, where the lines of its corpus have labels."""


def text_files(named: str | Sequence[str]) -> list[Path]:
    """The files that names or patterns (``texts/*.txt``) stand for, those of a pattern in alphabetical order.

    Raises: UserError for a pattern without a file.
    """
    found: list[Path] = []
    for name in [named] if isinstance(named, str) else named:
        if not Path(name).exists() and glob.has_magic(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
            if not matches:
                raise UserError(f"{name}: no file matches it")
            found += map(Path, matches)
        else:
            found.append(Path(name))
    return found


def named_after(file: str) -> str:
    """What a text is called after its first file, or after the folder that a pattern looks in."""
    path = Path(file)
    while glob.has_magic(path.name):
        path = path.parent
    return Path(path.name.removesuffix(".gz")).stem or "text"


def read_vocabulary(source: str) -> Vocabulary:
    """The words of a run's folder, with its conditions, of a file with a word a line, or of an ARPA file.

    Where `<eos>` is not the first word, it is put there.

    Raises: UserError where it cannot be read, or has a word twice.
    """
    path = Path(source)
    file = path / "vocabulary.txt" if path.is_dir() else path
    words = _arpa_words(read_lines(file))
    conditions = read_lines(path / CONDITIONS) if (path / CONDITIONS).exists() else []
    try:
        return Vocabulary(words if words[0] == EOS else [EOS, *words], conditions=conditions)
    except ValueError as error:
        raise UserError(f"corpus.vocabulary: {file}: {error}", "name a run, or a file with a word a line") from None


def _arpa_words(lines: Sequence[str]) -> Sequence[str]:
    """The unigrams of an ARPA file's lines, but for those in `ADDED`; other lines as they are."""
    head, begin = "\\data\\", "\\1-grams:"
    stripped = [line.strip() for line in lines]
    if head not in stripped or begin not in stripped:
        return lines
    unigrams = takewhile(lambda line: not line.startswith("\\"), stripped[stripped.index(begin) + 1 :])
    words = [line.split()[1] for line in unigrams if len(line.split()) > 1]
    return [UNK if word == "<UNK>" else word for word in words if word not in ADDED]
