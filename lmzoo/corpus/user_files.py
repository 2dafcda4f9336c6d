"""Files of users: texts, of one file or several, and vocabularies."""

import codecs
import glob
import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from lmzoo.core.configs import saved
from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import checked_text, decompressed_name, text_bytes, verbatim_lines
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Kind, Subwords
from lmzoo.corpus.vocabulary import ADDED, EOS, UNK, Vocabulary

CONDITIONS = "conditions.txt"
"""The file of a run with the labels of lines, one per line by index, if its corpus has labels."""

SCORES = "scores.txt"
"""The file of a run with the scores of subwords, one per line, if its corpus has subwords."""


def text_files(named: str | Sequence[str]) -> list[Path]:
    """The files of names or glob patterns (``texts/*.txt``), sorted; raise a UserError if there are none."""
    files: list[Path] = []
    for name in [named] if isinstance(named, str) else named:
        matches = [name]
        if not Path(name).exists() and glob.has_magic(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise UserError(f"{name}: no file matches it")
        files += map(Path, matches)
    return files


def name_of_file(file: str) -> str:
    """The name of a text, from its first file, or the folder of a pattern."""
    path = Path(file)
    while glob.has_magic(path.name):
        path = path.parent
    return decompressed_name(path).stem or "text"


def form_of_run(source: str) -> dict[str, Any]:
    """The text processing options of a run's corpus; empty if it is not a run. Only corpora of users' texts have more
    than the unit.
    """
    config = saved(source)
    corpus = config.get("corpus")
    if isinstance(corpus, dict) and corpus.get("name") == "text":
        return Form.of(corpus).options
    return {"unit": "word"} if config else {}


def form_difference(source: str, form: Form) -> str | None:
    """The first difference between the text processing of a run and a form, as a sentence; None if they agree."""
    options = form.options
    for option, value in form_of_run(source).items():
        if option in options and options[option] != value:
            there, here = (shortened(json.dumps(v, default=str).strip('"')) for v in (value, options[option]))
            return f"{source} has corpus.{option}={there}, and here it is {here}"
    return None


def words_file(source: str) -> Path:
    """The file with the vocabulary of a run; other paths are unchanged."""
    path = Path(source)
    return path / "vocabulary.txt" if path.is_dir() else path


def read_vocabulary(source: str, form: Form = Form(), option: str = "corpus.vocabulary") -> Vocabulary:  # noqa: B008 - it is frozen
    """The vocabulary of a run, with its conditions, of a file with one word per line, or of an ARPA file.

    `<eos>` is inserted as the first word if necessary. See `_listed`.

    Args:
        form: the processing of the texts to read.
        option: the name of the source for errors.

    Raises: UserError if it cannot be read, has a repeated word, a line that is not one word, or is a run with other
        text processing.
    """
    path = Path(source)
    if form.of_pieces and not (path / SCORES).exists():
        raise UserError(f"{option}: {path} has no pieces of words", f"name a run of corpus.unit={form.unit}")
    if problem := form_difference(source, form):
        words_alone = f", or set corpus.vocabulary={path / 'vocabulary.txt'} to use only its words"
        raise UserError(f"{option}: {problem}", f"repeat its option{'' if form.of_pieces else words_alone}")
    file = words_file(source)
    words = _listed(_checked_bytes(file))
    if (line := next((i for i, word in enumerate(words, 1) if word.split() != [word]), None)) is not None:
        raise UserError(f"{option}: {file}: line {line} is not one word", "write a word a line, nothing else")
    conditions = verbatim_lines(_checked_bytes(path / CONDITIONS)) if (path / CONDITIONS).exists() else []
    scores = verbatim_lines(_checked_bytes(path / SCORES)) if form.of_pieces else []
    try:
        if form.of_pieces:
            form = form.with_pieces(Subwords.of(cast(Kind, form.unit), words, scores))
        return Vocabulary(words if words[:1] == [EOS] else [EOS, *words], form, conditions)
    except ValueError as error:
        raise UserError(f"{option}: {file}: {error}", "name a run, or a file with a word a line") from None


def _checked_bytes(file: Path) -> bytes:
    """The contents of a text file, including byte order marks; raise a UserError if it is not a text."""
    data = text_bytes(file)
    checked_text(data, str(file))
    return data


def _listed(data: bytes) -> list[str]:
    """The words of a file: if `<eos>` is the first, as in a run, its exact lines; those of an ARPA file; else lines
    without byte order mark and carriage returns.
    """
    if data.startswith(f"{EOS}\n".encode()):
        return verbatim_lines(data)
    data = data.removeprefix(codecs.BOM_UTF8)
    if (words := _arpa_words(data)) is None:
        return [line.removesuffix("\r") for line in verbatim_lines(data)]
    return words


def _arpa_words(data: bytes) -> list[str] | None:
    """The unigrams of an ARPA file that may occur in texts; None for other files.

    Word lists do not contain the line ``ngram 1=N``, which follows ``\\data\\`` in ARPA files.
    """
    rows = map(bytes.split, data.split(b"\n"))
    is_arpa = [b"\\data\\"] in rows and next(filter(None, rows), [])[0:1] == [b"ngram"] and [b"\\1-grams:"] in rows
    if not is_arpa:
        return None
    unigrams = takewhile(lambda row: not (row and row[0].startswith(b"\\")), rows)
    words = [row[1].decode() for row in unigrams if len(row) > 1]
    return [UNK if word == "<UNK>" else word for word in words if word not in ADDED and word.split() == [word]]
