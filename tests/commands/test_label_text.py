"""Texts labelled by a run, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from chunks import FILES
from command_line import command, edit, put

from lmzoo.commands import compare, label, tag
from lmzoo.labels.majority import Majority


def test_a_text_is_labelled_by_a_run(labelled: Path):
    assert command("task=chunk", "labeller=crf", *FILES, "run_dir=r", main=label.main).code == 0
    done = command("r", "test.txt", main=tag.main)
    assert done.out == Path("r/test.labels").read_text(), done
    Path("new.txt").write_text("they P\nwalk V\n")  # without labels
    assert command("r", "new.txt", main=tag.main).out == "they P B-NP\nwalk V B-VP\n"
    Path("plain.txt").write_text("they walk\n")
    refused = command("r", "plain.txt", "--text", main=tag.main).refused()
    assert "--text: r reads a further column of each word; give a file of columns" in refused
    assert "--tokenize words: applies only to raw text; add --text" in command(
        "r", "plain.txt", "--tokenize", "words", main=tag.main
    ).refused()  # fmt: skip


def test_plain_sentences_are_labelled_as_their_columns_are(labelled: Path):
    """One sentence is a line; the words and labels are those of a file of columns."""
    files = ["task.train=train.txt", "task.test=test.txt"]
    assert command("task=pos", "labeller=majority", *files, "run_dir=r", main=label.main).code == 0
    Path("plain.txt").write_text('The  cat walk\n\nwalk, "cat"')
    Path("columns.txt").write_text('The\ncat\nwalk\n\nwalk\n,\n"\ncat\n"\n\n')
    expected = command("r", "columns.txt", main=tag.main).out
    done = command("r", "plain.txt", "--text", "--tokenize", "words", main=tag.main)
    rows, columns = (out.replace(" ", "\t").split("\n") for out in (done.out, expected))
    assert len(rows) == 11
    assert rows == columns
    assert not done.err
    warned = command("r", "plain.txt", "--text", main=tag.main)
    problem = "plain.txt: 2 of 5 words have punctuation attached to them, such as 'walk,'"
    assert warned.err == f"warning: {problem}; --tokenize treebank separates it\n"
    small = command("r", "plain.txt", "--text", "--tokenize", "ptb", main=tag.main)
    assert small.err.startswith("warning: --tokenize ptb: drops the capitals, numbers and punctuation")
    Path("mr.txt").write_text("pos\ta good film\nneg\ta bad film\n")
    given = ["task=classify", "labeller=naive_bayes", "task.train=mr.txt", "task.test=mr.txt"]
    assert command(*given, "run_dir=t", main=label.main).code == 0
    Path("plain.txt").write_text("good film\n  bad\tfilm\n")
    assert command("t", "plain.txt", "--text", main=tag.main).out == "pos\tgood film\nneg\tbad film\n"
    Path("plain.txt").write_text("good\n\nbad\n")
    done = command("t", "plain.txt", "--text", main=tag.main)
    assert (done.out, done.err) == ("pos\tgood\nneg\tbad\n", "warning: plain.txt: 1 line without words left out\n")
    Path("plain.txt").write_text("?\n")
    assert "plain.txt: has no words; write a sentence a line" in command(
        "t", "plain.txt", "--text", "--tokenize", "ptb", main=tag.main
    ).refused()  # fmt: skip


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_give_no_labels(labelled: Path, number: float):
    assert command("task=chunk", "labeller=crf", *FILES, "run_dir=r", main=label.main).code == 0

    def change(saved: dict[str, Any]) -> None:
        for name in ("moves", "start"):
            saved["state"][name].fill_(number)

    edit(Path("r/best.pt"), change)
    told = "the model's scores of labels are not numbers"
    assert told in command("r", "test.txt", main=tag.main).refused()


def test_figures_of_labels_that_are_no_numbers_are_damage(labelled: Path):
    assert command("task=chunk", "labeller=majority", *FILES, "run_dir=r", main=label.main).code == 0
    results = json.loads(Path("r/results.json").read_text())
    Path("r/results.json").write_text(json.dumps(results | {"figures": {"test": float("nan")}}))
    assert "r: results.json: changed since the run wrote it" in command("r", "--csv", "a.csv", main=compare.main).err


@pytest.mark.parametrize("error", [AttributeError("why"), NameError("why"), KeyError("why"), ValueError("why")])
def test_an_error_of_a_labeller_s_code_is_reported_with_its_line(
    labelled: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    assert command("task=chunk", "labeller=majority", *FILES, "run_dir=r", main=label.main).code == 0

    def take(*_: object) -> None:
        raise error

    monkeypatch.setattr(Majority, "load_state_dict", take)
    refused = command("r", "test.txt", main=tag.main).refused()
    assert f"test_label_text.py:{take.__code__.co_firstlineno + 1}: {type(error).__name__}: " in refused
    assert "why" in refused
    assert "delete the folder" not in refused


def test_mistakes_of_labelling_are_reported_in_a_line(labelled: Path):
    assert command("task=chunk", "labeller=majority", *FILES, "run_dir=r", main=label.main).code == 0
    Path("new.txt").write_text("they\n")
    few = "new.txt: line 1 has 1 of the 2 columns that are needed; task.word=0, task.label=2 and task.features=[1] name"
    assert few in command("r", "new.txt", main=tag.main).refused()
    for line_by_line, why in {
        "they walk home now\n": "line 1 has 4 columns, and the run was trained on 3",
        "they walk home\n\na b c d e\n": "line 3 has 5 columns, and line 1 has 3; columns are separated by spaces",
        "they walk home\n\nthe cat walks\n": "line 1 has 'home' as a label, which the run does not have",
    }.items():
        Path("new.txt").write_text(line_by_line)
        assert f"new.txt: {why}; write a word a line" in command("r", "new.txt", main=tag.main).refused()
    edit(Path("r/best.pt"), put("state", value={}))
    assert "r/best.pt: cannot be restored: " in command("r", "test.txt", main=tag.main).refused()
    Path("r/best.pt").unlink()
    assert "r: has no best.pt yet" in command("r", "test.txt", main=tag.main).refused()
    assert "none: not a run directory" in command("none", "test.txt", main=tag.main).refused()


@pytest.mark.parametrize("name", ["b.conll", "B.CONLLU"])
def test_a_run_of_conllu_labels_conllu_alone(labelled: Path, name: str):
    lines = ["1-2\tdon't\t_\t_", "1\tdo\tdo\tAUX", "2\tn't\tnot\tPART", "2.1\tx\tx\tX"]
    text = "# text = don't\n" + "".join(line + "\t_" * 6 + "\r\n" for line in lines)
    Path(name).write_bytes(text.encode())
    files = [f"task.train={name}", "task.valid=null", f"task.test={name}"]
    assert command("task=upos", "labeller=majority", *files, "run_dir=r", main=label.main).code == 0
    assert json.loads(Path("r/results.json").read_text())["words"]["test"] == 2
    assert Path("r/test.labels").read_bytes().decode() == text
    Path("new").write_bytes(text.replace("AUX", "_").encode())
    assert command("r", "new", main=tag.main).out == text
    Path("new").write_text("we\twe\tPRON\tX\n")
    refused = command("r", "new", main=tag.main).refused()
    assert "new: is no CoNLL-U, and train is CoNLL-U" in refused
    assert command("task=chunk", "labeller=majority", *FILES, "run_dir=c", main=label.main).code == 0
    assert f"{name}: is CoNLL-U, and train is no CoNLL-U" in command("c", name, main=tag.main).refused()


def test_a_word_may_have_a_space_where_tabs_part_columns(labelled: Path):
    Path("t.txt").write_text("Anna\tNNP\tI-NP\tB-PER\nNew York\tNNP\tI-NP\tB-LOC\n")
    done = command("task=ner", "labeller=crf", "task.train=t.txt", "task.test=t.txt", "run_dir=r", main=label.main)
    assert "test f1 100.00" in done.out, done
    Path("new.txt").write_text("New York\tNNP\tI-NP\n")
    assert command("r", "new.txt", main=tag.main).out == "New York\tNNP\tI-NP\tB-LOC\n"
    Path("new.txt").write_text("Anna NNP I-NP\n")
    few = "new.txt: line 1 has 1 of the 3 columns that are needed; "
    assert few in command("r", "new.txt", main=tag.main).refused()


def test_comments_and_beginnings_of_documents_are_reported(labelled: Path):
    Path("t.txt").write_text("-DOCSTART- -X- O O\n\n# id 1 x=y\nAnna _ _ B-PER\n")
    done = command("task=ner", "labeller=majority", "task.train=t.txt", "task.test=t.txt", "run_dir=r", main=label.main)
    assert done.out.count("t.txt: 1 comment and 1 -DOCSTART- line are no words") == 1, done
    assert json.loads(Path("r/results.json").read_text())["words"] == {"train": 1, "test": 1}
    assert Path("r/test.labels").read_text() == Path("t.txt").read_text()
