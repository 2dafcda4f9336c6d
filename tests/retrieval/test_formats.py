from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.retrieval.formats import read_judgements, read_records, run_lines


def file(folder: Path, text: str) -> Path:
    (folder / "file").write_text(text, encoding="utf-8")
    return folder / "file"


@pytest.mark.parametrize(
    ("text", "names", "records"),
    [
        (
            ".I 1\n.T\nwing\nflow\n.A\nting\n.W\nthe flow .\n.I 004\n.W\nheat\n.I 8\n",
            ["1", "004", "8"],
            ["wing flow the flow .", "heat", ""],
        ),
        (
            '{"id": 1, "title": "a", "text": "b"}\n\n{"_id": "2", "contents": "c"}\n{"id":"3","text":""}',
            "123",
            ["a b", "c", ""],
        ),
        ("1\twing flow\n\n2\ta\tb\n3\t\n", "123", ["wing flow", "a\tb", ""]),
        ("doc_id\ttext\n1\twing flow\n", "1", ["wing flow"]),
        ("1\tid\nid\twing\n", ["1", "id"], ["id", "wing"]),
        ('{"id": 1, "title": null, "text": "b"}\n', "1", ["b"]),
        ('{"id": 1, "title": "a b", "contents": "a b\\nc"}\n', "1", ["a b\nc"]),
        ('{"id": 1, "title": "a", "contents": "ab c"}\n', "1", ["a ab c"]),
    ],
)
def test_three_formats(tmp_path: Path, text: str, names: str, records: list[str]):
    assert read_records(file(tmp_path, text)) == dict(zip(names, records, strict=True))


@pytest.mark.parametrize(
    ("judged", "names"),
    [
        ([], ["001", "4", "7"]),
        (["001", "4", "7"], ["001", "4", "7"]),  # every record's own number
        (["1", "4"], ["001", "4", "7"]),
        (["1", "2"], ["001", "4", "7"]),  # two are judged, three are there
        (["1", "2", "3", "4"], ["001", "4", "7"]),
        (["1", "2", "3"], ["1", "2", "3"]),  # as Cranfield's: exactly one to their number
    ],
)
def test_records_keep_their_numbers_unless_judgements_count_them(
    tmp_path: Path, judged: list[str], names: list[str], caplog: pytest.LogCaptureFixture
):
    found = read_records(file(tmp_path, ".I 001\n.W\na\n.I 4\n.W\nb\n.I 7\n.W\nc\n"), judged)
    assert found == dict(zip(names, "abc", strict=True))
    told = "numbered 1 to 3 in their order, as the judgements count them, not 001 to 7"
    assert (told in caplog.text) == (names[0] == "1")
    assert list(read_records(file(tmp_path, "1\ta\n4\tb\n7\tc\n"), judged)) == ["1", "4", "7"]  # of SMART alone


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
        (".I 1\n.W\na\n.I 1\n", "line 4: a second '1'"),
        (".I 1\n.W\na\n.I\n", "line 4: '' is no name"),
        ("\n", "empty"),
        ("doc_id\ttext\n", "has only a header"),
    ],
)
def test_wrong_records_are_refused_by_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(UserError, match=message):
        read_records(file(tmp_path, text))


CRANFIELD = {"1": {"184": 1, "13": 1}}
GRADED = {"1": {"184": 2, "13": 4, "5": 1}}


@pytest.mark.parametrize(
    ("text", "grades", "told"),
    [
        ("q 0 d 3\nq 0 e 0\n\nr 0 d -2\n", {"q": {"d": 3, "e": 0}}, ""),
        ("1 184 2 \n1 13 4\n1 304 -1\n1 7 5\n", CRANFIELD | {"1": {**CRANFIELD["1"], "7": 0}}, "codes, 1 to 4 alike"),
        ("query-id\tcorpus-id\tscore\n1\t184\t2\n1\t13\t4\n1\t5\t1\n1\t6\t-1\n", GRADED, ""),
        ("Query_ID doc_id Relevance\n1 184 2\n1 13 4\n1 5 1\n1 6 -1\n", GRADED, ""),
        ("qid 0 doc rel\n1 0 184 2\n1 0 13 4\n1 0 5 1\n1 0 6 -1\n", GRADED, ""),
        ("1\t184\t2\n1\t13\t4\n1\t5\t1\n1\t6\t-1\n", GRADED, "grades, the largest the best"),
        ("1 184 2\n1 13 4\n1 5 1\n", GRADED, "grades, the largest the best"),
        ("1 184 2\n1 13 4\n1 5 1\n1 6 -1\n2 6 0\n", GRADED | {"2": {"6": 0}}, "grades, the largest the best"),
        ("1 184 1\n1 13 1\n1 13 1\n", CRANFIELD, ""),
    ],
)
def test_grades_are_grades_and_codes_of_cranfield_are_none(
    tmp_path: Path, text: str, grades: dict, told: str, caplog: pytest.LogCaptureFixture
):
    assert read_judgements(file(tmp_path, text)) == grades
    assert caplog.text.strip().endswith(told)
    assert bool(caplog.text) == bool(told)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q 0 d 1\nq d\n", "line 2: neither"),
        ("q 0 d 1\nq d 1\n", "line 2: neither"),
        ("q 0 d x\n", "line 1: neither"),
        ("query-id corpus-id score\nq d x\n", "line 2: neither"),
        ("q d 1\nquery-id corpus-id score\n", "line 2: neither"),
        ("q 0 d 0\n", "no document is relevant"),
        ("01 0184  0 0\n01 0013  0 0\n", "no document is relevant"),  # as of CACM
        ("1 184 0 0\n1 13 0 0.5\n", "line 2: neither"),
        ("1 0 184 1 x\n", "line 1: neither"),
        ("query-id corpus-id score\n", "no document is relevant"),
        ("q 0 d 1\nq 0 e 1\n\nq 0 d 0\n", "line 4: document d has grade 0 for query q, and 1 in a line before"),
        ("q d 2\nq d -1\n", "line 2: document d has grade -1"),
    ],
)
def test_wrong_judgements_are_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(UserError, match=message):
        read_judgements(file(tmp_path, text))


@pytest.mark.parametrize("name", ["query", "id", "qid"])
def test_a_header_of_a_table_is_skipped_with_a_warning(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture):
    assert read_records(file(tmp_path, f"{name}\ttext\n1\twing\n")) == {"1": "wing"}
    assert caplog.messages == [f"{tmp_path / 'file'}: its first line is read as a header"]


def test_a_run_has_ranks_from_one_and_tells_near_scores_apart():
    assert run_lines({"q": {"d2": -1.5, "d1": -1.50000001}, "r": {}}) == (
        "q Q0 d2 1 -1.5 lmzoo\nq Q0 d1 2 -1.50000001 lmzoo\n"
    )
