"""Tables of reading times: columns, order, quotes, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from reading_times import HEADER, NAMES, table

from lmzoo.core.errors import UserError
from lmzoo.core.files import write_output
from lmzoo.reports.reading import read_times, time_warnings

# The table


def test_words_come_in_the_order_of_reading_and_sentences_end_with_their_signs(tmp_path: Path):
    rows = [("b.", 2, "x", 20), ("a", 1, "x", 10), ("Mr.", 1, "y", "NA"), ("C", 2, "y", ""), ("d?'", 10, "y", 40),
            ("e", 11, "y", 50), ("c", 3, "x", 30)]  # fmt: skip
    found = read_times(table(tmp_path / "t.tsv", rows), **NAMES)
    assert found.words == ["a", "b.", "c", "Mr.", "C", "d?'", "e"]
    assert found.stories.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert found.sentences.tolist() == [0, 0, 1, 2, 2, 2, 3]
    np.testing.assert_equal(found.times, [10, 20, 30, np.nan, np.nan, 40, 50])


def test_the_order_of_the_rows_does_not_matter(tmp_path: Path):
    """Texts are in the order of their names, numbers by size, so that folds and blocks of words are the same."""
    rows = [(f"w{story}.{place}", place, story, 10 * story + place) for story in (1, 2, 10) for place in (1, 2, 10)]
    for order in ([*range(9)], [8, 3, 0, 5, 1, 7, 2, 6, 4]):
        found = read_times(table(tmp_path / "t.tsv", [rows[i] for i in order]), **NAMES)
        assert found.words == [row[0] for row in rows]
        assert found.stories.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    rows = [("b", 1, "x2", 1), ("c", 1, "x10", 1), ("a", 1, "7", 1)]
    assert read_times(table(tmp_path / "t.tsv", rows), **NAMES).words == ["a", "c", "b"]


def test_cells_may_be_in_quotes(tmp_path: Path):
    (tmp_path / "t.csv").write_text('word,zone,item,meanItemRT\r\n"so,",1,1,9\r\n"""I",2,1,8\r\nam"\'s,3,1,7\r\n')
    assert read_times(tmp_path / "t.csv", **NAMES).words == ["so,", '"I', "am\"'s"]


def test_sentences_may_have_a_column(tmp_path: Path):
    rows = [("a.", 1, 1, 1, "s"), ("b", 2, 1, 1, "s"), ("c", 3, 1, 1, "t"), ("d", 1, 2, 1, "t")]
    found = read_times(table(tmp_path / "t.tsv", rows, f"{HEADER}\tmark"), **NAMES, sentence="mark")
    assert found.sentences.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no words"),
        ([("a", 1, 1)], "line 2: has 3 columns, and the header has 4"),
        ([("a", 1, 1, 1), ("a", 1, 1, "fast")], "line 3: meanItemRT is fast, which is not a number"),
        ([("a", 1, 1, "inf")], "line 2: meanItemRT is inf, which is not a number"),
        ([("a", "", 1, 1)], "line 2: zone is , which is not a number"),
        ([("a", 1, 1, 1), ("b", 1, 1, 1)], "item 1 has two words at zone 1"),
        ([('"I', 1, 1, 1), ("am", 2, 1, 1), ('here"', 3, 1, 1)], "line 2: a quote before a cell is not closed after"),
    ],
)
def test_a_bad_table_is_refused(rows: list[tuple[object, ...]], message: str, tmp_path: Path):
    with pytest.raises(UserError, match=message):
        read_times(table(tmp_path / "t.tsv", rows), **NAMES)


def test_columns_that_are_parted_otherwise_are_reported(tmp_path: Path):
    """As German Excel writes them."""
    (tmp_path / "t.csv").write_text('word;zone;item;meanItemRT\r\na;1;1;312,5\r\n"b;2;1;3\r\n', "utf-8-sig")
    with pytest.raises(UserError, match=r"t.csv: 'word;zone;item;meanItemRT' is one column; part them by tabs, or by"):
        read_times(tmp_path / "t.csv", **NAMES)


def test_a_column_that_is_not_there_is_reported_with_the_nearest(tmp_path: Path):
    with pytest.raises(UserError, match=r"has no column meanRT.*meanItemRT"):
        read_times(table(tmp_path / "t.tsv", [("a", 1, 1, 1)]), **NAMES | {"time": "meanRT"})


def test_what_a_table_may_lack_is_reported(tmp_path: Path):
    rows = [("a", place, story, 0 if place == 30 else 300) for story in (1, 2) for place in (10, 20, 30, 50, 70)]
    found = list(time_warnings(read_times(table(tmp_path / "t.tsv", rows), **NAMES)))
    assert found == [
        "words are left out in 4 places, after 30 of 1 the first, so that models read a text without them",
        "2 times are not above 0 and count as they are; leave them empty where a word was not read",
    ]
    assert not list(time_warnings(read_times(table(tmp_path / "t.tsv", [row for row in rows if row[1] < 30]), **NAMES)))


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path):
    file = table(tmp_path / "t.tsv", [("a", 1, 1, 1, 2)], f"{HEADER}\tmeanItemRT")
    with pytest.raises(UserError, match="has 2 columns meanItemRT; name each once"):
        read_times(file, **NAMES)


@pytest.mark.parametrize("name", ["t.CSV", "t.csv.gz"])
def test_a_table_with_commas_is_known_by_its_name(name: str, tmp_path: Path):
    write_output(tmp_path / name, f"{HEADER}\na\t1\t1\t1\n".replace("\t", ",").encode())
    assert read_times(tmp_path / name, **NAMES).words == ["a"]
