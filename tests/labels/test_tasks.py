"""Texts with one label each: as they are read, written and split into folds."""

from pathlib import Path
from typing import Any, cast

import pytest

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus.conditions import split_labels
from lmzoo.labels.formats import LineText
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import load_task, tasks

TEXT = "good\ta  fine film \nbad\t a bad\tone\n" + "".join(f"good\tfilm {i}\n" for i in range(9))


class Reader:
    kind = "text"


def loaded(file: Path, **options: Any) -> dict[str, LineText]:
    options = defaults("task", "classify") | {"train": str(file)} | options
    return load_task(options, Reader(), "reader")[1]  # pyright: ignore


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
    assert text.written([["g"], ["h"]]) == b"g\ta film\nh\tone\r\n"


def test_each_line_is_test_in_one_fold(file: Path):
    parts = [loaded(file, folds=4, fold=k, valid_fold=(k + 1) % 4) for k in range(4)]
    whole = sorted(LineText.read(file).lines)
    assert sorted(text for part in parts for text in part["test"].lines) == whole
    for k, part in enumerate(parts):
        assert part["valid"].lines == parts[(k + 1) % 4]["test"].lines
        assert sorted(text for split in part.values() for text in split.lines) == whole
        assert len(part["test"].lines) in (2, 3)
    assert loaded(file, folds=4, fold=0, seed=1)["test"].lines != parts[0]["test"].lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "task.train=FILE and task.test=FILE .* a label, a tab and a text"),
        ({"fold": 1}, "need task.folds"),
        ({"folds": 5, "fold": 5}, "task.fold=5, task.valid_fold=null: must be two of 0 to 4"),
        ({"folds": 10}, "task.fold or task.valid_fold is needed"),
        ({"folds": 10, "fold": 1, "test": "x"}, "excludes task.valid and task.test"),
        ({"folds": 10, "fold": 10}, "two of 0 to 9"),
        ({"folds": 10, "fold": 1, "valid_fold": 1}, "two of 0 to 9"),
        ({"folds": 12, "fold": 1}, "a.txt has 11 lines"),
        ({"folds": 2, "fold": 0, "valid_fold": 1}, "leave no fold for training"),
    ],
)
def test_mistakes_are_reported(file: Path, options: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        loaded(file, **options)


@pytest.mark.parametrize(
    ("line", "lacks"), [("a film", "label"), ("\ta", "label"), ("good\t ", "words"), ("", "label")]
)
def test_a_line_that_lacks_something_is_reported(tmp_path: Path, line: str, lacks: str):
    path = tmp_path / "b.txt"
    path.write_text(f"good\tone\n{line}\ngood\ttwo\n")
    with pytest.raises(UserError, match=f"line 2 has no {lacks}"):
        LineText.read(path)


def test_blanks_around_a_label_are_no_part_of_it(tmp_path: Path):
    path = tmp_path / "b.txt"
    plain = "pos \ta film\n\u00a0pos\tone\r\n pos\t pos\n"
    path.write_bytes(plain.encode())
    text = LineText.read(path)
    assert [s.labels for s in text.sentences] == [["pos"]] * 3
    assert [s.labels for s in text.sentences] == [[label] for label in split_labels(plain.splitlines(), "b.txt")[0]]
    assert text.written([["pos"]] * 3).decode() == plain
    assert text.written([["x"]] * 3).decode() == plain.replace("pos\t", "x\t").replace("pos \t", "x \t")


@pytest.mark.parametrize("line", ["a film\tis good", "1\tWe\twe\tPRON"])
def test_what_stands_before_a_tab_and_is_no_label_is_not_replaced(tmp_path: Path, line: str):
    path = tmp_path / "b.txt"
    path.write_text(f"_\ta film\ngood\tone\n{line}\n")
    with pytest.raises(UserError, match=r"line 3 has '.*' as a label, which the run does not have"):
        LineText.read(path, labelled=False, known_labels=["good", "bad"])


def entities_of(folder: Path, train: str, test: str, **options: Any) -> Any:
    for name, text in (("a.txt", train), ("b.txt", test)):
        (folder / name).write_text(text.replace("|", "\n"))
    named = {"train": str(folder / "a.txt"), "test": str(folder / "b.txt"), "label": 1, "features": []}
    labeller: Any = type("Other", (), {"kind": "words"})()
    return load_task(defaults("task", "ner") | named | options, labeller, "x")


@pytest.mark.parametrize(
    ("train", "test", "predicted", "f1"),
    [
        ("a B-X|b M-X|c O", "a B-X|b M-X|c E-X", "B-X M-X O", 0),
        ("a B-X|b I-X|c O", "a B-X|b I-X|c L-X", "B-X I-X O", 0),
        ("a B-X|b I-X|c O", "a B-X|b I-X|c E-X", "B-X I-X O", 0),
        ("a B-X|b I-X|c O", "a B-X|b I-X|c I-X", "B-X I-X O", 0),
        ("a B-X|b I-X|c L-X", "a U-X|b B-Y|c L-Y", "U-X B-Y L-X", 2 / 3),
        ("a I-X|b I-X|c E-X", "a I-X|b E-X|c E-X", "I-X E-X I-X", 2 / 3),
        ("a I-X|b B-X|c O", "a B-X|b B-X|c O", "I-X B-X O", 1),
    ],
)
def test_entities_are_counted_in_the_scheme_of_the_texts(
    tmp_path: Path, train: str, test: str, predicted: str, f1: float
):
    task, texts, _ = entities_of(tmp_path, train, test)
    found = task.figures(texts["test"].sentences, [predicted.split()], set())
    assert found["f1"] == pytest.approx(f1)


def test_labels_out_of_their_order_are_counted_strictly_beside_conlleval(tmp_path: Path):
    task, texts, _ = entities_of(tmp_path, "a B-X|b I-X", "a B-X|b O|c B-X|d I-X")
    found = task.figures(texts["test"].sentences, [["I-X", "O", "B-X", "I-X"]], set())
    assert (found["f1"], found["strict_f1"]) == (1, 2 / 3)


def test_labels_that_count_for_no_entity_are_reported(tmp_path: Path):
    task, _, _ = entities_of(tmp_path, "a O|b B-X|c M-X|d O", "a S-X")
    assert task.notes == [
        f"{tmp_path}/a.txt: 2 labels, the first in line 2, belong to no whole entity of BMES and do not count"
    ]
    assert entities_of(tmp_path, "a I-X|b I-X", "a B-X|b O")[0].notes == ["train has no other label than 'I-X'"]
    assert entities_of(tmp_path, "a I-X|b O", "a B-X|b B-Y")[0].notes == [
        "test: 1 of 2 labels are none of train's: B-Y"
    ]


def test_labels_that_figures_do_not_show_are_reported(tmp_path: Path):
    def told(train: list[str], test: list[str]) -> list[str]:
        for name, labels in (("train", train), ("test", test)):
            (tmp_path / name).write_text("".join(f"w{i} {label}\n" for i, label in enumerate(labels)))
        options = defaults("task", "pos") | {name: str(tmp_path / name) for name in ("train", "test")}
        return load_task(options, labellers.build(defaults("labeller", "majority")), "majority")[0].notes

    assert told(["D", "N"], ["N"] * 9) == []
    assert told(["_"] * 3, ["_"]) == ["train has no other label than '_'"]
    assert told(["D", "N"], ["d", "N", "n", "d"]) == ["test: 3 of 4 labels are none of train's: d, n"]
    words = [f"x{i}" for i in range(11)]
    assert told(words, words) == ["train has 11 different labels in 11 places; are they in another column?"]
    assert told([*words, *words], words) == []
    header = "train has the label 'POS' only in its first line; is that line a header?"
    assert told(["POS", *["D", "N"] * 10], ["N"]) == [header]
    assert told(["POS", "D", "N"], ["N"]) == []
    names = ("train", "test")
    options = defaults("task", "pos") | {name: str(tmp_path / name) for name in names}
    for name, word in zip(names, ("caf\u00e9", "cafe\u0301"), strict=True):
        (tmp_path / name).write_text(f"{word} N\nthe D\n")
    assert load_task(options, labellers.build(defaults("labeller", "majority")), "majority")[0].notes == [
        "test: words of train in another Unicode normal form: 1, such as 'cafe\u0301'; normalize the texts"
    ]
    twice = "train has labels that differ from others only in case or blanks: "
    assert told(["D", "N", "d", "N\u00a0"], ["N"]) == [f"{twice}'D'"]


def test_texts_of_train_in_another_fold_are_reported(tmp_path: Path):
    def told(copies: int) -> list[str]:
        lines = [f"{'ab'[i % 2]}\tfilm {i}\n" for i in range(20)]
        (tmp_path / "a.txt").write_text("".join(lines + lines[:copies]))
        options = defaults("task", "classify") | {"train": str(tmp_path / "a.txt"), "folds": 2, "fold": 0}
        return [note for note in load_task(options, cast(Any, Reader()), "reader")[0].notes if "in train" in note]

    assert told(copies=0) == told(copies=10) == []
    again = "of its 20 sentences are in train, too: its figures tell less of other text; keep one copy of each"
    (note,) = told(copies=20)
    assert note.startswith("test: ")
    assert note.endswith(again)


def test_words_of_conllu_without_a_label_are_reported(tmp_path: Path):
    rows = [["1", "the", "the", "_"], ["2", "cat", "cat", "NOUN"]]
    (tmp_path / "a.conllu").write_text("".join("\t".join([*row, *"______"]) + "\n" for row in rows))
    options = defaults("task", "upos") | {"train": str(tmp_path / "a.conllu"), "valid": str(tmp_path / "a.conllu")}
    task, *_ = load_task(options | {"test": None}, labellers.build(defaults("labeller", "majority")), "majority")
    told = "1 of 2 labels are '_', which stands for none in CoNLL-U and counts as one here"
    assert task.notes == [f"train: {told}", f"valid: {told}"]


@pytest.mark.parametrize("label", ["B_PER", "PER-B", "PER", "NNP", "b-PER", "B-", "O-PER", "-", "B PER"])
def test_labels_that_stand_for_no_entity_are_refused_with_their_line(tmp_path: Path, label: str):
    lines = "a\tO||b\tB-PER|c\t"
    with pytest.raises(UserError, match=rf"b.txt: line 4 has the label '{label}', which encodes no entity"):
        entities_of(tmp_path, "a\tO|b\tB-PER", lines + label)
    assert entities_of(tmp_path, "a\tO|b\tB-PER", lines + label, measure="accuracy")[0].layout.scheme is None


def test_labels_of_two_schemes_are_refused_with_the_line(tmp_path: Path):
    with pytest.raises(UserError, match=r"b.txt: line 2 has the label 'M-X', and before it there are B-X, I-X; "):
        entities_of(tmp_path, "a B-X|b I-X", "a B-X|b M-X")


@pytest.mark.parametrize(
    ("train", "coded"),
    [
        ("I-X I-X B-X O I-Y", "B-X E-X S-X O S-Y"),
        ("B-X I-X B-X O B-Y", "B-X E-X S-X O S-Y"),
        ("I-X E-X E-X O E-Y", "B-X E-X S-X O S-Y"),
        ("I-X E-X I-X O I-Y", "B-X E-X S-X O S-Y"),
        ("B-X L-X U-X O I-Y", "B-X E-X S-X O I-Y"),
        ("B-X E-X S-X O M-Y", "B-X E-X S-X O I-Y"),
        ("B-X E-X S-X O I-Y", "B-X E-X S-X O I-Y"),
        ("B E S O S", "B E S O S"),
    ],
)
def test_models_learn_iobes_from_any_scheme_and_texts_get_their_own(tmp_path: Path, train: str, coded: str):
    lines = "".join(f"w {label}\n" for label in train.split())
    task = entities_of(tmp_path, lines, lines, scheme="iobes")[0]
    assert task.to_model_scheme(train.split()) == coded.split()
    assert task.to_text_scheme(coded.split()) == train.split()


@pytest.mark.parametrize("options", [{"label": 0}, {"features": [1]}])
def test_a_column_that_models_read_holds_no_labels(options: dict[str, Any]):
    with pytest.raises(UserError, match=r"task.label=.: is a column that models read, too"):
        tasks.build(defaults("task", "pos") | options)


def test_the_words_of_a_run_may_have_spaces(tmp_path: Path):
    text = "New York\tB-X|Rome\tB-X|Rome\tO"
    assert entities_of(tmp_path, text, text)[2].vocabulary.words == ["<eos>", "Rome", "New York"]


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


def test_a_default_beside_a_train_of_ones_own_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LMZOO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("conll2000/train.txt", "conll2000/test.txt", "own"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("a A O\nb B B-X\n")

    def told(**files: str | None) -> list[str]:
        options = defaults("task", "pos") | files
        return load_task(options, labellers.build(defaults("labeller", "majority")), "majority")[0].notes

    problem = "task.test=conll2000/test.txt is the default, and train is your own: set a file of yours, or null"
    assert told(train="own", valid="own") == [problem]
    assert (
        told() == told(valid="own") == told(train="own", test="own") == told(train="own", valid="own", test=None) == []
    )
