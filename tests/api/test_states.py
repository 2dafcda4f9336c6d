"""Hidden states of a line, against an enumeration of all paths, and a filter step by step."""

from itertools import product
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

import lmzoo
from lmzoo.api import Loaded
from lmzoo.core.errors import UserError
from lmzoo.models.lds.lds import LinearDynamicalSystem


@pytest.fixture(scope="module")
def folder_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def hmm(folder_of_runs: Path) -> Loaded:
    options = ["model=hmm", "model.states=3", "model.iterations=2", "device=cpu"]
    assert command(*TEXT, *options, f"run_dir={folder_of_runs / 'hmm'}").code == 0
    return lmzoo.load(folder_of_runs / "hmm")


def test_an_hmm_against_all_paths(hmm: Loaded):
    tokens = [3, 5, 4, 0]
    tables = hmm.model.tables()
    start, transition, emission = (part.double().exp() for part in (tables.start, tables.transition, tables.emission))
    joint = torch.zeros(*[3] * 4, dtype=torch.float64)
    upto = torch.zeros(4, 3, dtype=torch.float64)
    for path in product(range(3), repeat=4):
        p = start[path[0]] * emission[tokens[0], path[0]]
        if not any(path[1:]):
            upto[0, path[0]] += p
        for t in range(1, 4):
            p = p * transition[path[t - 1], path[t]] * emission[tokens[t], path[t]]
            if not any(path[t + 1 :]):
                upto[t, path[t]] += p
        joint[path] = p
    found = hmm.states(hmm.vocabulary.decode(tokens[:3]))
    assert found.words == [*hmm.vocabulary.decode(tokens[:3]).split(), "<eos>"]
    total = joint.sum()
    smoothed = torch.stack([joint.sum([d for d in range(4) if d != t]) / total for t in range(4)])
    torch.testing.assert_close(found.smoothed.double(), smoothed, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.filtered.double(), upto / upto.sum(1, keepdim=True), atol=1e-5, rtol=1e-4)
    assert found.path == [int(z) for z in torch.unravel_index(joint.argmax(), joint.shape)]
    assert found.path_share == pytest.approx(float(joint.max() / total), rel=1e-4)


def test_a_linear_system_step_by_step(folder_of_runs: Path):
    assert command(*TEXT, *QUICK, *MODELS["lds"], f"run_dir={folder_of_runs / 'lds'}").code == 0
    lds = lmzoo.load(folder_of_runs / "lds")
    model, tokens = lds.model, [3, 5, 4, 0]
    assert isinstance(model, LinearDynamicalSystem)
    f, filtered = model.gains[0], []
    for token in tokens:
        f = model.H @ f + model.gains[token]
        filtered.append(f)
    smoothed = [filtered[-1]]
    for each in filtered[-2::-1]:
        smoothed.insert(0, each + model.J @ (smoothed[0] - model.A @ each))
    found = lds.states(lds.vocabulary.decode(tokens[:3]))
    torch.testing.assert_close(found.filtered, torch.stack(filtered))
    torch.testing.assert_close(found.smoothed, torch.stack(smoothed), atol=1e-5, rtol=1e-4)
    assert found.path is found.path_share is None


def test_other_models_have_none(trigrams: Loaded, hmm: Loaded):
    with pytest.raises(UserError, match="the model has no hidden states to infer; give a hidden Markov model"):
        trigrams.states("the dog")
    with pytest.raises(UserError, match="is not one line of text"):
        hmm.states("a\nb")


def test_an_unknown_word_says_what_is_read_in_its_place(folder: Path):
    Path("text").write_text("the dog <unk>\na dog\n" * 20)
    text = ["corpus=text", "corpus.train=text", "corpus.valid=text", "corpus.context=sentence"]
    assert command(*text, *QUICK[-1:], "model=hmm", "model.states=3", "model.iterations=2", "run_dir=run").code == 0
    assert lmzoo.load("run").states("the zebra").words == ["the", "zebra→<unk>", "<eos>"]


def test_blocks_of_states_are_numbered_as_in_the_model(folder_of_runs: Path):
    assert command(*TEXT, *QUICK, *MODELS["vlhmm"], f"run_dir={folder_of_runs / 'vlhmm'}").code == 0
    lm = lmzoo.load(folder_of_runs / "vlhmm")
    found = lm.states(lm.vocabulary.decode([3, 5]))
    assert found.filtered.shape == found.smoothed.shape == (3, 24)
    assert found.smoothed.sum(1).tolist() == pytest.approx([1] * 3, rel=1e-4)
    assert found.path is not None
    assert all(found.smoothed[t, z] > 0 for t, z in enumerate(found.path))
    torch.testing.assert_close(found.filtered[-1], found.smoothed[-1])
