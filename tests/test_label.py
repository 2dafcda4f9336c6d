"""The command ``lmzoo.label``: runs, what they write, and mistakes."""

import json
from pathlib import Path

import pytest
from command_line import command

from lmzoo import compare, evaluate, label

TRAIN = "the D B-NP\nwalk N I-NP\nends V B-VP\n\nthey P B-NP\nwalk V B-VP\n\n"
TEST = "they P B-NP\nwalk V B-VP\n\n\nthe D B-NP\ncat N I-NP\n"
FILES = ["task.train=train.txt", "task.test=test.txt"]


@pytest.fixture
def texts(folder: Path) -> Path:
    Path("train.txt").write_text(TRAIN)
    Path("test.txt").write_text(TEST)
    return folder


def test_a_run_has_its_figures_and_the_labels_in_the_form_of_the_text(texts: Path):
    done = command("task=chunk", "labeller=majority", *FILES, main=label.main)
    assert done.code == 0, done
    (run,) = texts.glob("outputs/chunk/majority*")
    results = json.loads((run / "results.json").read_text())
    # majority: walk is I-NP, cat is B-NP, the most frequent label; B-NP of "the" ends before that of "cat"
    assert (run / "test.labels").read_text() == TEST.replace("walk V B-VP", "walk V I-NP").replace(
        "I-NP\n", "I-NP\n", 1
    )[: -len("cat N I-NP\n")] + "cat N B-NP\n"
    assert results["figures"] == {"test": 0}
    assert results["details"]["test"]["accuracy"] == 2 / 4
    assert results["details"]["test"]["unknown_accuracy"] == 0
    assert "already finished" in command("task=chunk", "labeller=majority", *FILES, main=label.main).out


def test_conllu_is_read_and_written(texts: Path):
    text = "# text = don't\n1-2\tdon't\t_\t_\t_\n1\tdo\tdo\tAUX\t_\n2\tn't\tnot\tPART\t_\n2.1\tx\tx\tX\t_\n"
    Path("a.conllu").write_text(text)
    done = command("task=upos", "task.train=a.conllu", "task.valid=null", "task.test=a.conllu", "run_dir=r",
                   main=label.main)  # fmt: skip
    assert "test accuracy 100.00" in done.out, done
    assert Path("r/test.labels").read_text() == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task=ner"], "task.train=FILE and task.test=FILE (or task.valid) are needed"),
        (["task.train=none.txt"], "none.txt: no such file"),
        ([*FILES, "task.label=7"], "train.txt: line 1 has 3 columns, and 8 are needed"),
        ([*FILES, "labeller=magority"], "did you mean 'majority'?"),
        ([*FILES, "task.labell=1"], "task.label"),
    ],
)
def test_mistakes_are_told_in_a_line(texts: Path, options: list[str], message: str):
    assert message in command(*options, main=label.main).refused()
    assert not Path("outputs").exists()


def test_commands_for_language_models_refuse_the_run(texts: Path):
    assert command(*FILES, "run_dir=r", main=label.main).code == 0
    assert (
        "r: is a run of labels; this needs a run of python -m lmzoo.train" in command("r", main=evaluate.main).refused()
    )
    assert "r: labels" in command("r", main=compare.main).err


def test_a_linear_chain_learns_what_it_is_shown(texts: Path):
    done = command("task=chunk", "labeller=crf", "task.train=train.txt", "task.test=train.txt", main=label.main)
    assert "test f1 100.00" in done.out, done
