"""Folders of runs: names that tell runs apart."""

import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, TEXT, command
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from lmzoo.core.configs import CONFIGS, defaults
from lmzoo.corpus.corpus import SPLITS
from lmzoo.runs.configuration import Configuration

USUAL = {
    "seed": 0,
    "device": "auto",
    "plugins": [],
    "deterministic": False,
    "corpus": defaults("corpus", "text"),
    "model": defaults("model", "lstm"),
    "optimizer": defaults("optimizer", "adamw"),
    "schedule": defaults("schedule", "cosine"),
    "trainer": defaults("trainer", "default"),
}


def config(changes: dict[str, Any]) -> dict[str, Any]:
    """The usual options but for some."""
    options = {group: dict(part) if isinstance(part, dict) else part for group, part in USUAL.items()}
    for key, value in changes.items():
        group, _, name = key.rpartition(".")
        (options[group] if group else options)[name] = value
    return options


def folder_of(changes: dict[str, Any]) -> str:
    return str(Configuration(config(changes)).default_folder())


def keep(changes: dict[str, Any], folder: str) -> None:
    """A run of a configuration, as far as its folder matters."""
    Path(folder).mkdir(parents=True)
    (Path(folder) / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config(changes))))


pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "text/lstm"),
        ({"device": "cpu", "trainer.checkpoint_seconds": 1}, "text/lstm"),
        ({"corpus.label": "ewt"}, "ewt/lstm"),
        ({"corpus.label": "../a b"}, "-a-b/lstm"),
        ({"seed": 1}, "text/lstm-HASH"),
        ({"model.init": None}, "text/lstm-HASH"),
        ({"corpus.train": "/a/ewt.txt"}, "ewt/lstm-HASH"),
        ({"corpus.train": "/a/ewt.train.txt", "corpus.label": "ewt"}, "ewt/lstm-HASH"),
    ],
)
def test_a_folder_is_named_by_its_text_its_model_and_a_hash(changes: dict[str, Any], expected: str):
    assert re.fullmatch(expected.replace("HASH", "[0-9a-f]{6}"), folder_of(changes).removeprefix("outputs/"))


def test_the_hash_is_that_of_what_is_unlike_the_defaults():
    """So an option that a later version adds changes no name."""
    assert folder_of({"seed": 1, "optimizer.lr": 0.01}) == "outputs/text/lstm-a3ea73"
    assert folder_of({"optimizer.lr": 0.01, "seed": 1, "run_dir": "x"}) == "outputs/text/lstm-a3ea73"
    assert folder_of({"seed": 2, "optimizer.lr": 0.01}) != "outputs/text/lstm-a3ea73"


def test_a_folder_that_another_configuration_has_is_left_alone():
    keep({"seed": 1}, "outputs/text/lstm")
    keep({"seed": 1}, folder_of({"seed": 2}))
    for changes in ({}, {"seed": 2}):
        other = folder_of(changes)
        assert re.fullmatch(r"outputs/text/lstm-[0-9a-f]{12}", other)
        keep(changes, other)
        assert folder_of(changes) == other


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.floats(0, 1), st.text("a/-,.=", min_size=1, max_size=3),
    st.lists(st.integers(-1, 1), max_size=2),
)  # fmt: skip
KEYS = ["seed", "corpus.train", "model.hidden", "model.tied", "model.runs", "optimizer.lr", "trainer.epochs"]


@settings(deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2), min_size=2, max_size=4))
def test_two_configurations_never_share_a_folder_and_each_has_one_alone(several):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.chdir(place)
        folders: dict[str, dict[str, Any]] = {}
        for changes in [*several, *reversed(several)]:
            folder = folder_of(changes)
            assert folders.setdefault(folder, config(changes)) == config(changes)
            if not Path(folder).exists():
                keep(changes, folder)
        assert len({repr(options) for options in folders.values()}) == len(folders)  # False is no 0


def runs() -> list[Path]:
    """The folder of every run."""
    return sorted(file.parent for file in Path("outputs").rglob("config.yaml"))


def test_a_sweep_and_a_single_command_share_a_run():
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    swept = command("-m", *small, "corpus.seed=1,0")
    assert swept.code == 0
    assert len(runs()) == 2
    assert all(re.fullmatch("ngram-[0-9a-f]{6}", run.name) and run.parent.name == "markov" for run in runs())
    first, second = (line for line in swept.out.splitlines() if line.startswith("["))
    assert re.fullmatch(r"\[0\] corpus\.seed=1: outputs/markov/ngram-[0-9a-f]{6}", first)
    assert second.startswith("[1] corpus.seed=0: ")
    outcome = command(*reversed(small), "corpus.seed=1", "model.smoothing=modified_kneser_ney")
    assert f"already finished: {first.partition(': ')[2]}" in outcome.out
    assert len(runs()) == 2


def test_a_preset_and_its_options_are_one_run(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def noted(options: Configuration, _: list[str]) -> dict[str, Any]:
        seen.append(options["run_dir"])
        return {"model": "lstm", "perplexity": {"valid": 1.0, "test": 1.0}}

    monkeypatch.setattr("lmzoo.training.session.train", noted)
    assert command("experiment=lstm_ptb", "seed=2").code == 0
    preset = OmegaConf.to_container(OmegaConf.load(CONFIGS / "experiment" / "lstm_ptb.yaml"))
    assert isinstance(preset, dict)
    spelt = [f"{group}.{key}={value}" for group in ("model", "optimizer", "trainer")
             for key, value in preset[group].items()]  # fmt: skip
    assert command("seed=2", "corpus=ptb", *spelt, "device=cpu").code == 0
    assert len(set(seen)) == 1


def test_runs_of_two_texts_of_ones_own_lie_apart(folder: Path):
    Path("ewt.txt").write_text("a b\n" * 9 + "a c\n")
    own = ["corpus=text", "corpus.valid=ewt.txt", "corpus.test=ewt.txt", "device=cpu", *MODELS["ngram"]]
    assert command(*own, "corpus.train=ewt.txt").code == 0
    outcome = command(*own, f"corpus.train={folder}/ewt.txt", "corpus.label=mine")
    assert "ngram on mine (context stream)" in outcome.out
    first, second = runs()
    assert (first.parent.name, second.parent.name) == ("ewt", "mine")
    assert json.loads((first / "results.json").read_text())["corpus"] == "ewt"


@pytest.mark.parametrize("ending", ["gz", "GZ", "zst"])
def test_a_packed_text_is_called_as_the_unpacked_one(folder: Path, ending: str):
    pack = gzip.compress if ending != "zst" else pytest.importorskip("backports.zstd").compress
    Path(packed := f"mine.txt.{ending}").write_bytes(pack(b"a b\n" * 9 + b"a c\n"))
    own = ["corpus=text", *(f"corpus.{split}={packed}" for split in SPLITS), "device=cpu", *MODELS["ngram"]]
    assert "ngram on mine (context stream)" in command(*own).out
    assert [run.parent.name for run in runs()] == ["mine"]


def test_a_number_names_one_run_however_it_is_written():
    assert folder_of({"trainer.clip": 5}) == folder_of({"trainer.clip": 5.0}) != folder_of({"trainer.clip": 5.5})


def test_a_model_without_steps_does_not_start_from_a_run_without_a_word():
    assert command(*TEXT, *MODELS["ngram"]).code == 0
    refused = command(*TEXT, *MODELS["ngram"], "trainer.from=outputs/markov/none").refused()
    assert "trainer.from" in refused


def test_a_default_folder_with_an_invalid_configuration_is_refused():
    line = [*TEXT, *MODELS["ngram"]]
    assert command(*line).code == 0
    (run,) = runs()
    for content, told in (
        ("model: {", "cannot be read ("), ("", "no configuration of a run"), ("model: 3", "corpus of a run: must be a"),
    ):  # fmt: skip
        (run / "config.yaml").write_text(content)
        assert f"{run}/config.yaml: {told}" in command(*line).refused()
    assert runs() == [run]
    assert "model of a run: must be a group with a name" in command(*line, "model.name=[1]").refused()
