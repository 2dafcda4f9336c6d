"""Each regulariser of recurrent networks against what it says."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from layers import watched
from test_recurrent import KINDS, SMALL, cell

from lmzoo.core.errors import UserError
from lmzoo.models.neural.recurrent import LSTM, Recurrent
from lmzoo.models.neural.regularisers import drop_words

TOKENS = torch.tensor([[1, 2, 3, 1, 5, 1], [4, 4, 2, 0, 1, 3]])


def lstm(**changed: Any) -> LSTM:
    torch.manual_seed(0)
    return LSTM(**SMALL | changed)


def scores(model: LSTM, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    with torch.no_grad():
        return model(TOKENS, model.initial_state(2))[0]


@pytest.mark.parametrize(("kind", "constructor"), KINDS)
def test_layers_of_other_sizes_and_residual_ones_follow_the_equations(kind: str, constructor: Callable[..., Recurrent]):
    torch.manual_seed(0)
    options = SMALL | {"embedding": 4, "hidden": 4, "layers": 3, "last": 3, "residual": True}
    model, sizes = constructor(**options).double(), [4, 4, 3]
    h, c = ([torch.zeros(size).double() for size in sizes] for _ in range(2))
    tokens, previous, expected = [3, 1, 4, 0, 5], 0, []
    for token in tokens:
        x = model.embedding.weight[previous]
        for layer, size in enumerate(sizes):
            layers = model.recurrent.cells[layer]
            weights = [getattr(layers, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            h[layer], c[layer] = cell(kind, x, h[layer], c[layer], *weights)
            x = h[layer] + x if size == len(x) else h[layer]
        logits = model.output.weight @ x + model.output.bias
        expected.append(logits[token] - logits.logsumexp(0))
        previous = token
    found, after = model(torch.tensor([tokens]), model.initial_state(1))
    torch.testing.assert_close(found[0].double(), torch.stack(expected), atol=1e-6, rtol=0)
    torch.testing.assert_close(after[1][0], torch.cat(h))


def test_locked_dropout_is_before_between_and_after_the_layers_with_their_own_rates():
    model = lstm(locked=True, dropout=0.5, dropout_input=0.0, dropout_between=0.9, hidden=200)
    seen = watched(model, "embedding", "recurrent", "recurrent.cells.1", "output")
    model(TOKENS, model.initial_state(2))
    assert torch.equal(seen["embedding"][1], seen["recurrent"][0])
    lost = [seen["recurrent.cells.1"][0], seen["output"][0].view(2, 6, 200)]
    assert [float((values == 0).double().mean()) for values in lost] == pytest.approx([0.9, 0.5], abs=0.1)
    for values in lost:
        assert torch.equal(values == 0, (values == 0)[:, :1].expand_as(values))


def test_a_word_loses_its_vector_wherever_it_stands():
    torch.manual_seed(0)
    tokens = torch.randint(100, (8, 200))
    left = drop_words(torch.ones(8, 200, 3), tokens, 100, 0.2)
    of_word = {int(token): left[tokens == token].unique().tolist() for token in tokens.unique()}
    assert all(values in ([0.0], [1.25]) for values in of_word.values())
    assert 5 < sum(values == [0.0] for values in of_word.values()) < 40
    model = lstm(dropout_words=0.5)
    assert not torch.equal(scores(model, 0), scores(model, 1))
    assert torch.equal(scores(model.eval(), 0), scores(model, 1))


def test_weight_drop_acts_from_the_second_step_on():
    model = lstm(weight_drop=0.5, layers=1)
    difference = (scores(model, 1) - scores(copy.deepcopy(model).eval())).abs()
    assert (difference[:, 0] == 0).all()  # before it the memory is zero
    assert (difference[:, 1:] > 0).all()


def test_weight_drop_is_gone_in_evaluation_and_survives_it_saving_and_loading():
    model = lstm(weight_drop=0.5)
    training = scores(model, 1)
    assert not torch.equal(training, scores(model, 2))
    evaluated = scores(model.eval(), 1)
    assert torch.equal(evaluated, scores(model, 2))
    assert torch.equal(scores(model.train(), 1), training)
    other = LSTM(**SMALL | {"weight_drop": 0.5})
    other.load_state_dict(model.state_dict())
    assert torch.equal(scores(other, 1), training)
    assert torch.equal(scores(other.eval()), evaluated)
    plain = lstm()  # the same weights under PyTorch's names
    plain.load_state_dict({
        name if "cells" not in name else f"recurrent.{name.split('.')[3][:-1]}{name.split('.')[2]}": value
        for name, value in model.state_dict().items()
    })  # fmt: skip
    torch.testing.assert_close(scores(plain.eval()), evaluated)


def test_dropped_weights_have_no_gradient_and_the_others_have():
    model = lstm(weight_drop=0.5, layers=1, hidden=30)
    model(TOKENS, model.initial_state(2))[0].sum().backward()
    gradient = model.recurrent.get_parameter("cells.0.weight_hh_l0").grad
    assert gradient is not None
    assert 0.4 < (gradient == 0).double().mean() < 0.6


def test_penalties_are_on_dropped_outputs_and_on_their_changes():
    model = lstm(ar=2.0, tar=3.0, dropout=0.5)
    seen = watched(model, "recurrent", "output")
    model(TOKENS, model.initial_state(2))
    hidden, dropped = seen["recurrent"][1], seen["output"][0]
    expected = 2 * (dropped**2).mean() + 3 * ((hidden[:, 1:] - hidden[:, :-1]) ** 2).mean()
    torch.testing.assert_close(model.penalty(), expected)
    assert model.penalty() == 0
    model(TOKENS[:, :1], model.initial_state(2))
    assert torch.isfinite(torch.as_tensor(model.penalty()))
    model.eval()(TOKENS, model.initial_state(2))
    assert model.penalty() == 0


@torch.no_grad()
def test_padding_has_no_part_in_penalties():
    """Two lines of 3 and 5 tokens, the first one padded: the sums over each by itself, by the tokens of both."""
    model, lines = lstm(ar=2.0, tar=3.0), [torch.tensor([[1, 2, 0]]), torch.tensor([[4, 4, 2, 3, 0]])]
    squares = changes = 0.0
    for line in lines:
        hidden, _ = model.vectors(line, model.initial_state(1))
        squares += float((hidden**2).mean(2).sum()) / 8
        changes += float(((hidden[:, 1:] - hidden[:, :-1]) ** 2).mean(2).sum()) / 6
    padded = torch.cat([torch.nn.functional.pad(lines[0], (0, 2)), lines[1]])
    model(padded, model.initial_state(2))
    assert float(model.penalty()) == pytest.approx(2 * squares + 3 * changes)
    model(torch.zeros(2, 1, dtype=torch.int64), model.initial_state(2))
    assert float(model.penalty()) == 0  # empty lines alone


@pytest.mark.parametrize("tied", [True, False])
def test_softmaxes_are_mixed_as_written_and_sum_to_one(tied: bool):
    model = lstm(softmaxes=3, embedding=4, hidden=6, tied=tied).double()
    assert (model.output.weight is model.embedding.weight) == tied
    hidden, output = torch.randn(5, 6).double(), model.output
    prior = output.P(hidden).softmax(1)
    expected = torch.zeros(5, 7).double()
    for k, U, u in zip(range(3), output.U.weight.split(4), output.U.bias.split(4), strict=True):
        logits = torch.tanh(hidden @ U.T + u) @ output.weight.T + output.bias
        expected += prior[:, k, None] * logits.softmax(1)
    torch.testing.assert_close(output.predict(hidden).exp(), expected)
    torch.testing.assert_close(expected.sum(1), torch.ones(5).double())
    words = torch.tensor([3, 0, 6, 2, 2])
    scores = output(hidden, words)
    torch.testing.assert_close(scores.exp(), expected[range(5), words])
    parameters = [output.P.weight, output.U.weight, output.weight, output.bias]
    gradients = [torch.autograd.grad(s.sum(), parameters) for s in (scores, expected[range(5), words].log())]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_mixed_softmaxes_are_rounded_under_autocast_and_their_weights_are_not():
    output = lstm(softmaxes=3, embedding=4, hidden=6).output
    hidden, words = torch.randn(5, 6), torch.tensor([3, 0, 6, 2, 2])
    scores = output(hidden, words)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = output(hidden, words)
        assert output._parts(hidden)[0].dtype == torch.float32
    assert not torch.equal(rounded, scores)
    torch.testing.assert_close(rounded, scores, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"softmaxes": 2, "classes": 3}, r"^model\.softmaxes mixes softmaxes over all words; set model\.classes=null"),
        ({"tied": True, "last": 3}, r"^model\.tied=true needs model\.embedding=5 and model\.last=3 to be equal"),
    ],
)
def test_options_that_exclude_each_other(changed: dict, message: str):
    with pytest.raises(UserError, match=message):
        LSTM(**SMALL | changed)
