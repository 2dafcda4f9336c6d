"""Folders of runs: names that tell runs apart, and runs found again under whatever name they have."""

import gzip
import io
import json
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import MODELS, QUICK, TEXT, age, command
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from lmzoo.commands.evaluate import evaluate
from lmzoo.core.configs import CONFIGS, defaults
from lmzoo.corpus.corpus import SPLITS
from lmzoo.runs.directory import Run
from lmzoo.runs.naming import run_folder

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
    return str(run_folder(config(changes)))


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
    """So an option that a later version adds changes no name. This one may not change: runs lie there."""
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


def test_the_same_configuration_is_found_under_any_name():
    for seed in (1, 2):
        keep({"seed": seed, "model.hidden": 8}, f"outputs/text/lstm,model.hidden=8,seed={seed}")
    assert folder_of({"model.hidden": 8, "seed": 1}) == "outputs/text/lstm,model.hidden=8,seed=1"
    labelled = {"corpus.label": "mine", "seed": 2, "model.hidden": 8}
    assert folder_of(labelled) == "outputs/text/lstm,model.hidden=8,seed=2"
    assert "," not in folder_of({"seed": 3, "model.hidden": 8})
    keep({"seed": 4, "trainer.precision": "float32", "device": "cuda", "corpus.label": "x"}, "outputs/text/mine")
    for precision in ("auto", "float32"):
        assert folder_of({"seed": 4, "trainer.precision": precision}) == "outputs/text/mine"
    assert folder_of({"seed": 4, "trainer.precision": "bfloat16"}) != "outputs/text/mine"


def test_of_other_runs_only_the_lines_are_read(monkeypatch: pytest.MonkeyPatch):
    for seed in range(20):
        keep({"seed": seed, "model.hidden": 8}, f"outputs/text/lstm,hidden=8,seed={seed}")
    parsed, read = [], Run.config
    monkeypatch.setattr(Run, "config", lambda run: parsed.append(run.path.name) or read(run))
    assert folder_of({"seed": 7, "model.hidden": 8}) == "outputs/text/lstm,hidden=8,seed=7"
    assert set(parsed) == {"lstm,hidden=8,seed=7"}


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


def test_a_sweep_opens_each_run_beside_it_once_for_each_of_its_own_and_parses_none(monkeypatch: pytest.MonkeyPatch):
    opened, parsed, open_file, parse = [], [], io.open, yaml.reader.Reader.__init__
    monkeypatch.setattr(
        io, "open", lambda file, *how, **more: opened.append(Path(str(file))) or open_file(file, *how, **more)
    )
    monkeypatch.setattr(yaml.reader.Reader, "__init__", lambda reader, text: parsed.append(text) or parse(reader, text))

    def work(others: int) -> tuple[int, dict[str, int]]:
        """How many texts of YAML a sweep of two runs parses beside others, and how often it opens each of these."""
        config = "".join(run.joinpath("config.yaml").read_text() for run in runs()[:1])
        shutil.rmtree("outputs", ignore_errors=True)
        for number in range(others):  # those of a sweep before
            (run := Path(f"outputs/markov/other-{number}")).mkdir(parents=True)
            (run / "config.yaml").write_text(re.sub(r"(?m)^  seed: \d$", f"  seed: {number + 9}", config))
        opened.clear()
        parsed.clear()
        assert command("-m", *TEXT, *QUICK[-1:], *MODELS["ngram"], "corpus.seed=1,2").code == 0
        return len(parsed), Counter(file.parent.name for file in opened if file.match("other-*/config.yaml"))

    work(0)  # fills what later ones remember
    assert work(20) == (work(0)[0], {f"other-{number}": 2 for number in range(20)})


def test_options_without_effect_make_no_other_run():
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    swept = command("-m", *small, "seed=0,1", "model.order=1,2")
    assert "no effect with model=ngram, which draws no random numbers: seed" in swept.out
    assert "already finished" in command(*small, "model.pseudocount=2").out
    assert len(runs()) == 2
    assert len(Path("outputs/markov/sweep.csv").read_text().splitlines()) == 3


def test_a_run_of_before_with_options_without_effect_is_found_again():
    keep({"model.clustering": "uniform", "trainer.max_tokens": 9}, "outputs/text/lstm-abcdef")
    assert folder_of({}) == folder_of({"trainer.average_decay": 0.5}) == "outputs/text/lstm-abcdef"
    assert folder_of({"model.classes": 9}) != folder_of({"model.classes": 9, "model.clustering": "uniform"})
    assert folder_of({"corpus.context": "sentence"}) != "outputs/text/lstm-abcdef"


def test_a_preset_and_its_options_are_one_run(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def noted(options: dict[str, Any], _: list[str]) -> dict[str, Any]:
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


def test_a_run_of_before_is_found_again_and_measured(folder: Path):
    Path("text.txt").write_text("a b\n" * 9 + "a c\n")
    own = ["corpus=text", *(f"corpus.{split}=text.txt" for split in SPLITS), "device=cpu", *MODELS["ngram"]]
    old = "outputs/text/ngram,corpus.test=text.txt-model.order=2"
    assert command(*own, f"run_dir='{old}'").code == 0
    config = Path(old, "config.yaml")
    lines = [line for line in config.read_text().splitlines(True) if line != "  label: null\n"]
    config.write_text("".join(lines))
    age(Path(old))
    assert f"already finished: {old}" in command(*own).out
    assert evaluate(Path(old), "test", device="cpu")["perplexity"] == Run(Path(old)).results()["perplexity"]["test"]  # pyright: ignore


@pytest.mark.parametrize("ending", ["gz", "GZ", "zst"])
def test_a_packed_text_is_called_as_the_unpacked_one_and_found_where_it_was_before(folder: Path, ending: str):
    pack = gzip.compress if ending != "zst" else pytest.importorskip("backports.zstd").compress
    Path(packed := f"mine.txt.{ending}").write_bytes(pack(b"a b\n" * 9 + b"a c\n"))
    own = ["corpus=text", *(f"corpus.{split}={packed}" for split in SPLITS), "device=cpu", *MODELS["ngram"]]
    assert "ngram on mine (context stream)" in command(*own).out
    assert [run.parent.name for run in runs()] == ["mine"]
    before = Path("outputs/mine").rename("outputs/mine.txt")
    assert f"already finished: {before}" in command(*own).out


def test_a_number_names_one_run_however_it_is_written():
    assert folder_of({"trainer.clip": 5}) == folder_of({"trainer.clip": 5.0}) != folder_of({"trainer.clip": 5.5})
    keep({"trainer.clip": 5}, "outputs/text/mine")
    assert folder_of({"trainer.clip": 5.0}) == "outputs/text/mine"


def test_a_model_without_steps_does_not_start_from_a_run_without_a_word():
    assert command(*TEXT, *MODELS["ngram"]).code == 0
    refused = command(*TEXT, *MODELS["ngram"], "trainer.from=outputs/markov/none").refused()
    assert "trainer.from" in refused
