"""Files of documents, queries, judgements and runs.

Documents and queries have the same three formats, told apart by their beginning. SMART's, which Cranfield has:
``.I NUMBER``, then fields such as ``.T`` and ``.W``. JSON Lines with ``id`` or ``_id``, and ``title``, ``text`` or
``contents``. Else a line ``NAME<TAB>TEXT`` for each.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.files import read_lines

Ranking = Mapping[str, float]
"""The names of documents and their scores, the best first."""

RECORD = r"\.I\b"
"""How a record of SMART's format begins."""


def read_records(path: Path) -> dict[str, str]:
    """The text of each document or query by its name, title first.

    The records of SMART's format are numbered 1, 2, … in their order, as its judgements count them: the numbers of
    Cranfield's queries have gaps that its judgements do not know.

    Raises: UserError for a line that has another format, and for a name that is there twice.
    """
    lines = read_lines(path)
    first = next(line for line in lines if line.strip())
    reader = _smart if re.match(RECORD, first) else _json_lines if first.lstrip().startswith("{") else _table
    found: dict[str, str] = {}
    for number, name, text in reader(path, lines):
        if name.split() != [name] or not name.isprintable():
            raise UserError(f"{path}, line {number}: '{shortened(name)}' is no name", "a name is signs without spaces")
        if name in found:
            raise UserError(f"{path}, line {number}: a second '{shortened(name)}'", "give each its own name")
        found[name] = text
    return found


def _smart(path: Path, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Titles and texts; authors and sources are left out."""
    begins = [number for number, line in enumerate(lines) if re.match(RECORD, line)]
    for record, (begin, end) in enumerate(zip(begins, [*begins[1:], len(lines)], strict=True), 1):
        kept, field = [], ""
        for line in lines[begin + 1 : end]:
            if re.fullmatch(r"\.[A-Z]\s*", line):
                field = line[1]
            elif field in ("T", "W"):
                kept.append(line)
        yield begin + 1, str(record), " ".join(kept)


def _json_lines(path: Path, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{path}, line {number}: not JSON") from None
        name = record.get("id", record.get("_id")) if isinstance(record, dict) else None
        texts = [record[key] for key in ("title", "text", "contents") if key in record] if name is not None else []
        if isinstance(name, bool) or not isinstance(name, str | int) or not all(isinstance(t, str) for t in texts):
            raise UserError(f"{path}, line {number}: no object with an 'id' and a 'text'")
        if not texts:
            raise UserError(f"{path}, line {number}: has neither 'title' nor 'text' nor 'contents'")
        yield number, shortened(name) if isinstance(name, int) else name, " ".join(texts)


def _table(path: Path, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        name, tab, text = line.partition("\t")
        if not tab and line.strip():
            raise UserError(f"{path}, line {number}: no tab", "write NAME, a tab, and the text; or .I records; or JSON")
        if tab:
            yield number, name, text


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """The grade of each judged document by query and document; 0 is not relevant.

    A line is TREC's ``QUERY 0 DOCUMENT GRADE``, or Cranfield's ``QUERY DOCUMENT CODE``. Cranfield's codes are no gains,
    as 1 is the best and 4 the last: each of them counts 1. A negative grade leaves the document unjudged.

    Raises: UserError for another line, and where nothing is relevant.
    """
    found: dict[str, dict[str, int]] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) not in (3, 4) or not re.fullmatch(r"[-+]?[0-9]{1,6}", columns[-1]):
            raise UserError(f"{path}, line {number}: neither 'QUERY 0 DOCUMENT GRADE' nor 'QUERY DOCUMENT CODE'")
        query, document, grade = columns[0], columns[-2], int(columns[-1])
        if grade >= 0:
            found.setdefault(query, {})[document] = grade if len(columns) == 4 else min(grade, 1)
    if not any(grade for grades in found.values() for grade in grades.values()):
        raise UserError(f"{path}: no document is relevant")
    return found


def read_prior(path: Path, names: Iterable[str]) -> list[float]:
    """log p(d) + const of each document, from lines ``NAME WEIGHT``.

    Raises: UserError for a weight that is no positive number, and for a document without one.
    """
    weights: dict[str, float] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            name, weight = line.split()
            weights[name] = math.log(float(weight))
        except ValueError:
            raise UserError(f"{path}, line {number}: not 'NAME WEIGHT' with a positive weight") from None
        if not math.isfinite(weights[name]):
            raise UserError(f"{path}, line {number}: the weight must be finite")
    names = list(names)
    if missing := [name for name in names if name not in weights]:
        raise UserError(f"{path}: no weight for document {printable(shortened(missing[0]))}", "give each a line")
    return [weights[name] for name in names]


def run_lines(rankings: Mapping[str, Ranking], tag: str = "lmzoo") -> str:
    """Rankings by query -> TREC's run file: ``QUERY Q0 DOCUMENT RANK SCORE TAG``, the first rank 1."""
    return "".join(
        f"{query} Q0 {document} {rank} {score:.6f} {tag}\n"
        for query, ranking in rankings.items()
        for rank, (document, score) in enumerate(ranking.items(), 1)
    )
