"""Folders of runs: names that tell runs apart, and runs found again under whatever name they have."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, TEXT, command
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from lmzoo.commands.evaluate import evaluate
from lmzoo.core.configs import defaults
from lmzoo.corpus.corpus import SPLITS
from lmzoo.runs.directory import Run
from lmzoo.runs.naming import LONGEST_NAME, run_folder, telling
from lmzoo.runs.settings import flatten

USUAL = {
    "seed": 0,
    "device": "auto",
    "plugins": [],
    "corpus": defaults("corpus", "text") | {"seed": 0},
    "model": {"name": "toy", "hidden": 200, "tied": True, "prune": [], "runs": []},
    "optimizer": {"lr": 0.003},
}


def config(changes: dict[str, Any]) -> dict[str, Any]:
    """The usual options but for some."""
    options = {group: dict(part) if isinstance(part, dict) else part for group, part in USUAL.items()}
    for key, value in changes.items():
        group, _, name = key.rpartition(".")
        (options[group] if group else options)[name] = value
    return options


def folder_of(changes: dict[str, Any], *varied: str) -> str:
    options = config(changes)
    return str(run_folder(options, telling(flatten(options), flatten(USUAL), varied)))


def keep(changes: dict[str, Any], folder: str) -> None:
    """A run of a configuration, as far as its folder matters."""
    Path(folder).mkdir(parents=True)
    (Path(folder) / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config(changes))))


pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(
    ("changes", "varied", "expected"),
    [
        ({}, [], "text/toy"),
        ({"seed": 1, "optimizer.lr": 0.01}, [], "text/toy,lr=0.01,seed=1"),
        ({"seed": 1, "model.hidden": 8}, ["seed"], "text/toy,seed=1,hidden=8"),
        ({"model.hidden": 8}, ["seed", "optimizer.lr"], "text/toy,lr=0.003,seed=0,hidden=8"),
        ({"corpus.seed": 1, "model.tied": False}, [], "text/toy,tied=false,corpus.seed=1"),
        ({"model.prune": [0, 0, 1], "device": "cpu"}, [], "text/toy,prune=0-0-1"),
        ({"corpus.train": "/a/ewt.txt", "model.runs": ["a/b"]}, [], "ewt/toy"),
        ({"corpus.train": "/a/ewt.train.txt", "corpus.label": "ewt"}, [], "ewt/toy"),
        ({"corpus.label": "../a b"}, [], "-a-b/toy"),
        ({"model.hidden": None}, [], "text/toy,hidden=null"),
    ],
)
def test_a_name_holds_what_is_unlike_the_defaults(changes, varied, expected):
    assert folder_of(changes, *varied) == f"outputs/{expected}"


def test_paths_that_vary_are_told_apart_by_a_hash():
    first, second = (folder_of({"model.runs": [path]}, "model.runs") for path in ("a/b", "a/c"))
    assert first != second
    assert len(first) == len(second) == len("outputs/text/toy,runs=") + 6


def test_a_hash_is_added_where_another_configuration_has_the_folder():
    first, second, third = ({"corpus.train": f"/{where}/train.txt"} for where in "abc")
    keep(first, "outputs/train/toy")
    assert folder_of(first) == "outputs/train/toy"
    other = folder_of(second)
    assert other.startswith("outputs/train/toy-")
    assert len(other) == len("outputs/train/toy-") + 8
    keep(second, other)
    assert folder_of(second) == other
    assert folder_of(third) not in ("outputs/train/toy", other)


def test_the_same_configuration_is_found_under_any_name():
    for seed in (1, 2):
        keep({"seed": seed, "model.hidden": 8}, f"outputs/text/toy,model.hidden=8,seed={seed}")
    for varied in ([], ["seed"]):
        assert folder_of({"model.hidden": 8, "seed": 1}, *varied) == "outputs/text/toy,model.hidden=8,seed=1"
    labelled = {"corpus.label": "mine", "seed": 2, "model.hidden": 8}
    assert folder_of(labelled) == "outputs/text/toy,model.hidden=8,seed=2"
    assert folder_of({"seed": 3, "model.hidden": 8}, "seed") == "outputs/text/toy,seed=3,hidden=8"


def test_long_names_keep_what_varies():
    long = {f"model.option{i}": i for i in range(40)}
    name = Path(folder_of(long, "seed")).name
    assert name.startswith("toy,seed=0,option0=0,option1=1,")
    assert 80 < len(name) <= LONGEST_NAME
    assert name != Path(folder_of(long | {"model.option39": 0}, "seed")).name


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.floats(0, 1), st.text("a/-,.=", min_size=1, max_size=3),
    st.lists(st.integers(-1, 1), max_size=2),
)  # fmt: skip
KEYS = ["seed", "corpus.train", "corpus.seed", "model.hidden", "model.tied", "model.prune", "optimizer.lr"]


@settings(deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2), min_size=2, max_size=4))
def test_two_configurations_never_share_a_folder_and_each_has_one_alone(several):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.chdir(place)
        folders: dict[str, dict[str, Any]] = {}
        for changes in [*several, *reversed(several)]:
            for varied in ([], list(changes)):
                folder = folder_of(changes, *varied)
                assert folders.setdefault(folder, config(changes)) == config(changes)
                if not Path(folder).exists():
                    keep(changes, folder)
        distinct = [options for i, options in enumerate(folders.values()) if options not in list(folders.values())[:i]]
        assert len(distinct) == len(folders)


def runs() -> list[tuple[str, str]]:
    """The corpus and the name of every run."""
    return sorted(file.parent.parts[-2:] for file in Path("outputs").rglob("config.yaml"))  # pyright: ignore


def test_a_sweep_and_a_single_command_share_a_run():
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    assert command("-m", *small, "seed=1,0").code == 0
    told = "order=2,states=4,test=60,train=400,valid=60,words=20"
    assert runs() == [("markov", f"ngram,seed={seed},{told}") for seed in (0, 1)]
    outcome = command(*reversed(small), "seed=1", "model.smoothing=modified_kneser_ney")
    assert "already finished" in outcome.out
    assert len(runs()) == 2


def test_choices_are_told_and_not_what_they_mean(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def noted(options: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        seen.append((options["run_dir"], told))
        return {"perplexity": {"valid": 1.0, "test": 1.0}}

    monkeypatch.setattr("lmzoo.training.session.train", noted)
    options = ["experiment=vlhmm_markov", "trainer=debug", "optimizer=sgd", "schedule=cosine", "seed=2", "device=cpu"]
    told = {"experiment": "vlhmm_markov", "model.states": 16, "optimizer": "sgd", "seed": 2, "trainer": "debug"}
    assert command(*options, "corpus.words=50", "corpus.train=400", "model.states=16").code == 0
    name = "vlhmm,experiment=vlhmm_markov,model.states=16,optimizer=sgd,seed=2,trainer=debug,train=400"
    assert seen == [(f"outputs/markov/{name}", told | {"train": 400})]


def test_runs_of_two_texts_of_ones_own_lie_apart(folder: Path):
    Path("ewt.txt").write_text("a b\n" * 9 + "a c\n")
    own = ["corpus=text", "corpus.valid=ewt.txt", "corpus.test=ewt.txt", "device=cpu", *MODELS["ngram"]]
    assert command(*own, "corpus.train=ewt.txt").code == 0
    outcome = command(*own, f"corpus.train={folder}/ewt.txt", "corpus.label=mine")
    assert "ngram on mine (context stream)" in outcome.out
    name = "ngram,order=2"
    assert runs() == [("ewt", name), ("mine", name)]
    assert json.loads(Path("outputs/ewt", name, "results.json").read_text())["corpus"] == "ewt"


def test_a_run_of_before_is_found_again_and_measured(folder: Path):
    Path("text.txt").write_text("a b\n" * 9 + "a c\n")
    own = ["corpus=text", *(f"corpus.{split}=text.txt" for split in SPLITS), "device=cpu", *MODELS["ngram"]]
    old = "outputs/text/ngram,corpus.test=text.txt-model.order=2"
    assert command(*own, f"run_dir='{old}'").code == 0
    config = Path(old, "config.yaml")
    lines = [line for line in config.read_text().splitlines(True) if line != "  label: null\n"]
    config.write_text("".join(lines))
    assert f"already finished: {old}" in command(*own).out
    assert evaluate(Path(old), "test", device="cpu")["perplexity"] == Run(Path(old)).results()["perplexity"]["test"]  # pyright: ignore
