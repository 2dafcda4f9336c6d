"""A run that starts from the weights of another: ``trainer.from`` and ``corpus.vocabulary``."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, Outcome, command, stop_at

from lmzoo.api import Loaded
from lmzoo.api import load as open_run
from lmzoo.core.files import sha256
from lmzoo.protocol.perplexity import score
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load
from lmzoo.training.trainer import Trainer

RNN = [*QUICK, *MODELS["rnn"]]


def own(folder: Path, name: str, text: str) -> list[str]:
    """The options of a text of one's own."""
    (folder / name).write_text(text)
    return ["corpus=text", *(f"corpus.{split}={folder / name}" for split in ("train", "valid", "test"))]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of a text with `<unk>`, trained."""
    folder = tmp_path_factory.mktemp("source")
    text = own(folder, "text", "a b c\nb a <unk>\n" * 20)
    assert command(*text, *RNN, f"run_dir={folder / 'run'}").code == 0
    return folder / "run"


def trained(outcome: Outcome, run: Path) -> Loaded:
    assert outcome.code == 0, outcome
    return open_run(run)


def test_fine_tuning_starts_with_the_weights_and_the_perplexity_of_the_source(source: Path, tmp_path: Path):
    text = own(tmp_path, "other", "c c b\nd a b\n" * 20)
    options = [*text, *RNN, f"corpus.vocabulary={source}", f"trainer.from={source}"]
    worse = trained(command(*options, "optimizer.lr=10", f"run_dir={tmp_path / 'worse'}"), tmp_path / "worse")
    theirs, words = load(source)
    assert worse.vocabulary.words == words.words
    for name, weights in theirs.state_dict().items():
        assert torch.equal(worse.model.state_dict()[name], weights)
    before = score(theirs, words.encode((tmp_path / "other").read_bytes()), "stream").perplexity
    assert worse.results is not None
    assert worse.results["perplexity"]["valid"] == before
    assert worse.results["best_epoch"] == 0
    assert worse.results["checks"][0]["valid"] > before
    tuned = trained(command(*options, "optimizer.lr=0.03", f"run_dir={tmp_path / 'tuned'}"), tmp_path / "tuned")
    assert tuned.results is not None
    log = (tmp_path / "tuned" / "train.log").read_text()
    assert re.search(rf" 0 tokens, \d+ s: valid perplexity {before:.2f}\n", log)
    assert tuned.results["perplexity"]["valid"] < before
    assert tuned.results["best_epoch"] > 0


def test_the_weights_at_step_0_are_those_of_the_source_to_the_bit(source: Path, tmp_path: Path, monkeypatch):
    first: list[dict[str, torch.Tensor]] = []
    step = Trainer._step

    def noting(self: Trainer, *arguments):
        first.append({name: weights.clone() for name, weights in self.model.state_dict().items()})
        return step(self, *arguments)

    monkeypatch.setattr(Trainer, "_step", noting)
    text = [f"corpus.{split}={source.parent / 'text'}" for split in ("train", "valid")]
    on = ["corpus=text", *text, *RNN, f"trainer.from={source}", "trainer.epochs=1", f"run_dir={tmp_path / 'on'}"]
    assert command(*on).code == 0
    theirs = load(source)[0].state_dict()
    assert all(torch.equal(first[0][name], weights) for name, weights in theirs.items())
    assert any(not torch.equal(first[-1][name], weights) for name, weights in theirs.items())


def test_a_run_says_where_it_came_from_and_needs_its_source_no_more(source: Path, tmp_path: Path):
    shutil.copytree(source, tmp_path / "source")
    text = own(tmp_path, "other", "c a d\n" * 20)
    run, came = tmp_path / "run", tmp_path / "source"
    options = [*text, *RNN, f"corpus.vocabulary={came}", f"trainer.from={came}", f"run_dir={run}"]
    results = trained(command(*options), run).results
    assert Run(run).config()["trainer"]["from"] == str(came)
    (entry,) = json.loads((run / "provenance.json").read_text())
    assert entry["made_from"] == {"trainer.from": {str(came): sha256((came / "best.pt").read_bytes())}}
    shutil.rmtree(came)
    assert results is not None
    assert open_run(run).perplexity("test") == pytest.approx(results["perplexity"]["test"])


def test_a_run_that_was_stopped_goes_on_from_its_own_weights(source: Path, tmp_path: Path):
    text = own(tmp_path, "other", "c a b\nb b\n" * 40)
    options = [*text, *RNN, f"corpus.vocabulary={source}", f"trainer.from={source}", "trainer.epochs=3"]
    assert command(*options, f"run_dir={tmp_path / 'peace'}").code == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 4)
        assert command(*options, f"run_dir={tmp_path / 'stopped'}").code == 130
    assert command(*options, f"run_dir={tmp_path / 'stopped'}").code == 0
    peace, stopped = (torch.load(tmp_path / run / "last.pt", weights_only=True) for run in ("peace", "stopped"))
    assert peace["progress"]["step"] > 4
    for name, weights in peace["model"].items():
        assert torch.equal(stopped["model"][name], weights), name


def test_what_does_not_fit_is_refused_in_a_line(source: Path, tmp_path: Path):
    text, run = own(tmp_path, "text", "a b <unk>\nc c\n" * 20), f"run_dir={tmp_path / 'run'}"
    same = [*text, f"corpus.vocabulary={source}"]

    def refused(*options: str) -> str:
        message = command(*options, run).refused()
        assert not (tmp_path / "run").exists()
        return message

    assert f"set corpus.vocabulary={source}" in refused(*text, *RNN, f"trainer.from={source}")
    other = refused(*same, *QUICK, *MODELS["gru"], f"trainer.from={source}")
    assert "has other weights (recurrent.weight_ih_l0: [8, 8] there, [24, 8] here); repeat its model options" in other
    deeper = refused(*same, *RNN, "model.layers=2", f"trainer.from={source}")
    assert "(recurrent.weight_ih_l1: absent there, [8, 8] here)" in deeper
    counted = refused(*same, *QUICK, *MODELS["ngram"], f"trainer.from={source}")
    assert "needs a model that learns by gradient" in counted
    assert "trainer.from: nowhere: not a run directory (there is no such folder)" in refused(
        *same, *RNN, "trainer.from=nowhere"
    )
    assert "trainer.from=3.5: must be a string or a list, each item a string or null" in refused(
        *same, *RNN, "trainer.from=3.5"
    )
    assert "corpus.vocabulary=-0.1: must be a string or null" in refused(*text, *RNN, "corpus.vocabulary=-0.1")
    assert "trainer.from=[]: names no run" in refused(*same, *RNN, "trainer.from=[]")
    assert "trainer.epochs=0: evaluates the weights of other runs" in refused(*same, *RNN, "trainer.epochs=0")


def test_the_mean_of_several_runs_is_evaluated_as_it_is(source: Path, tmp_path: Path):
    text = own(tmp_path, "text", "a b c\nb a <unk>\n" * 20)
    other = tmp_path / "other"
    learn = [*text, *QUICK, f"corpus.vocabulary={source}"]
    assert command(*learn, *MODELS["rnn"], f"trainer.from={source}", "optimizer.lr=0.05", f"run_dir={other}").code == 0
    several = f"trainer.from=[{source},{source},{other}]"
    mean = trained(command(*learn, several, "trainer.epochs=0", f"run_dir={tmp_path / 'mean'}"), tmp_path / "mean")
    a, b, found = (load(path)[0] for path in (source, other, tmp_path / "mean"))
    assert not torch.equal(a.output.weight, b.output.weight)
    with torch.no_grad():
        for part, x, y in zip(found.parameters(), a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(part, (2 * x + y) / 3)
    results = Run(tmp_path / "mean").results()
    assert results is not None
    assert results["checks"] == []
    assert mean.perplexity("valid") == pytest.approx(results["perplexity"]["valid"])
    (entry,) = json.loads((tmp_path / "mean" / "provenance.json").read_text())
    assert entry["made_from"]["trainer.from"].keys() == {str(source), str(other)}
    shutil.rmtree(other)
    assert command(*learn, several, "trainer.epochs=0", f"run_dir={tmp_path / 'mean'}").code == 0


def test_weights_of_other_functions_are_refused_or_warned_of(source: Path, tmp_path: Path):
    learn = [*own(tmp_path, "text", "a b c\nb a <unk>\n" * 20), *QUICK, f"corpus.vocabulary={source}"]
    untied, relu = tmp_path / "untied", tmp_path / "relu"
    assert command(*learn, *MODELS["rnn"], "model.tied=false", f"run_dir={untied}").code == 0
    assert command(*learn, *MODELS["rnn"], "model.activation=relu", f"run_dir={relu}").code == 0
    tied = command(*learn, f"trainer.from={untied}", "model.tied=true", f"run_dir={tmp_path / 'run'}").refused()
    assert f"{untied} has embedding.weight and output.weight apart, and here they are one; repeat its model" in tied
    assert "model.tied=false" in tied
    both = command(*learn, f"trainer.from=[{source},{untied}]", f"run_dir={tmp_path / 'run'}").refused()
    assert f"{untied} has embedding.weight and output.weight apart, and here they are one" in both
    both = command(*learn, f"trainer.from=[{source},{relu}]", "trainer.epochs=0", f"run_dir={tmp_path / 'run'}")
    assert f"{source}, {relu} differ in model.activation; a mean of their weights makes sense only" in both.out
    again = command(*learn, f"trainer.from=[{source},{source}]", "trainer.epochs=0", f"run_dir={tmp_path / 'again'}")
    assert again.code == 0
    assert "differ" not in again.out


def test_a_sweep_over_lists_of_runs_has_their_model(source: Path, tmp_path: Path):
    learn = [*own(tmp_path, "text", "a b c\nb a <unk>\n" * 20), *QUICK, f"corpus.vocabulary={source}"]
    sweep = f"trainer.from=[{source},{source}],[{source}],{source}"
    done = command("-m", *learn, sweep, "trainer.epochs=0", f"run_dir={tmp_path}/${{hydra:job.num}}")
    assert done.code == 0, done
    assert done.out.count("rnn on") >= 3
