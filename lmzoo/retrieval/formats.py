"""Files of documents, queries, judgements and runs.

Documents and queries have the same three formats, told apart by their beginning. SMART's, which Cranfield has:
``.I NUMBER``, then fields such as ``.T`` and ``.W``. JSON Lines with ``id`` or ``_id``, and ``title``, ``text`` or
``contents``. Else a line ``NAME<TAB>TEXT`` for each.
"""

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.files import read_lines

Ranking = Mapping[str, float]
"""The names of documents and their scores, the best first."""

Judgements = Mapping[str, Mapping[str, int]]
"""The grades of documents by query."""

RECORD = r"\.I\b"
"""How a record of SMART's format begins."""

HEADINGS = r"(query|topic|q)[-_ ]?(id)? .*(score|relevance|rel|grade|label)"
"""A first line of judgements that is none, such as BEIR's ``query-id corpus-id score``; in small letters."""

NAMES = r"((query|topic|q|doc|document|corpus|passage|p)?[-_ ]?(id|no)|query)\t"
"""A first line ``NAME<TAB>TEXT`` that is none, such as ``doc_id<TAB>text`` or ``query<TAB>text``, likewise."""

log = logging.getLogger(__name__)


def read_records(path: Path, judged: Collection[str] = ()) -> dict[str, str]:
    """The text of each document or query by its name, title first.

    The numbers of Cranfield's n queries have gaps, 1, 2, 4, …, and its judgements count the queries: 1, 2, 3, …, n. So
    records of SMART's format that are queries lose their numbers where exactly 1 to n are judged; this is logged.

    Args:
        judged: the queries that judgements name; of documents none.

    Raises: UserError for a line that has another format, for a name that is there twice, and for a header alone.
    """
    lines = _filled(path)
    first = lines[0][1]
    reader = _smart if re.match(RECORD, first) else _json_lines if first.lstrip().startswith("{") else _table
    found: dict[str, str] = {}
    for number, name, text in reader(path, lines):
        if name.split() != [name] or not name.isprintable():
            raise UserError(f"{path}, line {number}: '{shortened(name)}' is no name", "a name has no spaces")
        if name in found:
            raise UserError(f"{path}, line {number}: a second '{shortened(name)}'", "give each its own name")
        found[name] = text
    if not found:
        raise UserError(f"{path}: has only a header", "write a line NAME, a tab, and the text for each")
    counted = [str(number) for number in range(1, len(found) + 1)]
    if reader is _smart and set(counted) == set(judged) != set(found):
        log.warning("%s: its records are numbered 1 to %s in their order, as the judgements count them, not %s to %s",
                    path, f"{len(found):,}", next(iter(found)), next(reversed(found)))  # fmt: skip
        return dict(zip(counted, found.values(), strict=True))
    return found


def _filled(path: Path) -> list[tuple[int, str]]:
    """The lines that are not blank, and their numbers from 1."""
    return [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def _smart(path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Titles and texts; authors and sources are left out."""
    begins = [place for place, (_, line) in enumerate(lines) if re.match(RECORD, line)]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        number, first = lines[begin]
        kept, field = [], ""
        for _, line in lines[begin + 1 : end]:
            if re.fullmatch(r"\.[A-Z]\s*", line):
                field = line[1]
            elif field in ("T", "W"):
                kept.append(line)
        yield number, first.removeprefix(".I").strip(), " ".join(kept)


def _json_lines(path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{path}, line {number}: not JSON") from None
        fields = record if isinstance(record, dict) else {}
        name = fields.get("id", fields.get("_id"))
        texts = [fields[key] for key in ("title", "text", "contents") if fields.get(key) is not None]
        if isinstance(name, bool) or not isinstance(name, str | int) or not all(isinstance(t, str) for t in texts):
            raise UserError(f"{path}, line {number}: no object with an 'id' and a 'text'")
        if not texts:
            raise UserError(f"{path}, line {number}: has neither 'title' nor 'text' nor 'contents'")
        title, contents = ((fields.get(key) or "").split() for key in ("title", "contents"))
        if title and contents[: len(title)] == title:
            del texts[0]  # contents of Pyserini begin with the title
        yield number, shortened(name) if isinstance(name, int) else name, " ".join(texts)


def _table(path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    headed = re.match(NAMES, lines[0][1], re.IGNORECASE) is not None
    if headed:
        log.warning("%s: its first line is read as a header", path)
    for number, line in lines[headed:]:
        name, tab, text = line.partition("\t")
        if not tab:
            raise UserError(f"{path}, line {number}: no tab", "write NAME, a tab, and the text; or .I records; or JSON")
        yield number, name, text


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """The grade of each judged document by query and document; 0 is not relevant. A negative one leaves it unjudged.

    A line is TREC's ``QUERY 0 DOCUMENT GRADE``, or BEIR's ``QUERY DOCUMENT GRADE``; a line of headings may come first.
    Cranfield's lines look like BEIR's, but the third column is a code: 1 is the best, 4 the last that is relevant, 5 of
    no interest. 1 to 4 count as grade 1. Codes are known by what Cranfield has and BEIR has not: blanks as separators,
    no headings, −1, no 0, nothing above 5. Which of the two was read is logged where they differ.

    Raises: UserError for another line, for a document that has two grades for a query, and where nothing is relevant.
    """
    lines = _filled(path)
    headed = re.fullmatch(HEADINGS, " ".join(lines[0][1].split()).lower()) is not None
    grades: dict[tuple[str, str], int] = {}
    width = len(lines[0][1].split())
    for number, line in lines[headed:]:
        columns = line.split()
        if len(columns) != width or width not in (3, 4) or not re.fullmatch(r"[-+]?[0-9]{1,6}", columns[-1]):
            raise UserError(
                f"{path}, line {number}: neither 'QUERY 0 DOCUMENT GRADE' nor 'QUERY DOCUMENT GRADE'",
                "give all lines the same columns, the last a whole number",
            )
        key, grade = (columns[0], columns[-2]), int(columns[-1])
        if grades.setdefault(key, grade) != grade:
            query, document = map(shortened, key)
            raise UserError(
                f"{path}, line {number}: document {printable(document)} has grade {grade} for query "
                f"{printable(query)}, and {grades[key]} in a line before",
                "remove one of the two",
            )
    values = set(grades.values())
    codes = width == 3 and not headed and -1 in values and values <= {-1, 1, 2, 3, 4, 5}
    codes = codes and not any("\t" in line for _, line in lines)
    if width == 3 and not headed and max(values, default=0) > 1:
        kind = "Cranfield's codes, 1 to 4 alike" if codes else "grades, the largest the best"
        log.warning("%s: the third column is read as %s", path, kind)
    found: dict[str, dict[str, int]] = {}
    for (query, document), grade in grades.items():
        if grade >= 0:
            found.setdefault(query, {})[document] = int(0 < grade < 5) if codes else grade
    if not any(grade for grades in found.values() for grade in grades.values()):
        raise UserError(f"{path}: no document is relevant", "the last column must have a grade above 0")
    return found


def run_lines(rankings: Mapping[str, Ranking]) -> str:
    """Rankings by query -> TREC's run file: ``QUERY Q0 DOCUMENT RANK SCORE TAG``, the first rank 1."""
    return "".join(
        f"{query} Q0 {document} {rank} {score:.9g} lmzoo\n"
        for query, ranking in rankings.items()
        for rank, (document, score) in enumerate(ranking.items(), 1)
    )
