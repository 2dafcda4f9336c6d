"""Texts with one label each: as they are read, written and parted into folds."""

from pathlib import Path
from typing import Any

import pytest

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import LineText
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import load_task, tasks

TEXT = "good\ta  fine film \nbad\t a bad\tone\n" + "".join(f"good\tfilm {i}\n" for i in range(9))


class Reader:
    kind = "text"


def loaded(file: Path, **options: Any) -> dict[str, LineText]:
    options = defaults("task", "classify") | {"train": str(file)} | options
    return load_task(options, Reader(), "reader").texts  # pyright: ignore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return path


def test_a_line_is_a_label_and_words(file: Path):
    text = LineText.read(file)
    assert text.sentences[1].words == ["a", "bad", "one"]
    assert text.sentences[1].labels == ["bad"]
    assert text.written([s.labels for s in text.sentences]).decode() == TEXT
    assert text.written([["x"]] * 11).decode() == TEXT.replace("good", "x").replace("bad\t", "x\t", 1)


def test_labels_may_be_missing_where_they_are_not_read(tmp_path: Path):
    path = tmp_path / "b.txt"
    path.write_text("a film\nbad\tone\r\n")
    text = LineText.read(path, labelled=False)
    assert [s.words for s in text.sentences] == [["a", "film"], ["one"]]
    assert text.written([["g"], ["h"]]) == b"g\ta film\nh\tone\n"


def test_each_line_is_test_in_one_fold(file: Path):
    parts = [loaded(file, folds=4, fold=k, valid_fold=(k + 1) % 4) for k in range(4)]
    whole = sorted(LineText.read(file).texts)
    assert sorted(text for part in parts for text in part["test"].texts) == whole
    for k, part in enumerate(parts):
        assert part["valid"].texts == parts[(k + 1) % 4]["test"].texts
        assert sorted(text for split in part.values() for text in split.texts) == whole
        assert len(part["test"].texts) in (2, 3)
    assert loaded(file, folds=4, fold=0, seed=1)["test"].texts != parts[0]["test"].texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "task.train=FILE and task.test=FILE .* a label, a tab and a text"),
        ({"fold": 1}, "need task.folds"),
        ({"folds": 10}, "task.fold or task.valid_fold is needed"),
        ({"folds": 10, "fold": 1, "test": "x"}, "needs no task.valid and task.test"),
        ({"folds": 10, "fold": 10}, "two of 0 to 9"),
        ({"folds": 10, "fold": 1, "valid_fold": 1}, "two of 0 to 9"),
        ({"folds": 12, "fold": 1}, "a.txt has 11 lines"),
        ({"folds": 2, "fold": 0, "valid_fold": 1}, "leave no part to train"),
    ],
)
def test_mistakes_are_told(file: Path, options: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        loaded(file, **options)


@pytest.mark.parametrize(
    ("line", "lacks"), [("a film", "label"), ("\ta", "label"), ("good\t ", "words"), ("", "label")]
)
def test_a_line_that_lacks_something_is_told(tmp_path: Path, line: str, lacks: str):
    path = tmp_path / "b.txt"
    path.write_text(f"good\tone\n{line}\ngood\ttwo\n")
    with pytest.raises(UserError, match=f"line 2 has no {lacks}"):
        LineText.read(path)


@pytest.mark.parametrize(("kind", "task", "message"), [
    ("words", "classify", "labeller=x labels words, and task=classify has one label for a text"),
    ("text", "pos", "labeller=x labels texts, and task=pos has a label for each word; choose labeller=birnn or crf"),
])  # fmt: skip
def test_a_labeller_of_another_kind_is_refused(kind: str, task: str, message: str):
    labeller: Any = type("Other", (), {"kind": kind})()
    with pytest.raises(UserError, match=message):
        load_task(defaults("task", task), labeller, "x")
    assert tasks.build(defaults("task", task)).kind != kind


def test_a_labeller_of_words_that_can_pool_says_so():
    birnn: Any = labellers.build(defaults("labeller", "birnn"))
    with pytest.raises(UserError, match=r"choose labeller=.*nbsvm, or set labeller.pooling$"):
        load_task(defaults("task", "classify"), birnn, "birnn")
