"""A logarithmic opinion pool beside the product of all labellings' probabilities."""

import sys
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from command_line import command

from lmzoo.commands import label, tag
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.linear_chain import ChainLabeller
from lmzoo.labels.model import Labeller, TrainedLabeller, labellers
from lmzoo.labels.pool import Pool
from lmzoo.training.labels import learner_of

ROWS = ["a/X b/Y c/Z", "b/X b/Y", "c/Y a/X a/Y c/Z", "a/Y"]
OPTIONS = {
    "crf": {"iterations": 20},
    "birnn": {"hidden": 6, "embedding": 5, "filters": 4, "crf": True, "epochs": 3, "lexical": 1},
    "perceptron": {},
    "majority": {},
}


def sentences(rows: list[str]) -> list[Sentence]:
    found = []
    for line in rows:
        words, labels = zip(*(pair.split("/") for pair in line.split()), strict=True)
        found.append(Sentence(list(words), list(labels), [[] for _ in words]))
    return found


def learnt(name: str, rows: list[str] = ROWS, **options: object) -> TrainedLabeller:
    chosen = defaults("labeller", name) | OPTIONS[name] | options
    model: Labeller = labellers.build(chosen)
    model.start(sentences(rows), seed=0)
    learner = learner_of(model)
    for number in range(model.steps):
        learner.step(number)
    return TrainedLabeller(f"runs/{name}", model, chosen, {})


def pooled(*parts: TrainedLabeller) -> Pool:
    pool: Pool = labellers.build({"name": "pool", "runs": [part.folder for part in parts]})
    pool.open_labeller = lambda option, folder: next(part for part in parts if part.folder == folder)
    pool.start([], seed=0)
    return pool


@pytest.fixture(scope="module")
def parts() -> list[TrainedLabeller]:
    """Of which the second one has its labels in another order."""
    found = [learnt("crf"), learnt("birnn")]
    network = found[1].labeller
    assert isinstance(network, ChainLabeller)
    network.labels = network.labels[::-1]
    return found


def all_logprobs(model: ChainLabeller, sentence: Sentence) -> dict[tuple[str, ...], float]:
    """Those of all labellings, by the scores of each one."""
    scores = model.scores([sentence])
    found = {}
    for path in product(range(len(model.labels)), repeat=len(sentence.words)):
        value = scores.start[path[0]] + sum(scores.moves[a, b] for a, b in pairwise(path))
        value += sum(scores.emission[0, t, k] for t, k in enumerate(path))
        found[tuple(model.labels[k] for k in path)] = float(value)
    total = float(torch.tensor([*found.values()]).logsumexp(0))
    return {path: value - total for path, value in found.items()}


def test_a_labelling_has_the_product_of_its_probabilities(parts: list[TrainedLabeller]):
    pool = pooled(*parts)
    for sentence in sentences(ROWS):
        each = [all_logprobs(part.labeller, sentence) for part in parts if isinstance(part.labeller, ChainLabeller)]
        product_ = {path: sum(table[path] for table in each) / 2 for path in each[0]}
        total = float(torch.tensor([*product_.values()]).logsumexp(0))
        found = all_logprobs(pool, sentence)
        assert found == pytest.approx({path: value - total for path, value in product_.items()}, abs=1e-4)
        best = max(found, key=found.__getitem__)
        assert pool.label([sentence]) == [[*best]]
        assert abs(each[0][best] - each[1][best]) > 1e-3


def test_a_pool_of_one_is_that_one(parts: list[TrainedLabeller]):
    crf = parts[0].labeller
    assert isinstance(crf, ChainLabeller)
    for sentence in sentences(ROWS):
        assert all_logprobs(pooled(parts[0]), sentence) == all_logprobs(crf, sentence)


def test_a_pool_has_its_parts_in_what_it_has_learnt():
    pool = pooled(learnt("crf"), pooled_as_part())
    other: Pool = labellers.build({"name": "pool", "runs": ["gone"]})
    other.load_state_dict(pool.state_dict())
    for sentence in sentences(ROWS):
        assert all_logprobs(other, sentence) == all_logprobs(pool, sentence)


def pooled_as_part() -> TrainedLabeller:
    pool = pooled(learnt("birnn"), learnt("crf", l2=3.0))
    return TrainedLabeller("runs/pool", pool, {"name": "pool", "runs": ["runs/birnn", "runs/crf"]}, {})


@pytest.mark.parametrize("name", ["perceptron", "majority"])
def test_what_has_no_probabilities_is_refused(name: str):
    with pytest.raises(UserError, match=rf"labeller.runs: runs/{name} has no probabilities .*; name runs of"):
        pooled(learnt("crf"), learnt(name))


def test_other_labels_are_refused():
    with pytest.raises(UserError, match=r"labeller.runs: runs/birnn has other labels than runs/crf; name runs of one"):
        pooled(learnt("crf"), learnt("birnn", [row.replace("Z", "W") for row in ROWS]))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("he P B-NP\nwalks V B-VP\n\na D B-NP\nwalk N I-NP\nends V B-VP\n\n" * 2)
    for name in ("crf", "birnn"):
        options = [f"labeller.{key}={value}" for key, value in OPTIONS[name].items()]
        assert command(*TASK, f"labeller={name}", *options, f"run_dir={name}", main=label.main).code == 0


TASK = ["task=chunk", "task.scheme=iobes", "task.train=t.txt", "task.valid=null", "task.test=t.txt"]


@pytest.mark.usefixtures("runs")
def test_the_command_pools_runs():
    done = command(*TASK, "labeller=pool", "labeller.runs=[crf,birnn]", "run_dir=pool", main=label.main)
    assert "pool on chunk: test f1 100.00" in done.out, done
    Path("crf/best.pt").unlink()
    assert command("pool", "t.txt", main=tag.main).out == Path("t.txt").read_text()
    refused = command(*TASK, "labeller=pool", "labeller.runs=[crf]", "run_dir=s", main=label.main).refused()
    assert "labeller.runs: crf: has no best.pt yet; choose another run" in refused
    refused = command(*TASK, "labeller=pool", "run_dir=s", main=label.main).refused()
    assert "labeller.runs=[]: a pool needs trained runs; set 'labeller.runs=[FOLDER,FOLDER]'" in refused
    refused = command(
        *TASK, "task.scheme=null", "labeller=pool", "labeller.runs=[birnn]", "run_dir=s", main=label.main
    ).refused()
    assert "birnn has task.scheme=iobes, and here it is null; repeat its options of task" in refused


PLUGIN = """
from lmzoo.labels.crf import Crf
from lmzoo.labels.model import labellers

labellers.register("mine")(type("Mine", (Crf,), {}))
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_labeller.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "plugins=[own_labeller]"
    forget()


def forget() -> None:
    """As in a process that has not imported the plugin."""
    labellers.entries.pop("mine", None)
    sys.modules.pop("own_labeller", None)


@pytest.mark.usefixtures("runs")
def test_a_pool_has_the_plugins_of_its_runs(plugin: str):
    mine = ["labeller=crf", "labeller.name=mine", "labeller.iterations=20", plugin, "run_dir=mine"]
    assert command(*TASK, *mine, main=label.main).code == 0
    given = [*TASK, "labeller=pool", "labeller.runs=[mine,birnn]", "run_dir=pool"]
    refused = command(*given, main=label.main).refused()
    assert "labeller.runs: mine needs plugins; add own_labeller to plugins" in refused
    assert command(*given, plugin, main=label.main).code == 0
    forget()
    assert "labeller.runs: mine: needs the plug-in own_labeller" in (
        command(*given[:-1], "run_dir=other", main=label.main).refused()
    )
    assert command("pool", "t.txt", "--plugins", "own_labeller", main=tag.main).out == Path("t.txt").read_text()


@pytest.mark.usefixtures("runs")
def test_a_pool_says_which_of_its_runs_are_unfinished():
    Path("crf/results.json").unlink()
    done = command(*TASK, "labeller=pool", "labeller.runs=[crf,birnn]", "run_dir=pool", main=label.main)
    assert "crf: its training is not finished; these are the best weights so far" in Path("pool/train.log").read_text()
    assert done.code == 0
