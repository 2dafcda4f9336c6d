from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.retrieval.formats import read_judgements, read_prior, read_records, run_lines


def file(folder: Path, text: str) -> Path:
    (folder / "file").write_text(text, encoding="utf-8")
    return folder / "file"


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (
            ".I 1\n.T\nwing\nflow\n.A\nting\n.W\nthe flow .\n.I 004\n.W\nheat\n.I 8\n",
            ["wing flow the flow .", "heat", ""],
        ),
        (
            '{"id": 1, "title": "a", "text": "b"}\n\n{"_id": "2", "contents": "c"}\n{"id":"3","text":""}',
            ["a b", "c", ""],
        ),
        ("1\twing flow\n\n2\ta\tb\n3\t\n", ["wing flow", "a\tb", ""]),
    ],
)
def test_three_formats(tmp_path: Path, text: str, records: list[str]):
    assert read_records(file(tmp_path, text)) == dict(zip("123", records, strict=True))


def test_a_name_may_begin_as_a_record_does(tmp_path: Path):
    assert read_records(file(tmp_path, ".Index\twing\n.I2\tflow\n")) == {".Index": "wing", ".I2": "flow"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n1\tb\n", "line 2: a second '1'"),
        ("1\ta\nb\n", "line 2: no tab"),
        ("a b\tc\n", "line 1: 'a b' is no name"),
        ("\tc\n", "line 1: '' is no name"),
        ('{"id": 1, "text": "b"}\n{"id": 2', "line 2: not JSON"),
        ('{"id": 1, "text": "b"}\n[]', "line 2: no object with an 'id' and a 'text'"),
        ('{"id": 1, "text": 2}', "line 1: no object"),
        ('{"text": "b"}', "line 1: no object"),
        ('{"id": 1}', "line 1: has neither"),
        ('{"id": "\\ud800", "text": "a"}', "line 1: '.' is no name"),
        ("\n", "empty"),
    ],
)
def test_wrong_records_are_refused_by_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(UserError, match=message):
        read_records(file(tmp_path, text))


def test_judgements_of_trec_keep_grades_and_those_of_cranfield_have_none(tmp_path: Path):
    assert read_judgements(file(tmp_path, "q 0 d 3\nq 0 e 0\n\nr 0 d -2\n")) == {"q": {"d": 3, "e": 0}}
    assert read_judgements(file(tmp_path, "1 184 2 \n1 13 4\n1 304 -1\n")) == {"1": {"184": 1, "13": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [("q 0 d 1\nq d\n", "line 2: neither"), ("q 0 d x\n", "line 1: neither"), ("q 0 d 0\n", "no document is relevant")],
)
def test_wrong_judgements_are_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(UserError, match=message):
        read_judgements(file(tmp_path, text))


def test_a_prior_has_a_weight_for_each_document(tmp_path: Path):
    assert read_prior(file(tmp_path, "b 1\nc 3\n\na 2.718281828459045\n"), ["a", "b"]) == [1.0, 0.0]
    for text, message in [
        ("a 1\nb 0\n", "line 2: not"),
        ("a 1 2\n", "line 1: not"),
        ("a inf\n", "must be finite"),
        ("a 1\n", "no weight for document b"),
    ]:
        with pytest.raises(UserError, match=message):
            read_prior(file(tmp_path, text), ["a", "b"])


def test_a_run_has_ranks_from_one():
    assert (
        run_lines({"q": {"d2": -1.5, "d1": -2.0}, "r": {}}) == "q Q0 d2 1 -1.500000 lmzoo\nq Q0 d1 2 -2.000000 lmzoo\n"
    )
