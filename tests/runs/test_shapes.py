"""Run folders whose files can be read and are not what a run writes; folders that are somebody else's."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command, contents, edit, put

from lmzoo.api import load
from lmzoo.commands import compare, evaluate, generate, pairs, score, train
from lmzoo.core.errors import UserError
from lmzoo.models.neural.recurrent import RNN

SMALL = [*TEXT, *QUICK, *MODELS["rnn"]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert command(*SMALL, f"run_dir={folder}").code == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.yaml", put("model", value=["rnn"])),
        ("config.yaml", put("model", value=None)),
        ("config.yaml", put("model", "name", value=["rnn"])),
        ("config.yaml", put("model", "name", value={"rnn": 1})),
        ("config.yaml", put("corpus", value="markov")),
        ("config.yaml", put("plugins", value=[3])),
        ("config.yaml", lambda _: [1, 2]),
        ("vocabulary.txt", None),
        ("best.pt", put("model", "embedding.weight", value=torch.tensor(1.0))),
        ("best.pt", put("model", "embedding.weight", value="nothing")),
        ("best.pt", put("config", value=[])),
        ("best.pt", lambda _: [1]),
    ],
)
def test_a_run_of_another_shape_cannot_be_opened(run: Path, name: str, change: Callable | None):
    if change is None:
        (run / name).write_text((run / name).read_text().replace("w1\nw2\n", "w2\nw1\n"))
    else:
        edit(run / name, change)
    for main, arguments in ((evaluate.main, ["test"]), (generate.main, ["--tokens", "3"])):
        assert str(run) in command(str(run), *arguments, main=main).refused()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("results.json", [1]),
        ("results.json", {"seconds": 1}),
        ("provenance.json", {"corpus": 1}),
        ("provenance.json", [1]),
        ("provenance.json", [{"corpus": "markov"}]),
    ],
)
def test_a_run_of_another_shape_is_not_taken_for_a_finished_one(run: Path, name: str, value: Any):
    (run / name).write_text(json.dumps(value))
    assert f"{run / name}: " in command(*SMALL, f"run_dir={run}").refused()


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_reported_by_every_command(run: Path, number: float):
    bias = torch.load(run / "best.pt", weights_only=True)["model"]["output.bias"]
    edit(run / "best.pt", put("model", "output.bias", value=torch.full_like(bias, number)))
    told = "log-probabilities are not numbers"
    text, pair = run.parent / "text.txt", run.parent / "pair.jsonl"
    text.write_text("w1 w2\n")
    pair.write_text('{"sentence_good": "w1", "sentence_bad": "w2"}\n')
    name = str(run)
    for main, arguments in [
        (evaluate.main, [name]), (evaluate.main, [name, str(text)]), (score.main, [name, str(text)]),
        (generate.main, [name]), (generate.main, [name, "--beam", "2"]), (pairs.main, [name, str(pair)]),
        (compare.main, ["--tokens", name, name]),
    ]:  # fmt: skip
        assert told in command(*arguments, main=main).refused(), main
    for ask in (lambda lm: lm.perplexity("test"), lambda lm: lm.perplexity(text), lambda lm: lm.next_words("w1"),
                lambda lm: lm.next_words(""), lambda lm: lm.sample(), lambda lm: lm.surprisal("w1")):  # fmt: skip
        with pytest.raises(UserError, match=told):
            ask(load(run))


def test_words_in_another_order_are_noticed(run: Path):
    words = (run / "vocabulary.txt").read_text().split("\n")
    words[1], words[2] = words[2], words[1]
    (run / "vocabulary.txt").write_text("\n".join(words))
    line = command(str(run), main=evaluate.main).refused()
    assert "vocabulary.txt: changed since the run wrote it (its checksum in results.json is another)" in line
    (run / "results.json").unlink()
    line = command(str(run), main=evaluate.main).refused()
    assert "vocabulary.txt: not the words that best.pt was trained with" in line


def test_files_are_those_that_a_finished_run_wrote(run: Path):
    config, results, weights = run / "config.yaml", run / "results.json", run / "best.pt"
    sound = config.read_text()
    config.write_text(sound.replace("seed: ", "seed: 1"))
    assert command(str(run), main=compare.main).err.startswith(f"{run}: config.yaml: changed since the run wrote it")
    config.write_text(sound)
    edit(results, put("perplexity", "test", value=3.0))
    assert "results.json: has 3.00, so a file of the run was changed" in command(str(run), main=evaluate.main).err
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "best.pt: damaged" in command(str(run), main=evaluate.main).refused()


def test_a_log_that_leads_out_of_the_folder_is_not_written_to(tmp_path: Path):
    other, folder = tmp_path / "other.txt", tmp_path / "run"
    other.write_text("mine\n")
    folder.mkdir()
    (folder / "train.log").symlink_to(other)
    assert "train.log: cannot be written" in command(*SMALL, f"run_dir={folder}").refused()
    assert other.read_text() == "mine\n"


@pytest.mark.parametrize("options", [["model.hidden=0"], ["trainer.batch_size=1000"], ["optimizer.lr=-1"], []])
def test_files_of_somebody_else_stay_as_they_are(tmp_path: Path, options: list[str]):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("vocabulary.txt", "train.log", ".movie.mp4.part"):
        (folder / name).write_text("mine")
    before = contents(folder)
    command(*SMALL, *options, f"run_dir={folder}").refused()
    assert contents(folder) == before


def test_a_part_of_a_download_is_not_ours(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".movie.mp4.part").write_text("mine")
    assert command(*SMALL, f"run_dir={folder}").code == 0
    assert (folder / ".movie.mp4.part").read_text() == "mine"


def test_a_refusal_leaves_folders_as_they_were(tmp_path: Path):
    refused = ["model=hmm", "model.begin=clusters", "model.states=500"]  # refused by estimation, within the folder
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "new/deep/run"):
        command(*TEXT, *QUICK, *refused, f"run_dir={tmp_path / folder}").refused()
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_trained_run_without_provenance_is_not_taken_for_a_new_one(run: Path):
    (run / "provenance.json").unlink()
    for arguments, main in (([str(run)], evaluate.main), ([*SMALL, f"run_dir={run}"], train.main)):
        assert "provenance.json: no such file" in command(*arguments, main=main).refused()


def test_damaged_results_are_reported_once(run: Path):
    (run / "results.json").write_text('{"a":')
    assert command(*SMALL, f"run_dir={run}").refused().count("delete the folder") == 1


@pytest.mark.parametrize("content", ["5", "", "[", "- 1"])
def test_a_configuration_that_is_none(run: Path, content: str):
    (run / "config.yaml").write_text(content)
    assert "config.yaml: " in command(str(run), main=evaluate.main).refused()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
@pytest.mark.parametrize("function", ["load", "set_rng_state"])
def test_a_run_that_does_not_fit_into_memory_is_not_called_damaged(
    run: Path, error: Exception, function: str, monkeypatch: pytest.MonkeyPatch
):
    (run / "results.json").unlink()

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(torch, function, fail)
    line = command(*SMALL, f"run_dir={run}").refused()
    assert "not enough memory" in line
    assert "delete" not in line


def test_after_too_large_a_model_a_smaller_one_may_have_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(RNN, "estimate", fail)
        assert "not enough memory" in command(*SMALL, f"run_dir={tmp_path / 'run'}").refused()
    assert command(*SMALL, "model.dropout=0.1", f"run_dir={tmp_path / 'run'}").code == 0


def test_an_error_that_is_not_the_user_s_leaves_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(RNN, "estimate", lambda *_: open(tmp_path / "absent"))  # noqa: PTH123, SIM115
    with pytest.raises(FileNotFoundError):
        command(*SMALL, f"run_dir={tmp_path / 'run'}")
    assert "Traceback" in (tmp_path / "run" / "train.log").read_text()


@pytest.mark.parametrize("name", ["best.pt", "last.pt", "results.json"])
def test_one_number_that_is_another_is_noticed(run: Path, name: str):
    """Whoever writes a file again with the same form, a checkpoint keeps the checksum of what it holds."""
    if name == "results.json":
        results = json.loads((run / name).read_text())
        results["perplexity"]["valid"] += 1e-9
        (run / name).write_text(json.dumps(results))
    else:
        (run / "results.json").unlink()
        saved = torch.load(run / name, weights_only=True)
        saved["model"]["output.bias"][0] += 1e-3
        torch.save(saved, run / name)
    assert f"{run / name}: changed since the run wrote it" in command(*SMALL, f"run_dir={run}").refused()
    if name == "best.pt":
        assert "changed since the run wrote it" in command(str(run), main=evaluate.main).refused()
