"""Training with a teacher: `model.teacher`."""

import json
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command, stop_at

from lmzoo.commands import evaluate

SENTENCES = [*TEXT, *QUICK, "corpus.context=sentence"]
STUDENT = ["model=twolevel_hmm", "model.states=24", "model.clusters=6", "model.dim=8", "model.state_dropout=0.5"]
TAUGHT = [*SENTENCES, *STUDENT, "model.teacher=teacher"]


@pytest.fixture(autouse=True)
def teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(*SENTENCES, *MODELS["lstm"], "run_dir=teacher").code == 0


def weights(run: str) -> dict[str, torch.Tensor]:
    return torch.load(Path(run, "best.pt"), weights_only=True)["model"]


def test_a_taught_run_that_goes_on_ends_with_the_same_bits_and_needs_no_teacher_to_be_measured(
    monkeypatch: pytest.MonkeyPatch,
):
    assert command(*TAUGHT, "run_dir=whole").code == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        command(*TAUGHT, "run_dir=stopped")
    assert not Path("stopped/results.json").exists()
    done = command(*TAUGHT, "run_dir=stopped")
    assert "resumed at step 3" in done.out, done
    torch.testing.assert_close(weights("stopped"), weights("whole"), rtol=0, atol=0)
    assert command(*SENTENCES, *STUDENT, "run_dir=alone").code == 0
    assert not weights("alone")["distributions.origin.weight"].equal(weights("whole")["distributions.origin.weight"])
    perplexity = json.loads(Path("whole/results.json").read_text())["perplexity"]["test"]
    Path("teacher").rename("elsewhere")

    measured = command("whole", "--json", main=evaluate.main)
    assert json.loads(measured.out)["perplexity"] == pytest.approx(perplexity)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([*TAUGHT, "corpus.context=stream"], "needs corpus.context=sentence"),
        ([*SENTENCES, *MODELS["vlhmm"], "model.teacher=teacher"], "model.teacher: is an option of"),
        ([*TAUGHT, "model.teacher=ngram"], "only an rnn, gru or lstm can be a teacher"),
        ([*TAUGHT, "corpus.words=19"], "was trained on another text"),
        ([*TAUGHT, "model.teacher=nowhere"], "model.teacher"),
    ],
)
def test_what_cannot_teach_or_learn_is_reported(line: list[str], message: str):
    assert command(*SENTENCES, *MODELS["ngram"], "run_dir=ngram").code == 0
    assert message in command(*line, "run_dir=new").refused()


def test_a_run_does_not_go_on_with_another_teacher(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        command(*TAUGHT, "run_dir=stopped")
    Path("teacher").rename("former")
    assert command(*SENTENCES, *MODELS["lstm"], "seed=1", "run_dir=teacher").code == 0
    assert "model.teacher" in command(*TAUGHT, "run_dir=stopped").refused()
