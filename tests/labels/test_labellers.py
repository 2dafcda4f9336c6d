"""What every labeller has to do: learn, go on where it stopped, and label with what another one has learnt."""

import math
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from lmzoo.core.configs import choices, defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, TrainedLabeller, decode, encode, labellers
from lmzoo.labels.trees import Tree, parsed
from lmzoo.training.labels import NetworkDescent, learner_of
from lmzoo.training.optimization import optimizers

ALL = choices("labeller")
NAMES = [name for name in ALL if labellers.entries[name].kind != "tree"]
AT_ONCE = ["hmm_tagger", "logistic_regression", "majority", "naive_bayes", "nbsvm", "pool"]
"""Those that learn as they read train; a run of theirs has nothing to go on with."""
SMALL = {
    "epochs": 20,
    "iterations": 6,
    "lr": 0.05,
    "dropout": 0.1,
    "unknown": 0.1,
    "hidden": 8,
    "embedding": 8,
    "filters": 8,
}
NEEDED = {
    "local": {"vectors": str(Path(__file__).parent / "vectors.txt"), "batch": 4},
    "pool": {"runs": ["crf", "birnn"]},
}
SENTENCES = [
    Sentence(words.split(), labels.split(), [[] for _ in words.split()])
    for words, labels in [
        ("The walk ends", "D N V"), ("they walk home", "P V N"), ("the 2 talks", "D C N"), ("They talk", "P V"),
        ("sending", "N"),
    ]
]  # fmt: skip
TEXTS = [Sentence(s.words, [s.labels[0]], s.features) for s in SENTENCES]
LINES = ["(3 (2 the) (4 (4 good) (2 film)))", "(1 (0 bad) (2 film))", "(4 good)"]
TREES = [Tree(words, labels, [], right) for words, labels, right in map(parsed, LINES)]


def shown(labeller: Labeller) -> list[Sentence]:
    """What the labeller is to learn."""
    return TEXTS if labeller.kind == "text" else SENTENCES


def options(name: str) -> dict[str, Any]:
    known = defaults("labeller", name)
    chosen = SMALL | NEEDED.get(name, {})
    return known | {key: value for key, value in chosen.items() if key in known}


def built(name: str) -> Labeller:
    return labellers.build(options(name))


def begun(name: str) -> Labeller:
    labeller = built(name)
    labeller.open_labeller = lambda option, folder: TrainedLabeller(folder, learnt(folder), options(folder), {})
    labeller.start(shown(labeller), seed=3)
    return labeller


@cache
def learnt(name: str) -> Labeller:
    labeller, number = begun(name), 0
    learner = learner_of(labeller)
    while number < labeller.steps:
        metrics = learner.step(number)
        assert all(isinstance(value, float) for value in metrics.values())
        number += 1
    return labeller


@pytest.mark.parametrize("name", NAMES)
def test_another_one_labels_alike_with_what_is_learnt(name: str):
    labeller = learnt(name)
    other = built(name)
    other.load_state_dict(deepcopy(labeller.state_dict()))
    texts = [*shown(labeller), Sentence(["An", "unseen", "walk", "27"], [], [[], [], [], []])]
    found = other.label(texts)
    assert found == labeller.label(texts)
    assert [len(row) for row in found] == [1 if labeller.kind == "text" else len(s.words) for s in texts]
    right = [
        a == b
        for row, sentence in zip(found, shown(labeller), strict=False)
        for a, b in zip(row, sentence.labels, strict=True)
    ]
    assert sum(right) >= 3 * len(right) // 4


@pytest.mark.parametrize("name", NAMES)
def test_the_labels_of_a_sentence_do_not_depend_on_the_others(name: str):
    labeller = learnt(name)
    assert labeller.label(SENTENCES[::-1])[::-1] == [labeller.label([sentence])[0] for sentence in SENTENCES]


def test_those_that_learn_at_once_take_no_steps():
    assert [name for name in NAMES if not begun(name).steps] == AT_ONCE


@pytest.mark.parametrize("name", sorted({*NAMES} - {*AT_ONCE}))
def test_learning_goes_on_bit_for_bit(name: str):
    resumed = begun(name)
    first, second = learner_of(begun(name)), learner_of(resumed)
    for number in range(2):
        first.step(number)
    second.restore(deepcopy(first.state()))
    torch.manual_seed(8)  # another process has other random numbers
    for number in range(2, learnt(name).steps):
        second.step(number)
    torch.testing.assert_close(resumed.state_dict(), learnt(name).state_dict(), rtol=0, atol=0)


NETWORKS = [("birnn", SENTENCES), ("local", SENTENCES), ("treelstm", TREES)]
OPTIMIZERS = ("adagrad", "adam", "adamw", "sgd")


def network(name: str, sentences: list[Sentence], optimizer: str, **chosen: object) -> Any:
    without_noise = {key: 0.0 for key in ("dropout", "unknown") if key in options(name)}
    labeller = labellers.build(options(name) | without_noise | {"optimizer": optimizer, **chosen})
    labeller.start(sentences, seed=3)
    return labeller


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("name", "sentences"), NETWORKS)
def test_each_optimizer_takes_the_step_of_its_paper(name: str, sentences: list[Sentence], optimizer: str):
    """Adam: Kingma & Ba (2015), algorithm 1; AdaGrad: Duchi et al. (2011). The first rates are those of the options."""
    labeller = network(name, sentences, optimizer)
    batch = labeller.order[1][0]
    weights = {key: value.detach().clone() for key, value in labeller.network.named_parameters()}
    loss, _ = labeller.loss(batch)
    loss.backward()
    parameters = dict(labeller.network.named_parameters())
    gradients = {key: parameter.grad for key, parameter in parameters.items() if parameter.grad is not None}
    norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
    learner_of(labeller).step(0)
    for key, gradient in gradients.items():
        g = gradient * min(1, labeller.clip / norm) if labeller.clip else gradient
        words = key == "embedding.weight" and name == "treelstm"
        if name == "treelstm" and not words and optimizer != "adamw":
            g = g + labeller.settings.l2 * weights[key]
        adam = g / (g.abs() + 1e-8)
        direction = {"sgd": g, "adam": adam, "adamw": adam, "adagrad": g / (g.abs() + 1e-10)}[optimizer]
        expected = weights[key] - (labeller.settings.lr_words if words else labeller.lr) * direction
        torch.testing.assert_close(parameters[key], expected, rtol=1e-4, atol=1e-5)
    assert any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("name", "sentences"), NETWORKS)
def test_each_optimizer_goes_on_bit_for_bit(name: str, sentences: list[Sentence], optimizer: str):
    labellers = [network(name, sentences, optimizer, average=0.5) for _ in range(2)]
    first, second = map(NetworkDescent, labellers)
    for number in range(6):
        first.step(number)
        if number == 2:
            second.restore(deepcopy(first.state()))
        if number > 2:
            second.step(number)
    one, other = (labeller.state_dict() for labeller in labellers)
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("option", ["optimizer", "schedule"])
def test_an_optimizer_or_schedule_that_is_not_there_is_refused(option: str):
    labeller = network("birnn", SENTENCES, **{"optimizer": "adam", option: "lbfgs"})
    with pytest.raises(UserError, match=rf"labeller: {option}.name=lbfgs: no such {option}"):
        NetworkDescent(labeller)


def test_a_labeller_learns_by_an_optimizer_of_one_s_own(monkeypatch: pytest.MonkeyPatch):
    """Groups of parameters keep their rates, and nothing but the rate has to be known of it."""

    def own(parameters: list[dict[str, Any]], *, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr)

    monkeypatch.setitem(optimizers.entries, "own", own)
    monkeypatch.setitem(optimizers.presets, "own", {})
    first, resumed, sgd = (network("treelstm", TREES, name) for name in ("own", "own", "sgd"))
    descents = [NetworkDescent(labeller) for labeller in (first, resumed, sgd)]
    for number in range(4):
        assert descents[0].step(number) == pytest.approx(descents[2].step(number))
        if number == 1:
            descents[1].restore(deepcopy(descents[0].state()))
        if number > 1:
            descents[1].step(number)
    torch.testing.assert_close(first.state_dict(), resumed.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(first.state_dict(), sgd.state_dict())


def test_the_rate_follows_its_schedule():
    labeller = network("birnn", SENTENCES, "sgd", schedule="cosine", lr=0.5)
    descent = NetworkDescent(labeller)
    rates = [descent.step(number)["train/learning_rate"] for number in range(labeller.steps)]
    assert rates == pytest.approx([(1 + math.cos(math.pi * n / len(rates))) / 4 for n in range(len(rates))])


def test_texts_are_packed():
    for value in (["ä", "", "b c"], [""], [], {"ä\n": [1, True]}):
        assert decode(encode(value)) == value


AVERAGED = [("birnn", SENTENCES), ("treelstm", TREES)]


@pytest.mark.parametrize(("name", "sentences"), AVERAGED)
def test_averaged_weights_label_and_are_kept_and_learning_goes_on_from_its_own(name: str, sentences: list[Sentence]):
    """Beside an average that is written out; as `Average` does, the first steps have a shorter memory."""

    def begun(average: float | None) -> Any:
        labeller = labellers.build(options(name) | {"average": average})
        labeller.start(sentences, seed=3)
        return labeller

    plain, model, resumed = begun(None), begun(0.6), begun(0.6)
    descents = [NetworkDescent(labeller) for labeller in (plain, model, resumed)]
    expected: dict[str, torch.Tensor] = {}
    for number in range(15):
        for descent in descents[:2]:
            descent.step(number)
        decay = min(0.6, (number + 1) / (number + 10))
        for key, value in plain.network.state_dict().items():
            expected[key] = decay * expected.get(key, value) + (1 - decay) * value
        if number == 5:
            descents[2].restore(deepcopy(descents[1].state()))
        if number > 5:
            descents[2].step(number)
    torch.testing.assert_close(model.network.state_dict(), plain.network.state_dict(), rtol=0, atol=0)
    with descents[1].optimization.average.in_place(), descents[2].optimization.average.in_place():
        kept = model.state_dict()
        torch.testing.assert_close(dict(model.network.state_dict()), expected)
        torch.testing.assert_close(resumed.state_dict(), kept, rtol=0, atol=0)
    averaged = begun(None)
    averaged.load_state_dict(kept)
    torch.testing.assert_close(dict(averaged.network.state_dict()), expected)
