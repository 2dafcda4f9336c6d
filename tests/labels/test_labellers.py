"""What every labeller has to do: learn, go on where it stopped, and label with what another one has learnt."""

import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from lmzoo.core import memory
from lmzoo.core.configs import CONFIGS, defaults
from lmzoo.core.errors import UserError, one_line
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, Opener, TrainedLabeller, labellers, packed, unpacked
from lmzoo.labels.trees import Tree, parsed
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import restore

ALL = sorted(path.stem for path in (CONFIGS / "labeller").glob("*.yaml"))
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


class Learnt(Opener):
    """Opens a labeller by its name."""

    def labeller(self, option: str, folder: str) -> TrainedLabeller:
        return TrainedLabeller(folder, learnt(folder), options(folder), {})


def begun(name: str) -> Labeller:
    labeller = built(name)
    labeller.opener = Learnt()
    labeller.start(shown(labeller), seed=3)
    return labeller


@cache
def learnt(name: str) -> Labeller:
    labeller, number = begun(name), 0
    while number < labeller.steps:
        metrics = labeller.step(number)
        assert all(isinstance(value, float) for value in metrics.values())
        number += 1
    return labeller


@pytest.mark.parametrize("name", NAMES)
def test_another_one_labels_alike_with_what_is_learnt(name: str):
    labeller = learnt(name)
    other = built(name)
    other.load_state_dict({key: value.clone() for key, value in labeller.state_dict().items()})
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


@pytest.mark.parametrize(("name", "size"), [("birnn", "hidden"), ("recursive", "embedding"), ("treelstm", "embedding")])
def test_a_network_that_is_larger_than_its_checkpoint_is_not_built(
    name: str, size: str, monkeypatch: pytest.MonkeyPatch
):
    labeller = built(name)
    labeller.start(TREES if labeller.kind == "tree" else SENTENCES, seed=3)
    larger = labellers.build(options(name) | {size: 20_000})

    def embedding(self: Any, *arguments: Any, **options: Any) -> None:
        assert torch.empty(0).device.type == "meta", "it would take memory"
        made(self, *arguments, **options)

    made = torch.nn.Embedding.__init__
    monkeypatch.setattr(torch.nn.Embedding, "__init__", embedding)
    with pytest.raises(RuntimeError, match="size mismatch"):
        larger.load_state_dict(labeller.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_the_labels_of_a_sentence_do_not_depend_on_the_others(name: str):
    labeller = learnt(name)
    assert labeller.label(SENTENCES[::-1])[::-1] == [labeller.label([sentence])[0] for sentence in SENTENCES]


def test_those_that_learn_at_once_take_no_steps():
    assert [name for name in NAMES if not begun(name).steps] == AT_ONCE


@pytest.mark.parametrize("name", sorted({*NAMES} - {*AT_ONCE}))
def test_learning_goes_on_bit_for_bit(name: str):
    first, second = begun(name), begun(name)
    for number in range(2):
        first.step(number)
    second.resume({key: value.clone() for key, value in first.progress().items()})
    torch.manual_seed(8)  # another process has other random numbers
    for number in range(2, learnt(name).steps):
        second.step(number)
    for key, value in learnt(name).state_dict().items():
        assert torch.equal(second.state_dict()[key], value), key


NETWORKS = [("birnn", SENTENCES), ("local", SENTENCES), ("treelstm", TREES)]
OPTIMIZERS = ("adagrad", "adam", "sgd")


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
    batch = labeller.batches_of(0)[0]
    weights = {key: value.detach().clone() for key, value in labeller.network.named_parameters()}
    loss, _ = labeller.loss(batch)
    loss.backward()
    parameters = dict(labeller.network.named_parameters())
    gradients = {key: parameter.grad for key, parameter in parameters.items() if parameter.grad is not None}
    norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
    labeller.step(0)
    for key, gradient in gradients.items():
        g = gradient * min(1, labeller.clip / norm) if labeller.clip else gradient
        words = key == "embedding.weight" and name == "treelstm"
        if name == "treelstm" and not words:
            g = g + labeller.l2 * weights[key]
        direction = {"sgd": g, "adam": g / (g.abs() + 1e-8), "adagrad": g / (g.abs() + 1e-10)}[optimizer]
        expected = weights[key] - (labeller.lr_words if words else labeller.lr) * direction
        torch.testing.assert_close(parameters[key], expected, rtol=1e-4, atol=1e-5)
    assert any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("name", "sentences"), NETWORKS)
def test_each_optimizer_goes_on_bit_for_bit(name: str, sentences: list[Sentence], optimizer: str):
    first, second = (network(name, sentences, optimizer, average=0.5) for _ in range(2))
    for number in range(6):
        first.step(number)
        if number == 2:
            second.resume({key: value.clone() for key, value in first.progress().items()})
        if number > 2:
            second.step(number)
    for key, value in first.state_dict().items():
        assert torch.equal(second.state_dict()[key], value), key


@pytest.mark.parametrize("name", ["birnn", "local", "rntn"])
def test_an_optimizer_that_is_not_there_is_refused(name: str):
    with pytest.raises(UserError, match=r"labeller.optimizer=lbfgs: must be one of adagrad, adam, sgd"):
        labellers.build(options(name) | {"optimizer": "lbfgs"})


def test_texts_are_packed():
    assert unpacked(packed(["ä", "", "b c"])) == ["ä", "", "b c"]
    assert unpacked(packed([""])) == [""]


AVERAGED = [("birnn", SENTENCES), ("treelstm", TREES)]


@pytest.mark.parametrize(("name", "sentences"), AVERAGED)
def test_averaged_weights_label_and_are_kept_and_learning_goes_on_from_its_own(name: str, sentences: list[Sentence]):
    """Beside an average that is written out; as `Average` does, the first steps have a shorter memory."""

    def begun(average: float | None) -> Any:
        labeller = labellers.build(options(name) | {"average": average})
        labeller.start(sentences, seed=3)
        return labeller

    plain, model, resumed = begun(None), begun(0.6), begun(0.6)
    expected: dict[str, torch.Tensor] = {}
    for number in range(15):
        for labeller in (plain, model):
            labeller.step(number)
        decay = min(0.6, (number + 1) / (number + 10))
        for key, value in plain.network.state_dict().items():
            expected[key] = decay * expected.get(key, value) + (1 - decay) * value
        if number == 5:
            resumed.resume({key: value.clone() for key, value in model.progress().items()})
        if number > 5:
            resumed.step(number)
    kept = {
        key.removeprefix("network."): value for key, value in model.state_dict().items() if key in plain.state_dict()
    }
    for key, value in expected.items():
        torch.testing.assert_close(kept[key], value)
        assert torch.equal(model.network.state_dict()[key], plain.network.state_dict()[key])
        assert torch.equal(resumed.state_dict()[f"network.{key}"], kept[key])
    averaged = begun(None)
    averaged.load_state_dict(model.state_dict())
    torch.testing.assert_close(averaged.network.state_dict(), expected)
    assert averaged.label(sentences) == model.label(sentences)
    seen = []
    model.network.register_forward_pre_hook(
        lambda network, _: seen.append({key: value.clone() for key, value in network.state_dict().items()})
    )
    model.label(sentences)
    torch.testing.assert_close(seen[0], expected)
    model.load_state_dict(averaged.state_dict())
    assert model.average is None


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("crf", "moves", torch.full((5, 5), torch.nan), "weights of moves are no numbers"),
        ("crf", "place", torch.tensor([10**9]), "shape mismatch"),
        ("hmm_tagger", "words", packed(["a", "a"]), "out of bounds"),
        ("majority", "labels", packed(["N"]), r"zip\(\) argument 2 is shorter"),
        ("majority", "labels", torch.full((9,), 200, dtype=torch.uint8), "UnicodeDecodeError"),
        ("birnn", "network.output.bias", None, 'Missing key.s. in state_dict: "output.bias"'),
    ],
)
def test_what_another_labeller_has_saved_is_refused(name: str, key: str, value: torch.Tensor | None, message: str):
    saved = {k: v for k, v in (dict(learnt(name).state_dict()) | {key: value}).items() if v is not None}
    with pytest.raises(UserError, match=message) as refused:
        restore(Run(Path("r")), "best.pt", saved, built(name).load_state_dict)
    assert len(one_line(refused.value)) <= 300


def test_scores_that_are_infinite_give_no_labels():
    """Or the best labels would be any."""
    saved = dict(learnt("birnn").state_dict())
    model = built("birnn")
    model.load_state_dict(saved | {"network.output.bias": torch.full_like(saved["network.output.bias"], torch.inf)})
    with pytest.raises(UserError, match="scores of labels are no numbers"):
        model.label(SENTENCES)


@pytest.mark.parametrize("name", ["hmm_tagger", "crf", "perceptron", "birnn"])
def test_tables_that_the_machine_cannot_hold_are_refused_with_their_size(name: str, monkeypatch: pytest.MonkeyPatch):
    """As where words were taken for labels."""
    words = [f"w{i}" for i in range(2000)]
    sentence = Sentence(words, [f"L{i}" for i in range(2000)], [[] for _ in words])
    monkeypatch.setattr(memory, "total", lambda: 1 << 25)
    tracemalloc.start()
    try:
        with pytest.raises(
            UserError, match=r"(2,000 labels|2,000 states).* need [\d,.]+ GiB, and the machine has 0.0; is task.label"
        ):
            built(name).start([sentence], 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()
    built(name).start(SENTENCES, 0)
