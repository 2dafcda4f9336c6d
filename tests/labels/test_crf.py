"""The conditional random field beside the definition of its loss, and where L-BFGS ends."""

from itertools import pairwise, product
from pathlib import Path

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.crf import Crf
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import templates
from lmzoo.labels.model import labellers


def sentences() -> list[Sentence]:
    found = []
    for line in ["a/X b/Y c/Z", "b/X b/Y", "c/Y a/X a/Y c/Z", "a/Y"]:
        words, labels = zip(*(pair.split("/") for pair in line.split()), strict=True)
        found.append(Sentence(list(words), list(labels), [[] for _ in words]))
    return found


def begun(**options: object) -> Crf:
    chosen = {"l2": 0.5, "tolerance": 0.0, "iterations": 200} | options
    model: Crf = labellers.build(defaults("labeller", "crf") | chosen)
    model.start(sentences(), seed=0)
    return model


def learnt(model: Crf) -> Crf:
    number = 0
    while number < model.steps:
        model.step(number)
        number += 1
    return model


def log_probability(model: Crf, tables: tuple[torch.Tensor, ...], sentence: Sentence) -> torch.Tensor:
    """log p(y | x) from the features, all labels of a sentence enumerated."""
    features, dense, moves, start = tables
    numbers = [[model.lexical.numbers[name] for name in names] for names in templates(sentence, {})]
    vectors = model.dense.rows([sentence]).to(dense.dtype)

    def score(path: tuple[int, ...]) -> torch.Tensor:
        parts = [features[row, k].sum() for row, k in zip(numbers, path, strict=True)]
        parts += [vector @ dense[:, k] for vector, k in zip(vectors, path, strict=True)]
        return sum(parts, start[path[0]]) + sum(moves[i, j] for i, j in pairwise(path))

    every = {path: score(path) for path in product(range(3), repeat=len(numbers))}
    gold = tuple(model.labels.index(label) for label in sentence.labels)
    return every[gold] - torch.stack([*every.values()]).logsumexp(0)


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    (tmp_path / "v.txt").write_text("2 2\na 1 2\nb -1 0.5\n")
    return str(tmp_path / "v.txt")


@pytest.mark.parametrize("dense", [0, 6])
def test_the_loss_and_its_gradient_are_those_of_the_definition(vectors: str, dense: int):
    model = begun(vectors=vectors, window=1) if dense else begun()
    x = torch.randn(len(model.curvature), generator=torch.Generator().manual_seed(0))
    value, gradient = model.objective(x)
    leaf = x.double().requires_grad_()
    features, *others = leaf.split([len(model.pairs), 3 * dense, 9, 3])
    table = torch.zeros(len(model.lexical.numbers) * 3, dtype=torch.float64).index_put((model.pairs,), features)
    tables = (table.view(-1, 3), others[0].view(dense, 3), others[1].view(3, 3), others[2])
    loss = 0.5 * leaf.square().sum() - sum(log_probability(model, tables, sentence) for sentence in sentences())
    assert value == pytest.approx(float(loss.detach()), rel=1e-5)
    loss.backward()
    assert leaf.grad is not None
    assert torch.allclose(gradient.double(), leaf.grad, atol=1e-4)


def test_weights_of_features_are_those_of_labels_seen_with_them():
    model = begun()
    rows = [row for s in sentences() for row in zip(templates(s, {}), s.labels, strict=True)]
    seen = {(model.lexical.numbers[name], model.labels.index(label)) for names, label in rows for name in names}
    assert [divmod(place, 3) for place in model.pairs.tolist()] == sorted(seen)


def test_learning_ends_where_the_gradient_is_zero_and_knows_its_text():
    model = learnt(begun(l2=0.01))
    assert model.search.point.gradient.norm() < 1e-2
    assert model.steps < 200
    assert model.label(sentences()) == [sentence.labels for sentence in sentences()]


def test_one_small_step_alone_does_not_end_learning(monkeypatch: pytest.MonkeyPatch):
    model = begun(tolerance=0.1)
    loss = model.search.point.value
    decreases = iter([loss, 0.0, 0.0, loss, 0.0, 0.0])
    monkeypatch.setattr(model.search, "step", lambda: next(decreases))
    for number in range(6):
        model.step(number)
    again = begun(tolerance=0.1)
    again.restore(model.state())
    monkeypatch.setattr(again.search, "step", lambda: 0.0)
    assert again.steps == 200
    again.step(6)
    assert again.steps == 7


def test_learning_goes_on_bit_for_bit_also_after_its_end():
    whole, first, second = begun(), begun(), begun()
    for number in range(7):
        first.step(number)
    second.restore(first.state())
    second.steps = whole.steps = 15
    for number in range(15):
        whole.step(number)
        if number >= 7:
            second.step(number)
    for name, tensor in whole.state().items():
        assert torch.equal(second.state()[name], tensor), name
    ended, again = learnt(begun(tolerance=0.1)), begun(tolerance=0.1)
    again.restore(ended.state())
    assert again.steps == ended.steps


def test_what_is_learnt_holds_vectors_and_clusters(tmp_path: Path, vectors: str):
    """Only its vector and its path tell that d is as a is."""
    clusters = tmp_path / "paths"
    clusters.write_text("010\ta\t1\n010\td\t1\n111\tb\t1\n")
    Path(vectors).write_text("2 2\na 1 2\nd 1 2\n")
    new, other_word = [Sentence(["d"], [], [[]])], [Sentence(["e"], [], [[]])]
    plain = learnt(begun(l2=0.1))
    assert torch.equal(plain.scores(new).emission, plain.scores(other_word).emission)
    for options in ({"vectors": vectors}, {"clusters": str(clusters)}):
        model = learnt(begun(l2=0.1, **options))
        scores = model.scores(new).emission
        assert not torch.allclose(scores, model.scores(other_word).emission, atol=0.1)
        other: Crf = labellers.build(defaults("labeller", "crf") | options)
        other.load_state_dict(model.state_dict())
        assert torch.equal(other.scores(new).emission, scores)


def test_clusters_that_have_no_word_of_train_are_refused(tmp_path: Path):
    (tmp_path / "paths").write_text("010\tnever\t1\n1\t<unk>\t1\n")
    with pytest.raises(UserError, match=r"labeller.clusters: .*paths has none of the words of train"):
        begun(clusters=str(tmp_path / "paths"))


def test_too_rare_features_are_reported():
    with pytest.raises(UserError, match="min_count=100: no feature has this count"):
        begun(min_count=100)
