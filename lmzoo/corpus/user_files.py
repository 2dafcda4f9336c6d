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
from lmzoo.core.files import checked_text, own_lines, text_bytes, unpacked_name
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Kind, Subwords
from lmzoo.corpus.vocabulary import ADDED, EOS, UNK, Vocabulary

CONDITIONS = "conditions.txt"
"""The file of a run with a label a line, in the order of their numbers, where the lines of its corpus have labels."""

SCORES = "scores.txt"
"""The file of a run with the score of each piece, a line each, where its words are pieces of words."""


def text_files(named: str | Sequence[str]) -> list[Path]:
    """The files that names or patterns (``texts/*.txt``) stand for, in alphabetical order; a UserError for none."""
    files: list[Path] = []
    for name in [named] if isinstance(named, str) else named:
        matches = [name]
        if not Path(name).exists() and glob.has_magic(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise UserError(f"{name}: no file matches it")
        files += map(Path, matches)
    return files


def named_after(file: str) -> str:
    """What a text is called after its first file, or after the folder that a pattern looks in."""
    path = Path(file)
    while glob.has_magic(path.name):
        path = path.parent
    return unpacked_name(path).stem or "text"


def form_of_run(source: str) -> dict[str, Any]:
    """How a run's text becomes words, by the options of ``corpus=text`` that say so; empty for what is no run.

    Of other corpora it is the unit alone, since what else was done to them was done before.
    """
    config = saved(source)
    corpus = config.get("corpus")
    if isinstance(corpus, dict) and corpus.get("name") == "text":
        return Form.of(corpus).options
    return {"unit": "word"} if config else {}


def unlike(source: str, form: Form) -> str | None:
    """In which option the text of a run becomes words in another way than by a form; None where in none."""
    options = form.options
    for option, value in form_of_run(source).items():
        if option in options and options[option] != value:
            there, here = (shortened(json.dumps(v, default=str).strip('"')) for v in (value, options[option]))
            return f"{source} has corpus.{option}={there}, and here it is {here}"
    return None


def words_file(source: str) -> Path:
    """The file with the words of a run, if that is what is named; else what is named."""
    path = Path(source)
    return path / "vocabulary.txt" if path.is_dir() else path


def read_vocabulary(source: str, form: Form = Form(), option: str = "corpus.vocabulary") -> Vocabulary:  # noqa: B008 - it is frozen
    """The words of a run's folder, with its conditions, of a file with a word a line, or of an ARPA file.

    Where `<eos>` is not the first word, it is put there. See `_listed`.

    Args:
        form: of the text that is read with these words.
        option: names the source in errors.

    Raises: UserError where it cannot be read, has a word twice, or a line that is not one word, and for a run of a
        text of another form.
    """
    path = Path(source)
    if form.of_pieces and not (path / SCORES).exists():
        raise UserError(f"{option}: {path} has no pieces of words", f"name a run of corpus.unit={form.unit}")
    if problem := unlike(source, form):
        words_alone = f", or set corpus.vocabulary={path / 'vocabulary.txt'} to take the words alone"
        raise UserError(f"{option}: {problem}", f"repeat its option{'' if form.of_pieces else words_alone}")
    file = words_file(source)
    words = _listed(_checked_bytes(file))
    if (line := next((i for i, word in enumerate(words, 1) if word.split() != [word]), None)) is not None:
        raise UserError(f"{option}: {file}: line {line} is not one word", "write a word a line, nothing else")
    conditions = own_lines(_checked_bytes(path / CONDITIONS)) if (path / CONDITIONS).exists() else []
    scores = own_lines(_checked_bytes(path / SCORES)) if form.of_pieces else []
    try:
        if form.of_pieces:
            form = form.cut_by(Subwords.of(cast(Kind, form.unit), words, scores))
        return Vocabulary(words if words[:1] == [EOS] else [EOS, *words], form, conditions)
    except ValueError as error:
        raise UserError(f"{option}: {file}: {error}", "name a run, or a file with a word a line") from None


def _checked_bytes(file: Path) -> bytes:
    """The contents of a file with all its byte order marks; a UserError for what is no text."""
    data = text_bytes(file)
    checked_text(data, str(file))
    return data


def _listed(data: bytes) -> list[str]:
    """The words of a file: exactly its lines where the first is `<eos>`, as in a run; those of an ARPA file; else the
    lines of a user's list, which may begin with a byte order mark, and end with carriage returns.
    """
    if data.startswith(f"{EOS}\n".encode()):
        return own_lines(data)
    data = data.removeprefix(codecs.BOM_UTF8)
    if (words := _arpa_words(data)) is None:
        return [line.removesuffix("\r") for line in own_lines(data)]
    return words


def _arpa_words(data: bytes) -> list[str] | None:
    """The unigrams of an ARPA file that a text can have; None for another file.

    No list of words has the line ``ngram 1=N``, which an ARPA file has below ``\\data\\``.
    """
    rows = map(bytes.split, data.split(b"\n"))
    is_arpa = [b"\\data\\"] in rows and next(filter(None, rows), [])[0:1] == [b"ngram"] and [b"\\1-grams:"] in rows
    if not is_arpa:
        return None
    unigrams = takewhile(lambda row: not (row and row[0].startswith(b"\\")), rows)
    words = [row[1].decode() for row in unigrams if len(row) > 1]
    return [UNK if word == "<UNK>" else word for word in words if word not in ADDED and word.split() == [word]]
