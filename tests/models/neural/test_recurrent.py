"""Recurrent models against their equations, written out."""

from collections.abc import Callable
from functools import partial

import numpy
import pytest
import torch
from layers import assert_dropped, watched

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.models.neural.recurrent import GRU, LSTM, RNN, Recurrent
from lmzoo.protocol.model import models

SMALL = defaults("model", "lstm") | {
    "vocabulary_size": 7,
    "embedding": 5,
    "hidden": 5,
    "layers": 2,
    "dropout": 0.0,
    "tied": False,
    "init": 0.5,
}
del SMALL["name"]


KINDS = [
    ("tanh", partial(RNN, activation="tanh")), ("relu", partial(RNN, activation="relu")), ("lstm", LSTM), ("gru", GRU),
]  # fmt: skip


def cell(kind: str, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, W, U, b, d):
    """One step of one layer: new h and c."""
    if kind in ("tanh", "relu"):
        return getattr(torch, kind)(W @ x + b + U @ h + d), c
    if kind == "lstm":
        i, f, g, o = (W @ x + b + U @ h + d).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    (r, z, n), (r_h, z_h, n_h) = (W @ x + b).chunk(3), (U @ h + d).chunk(3)
    n = torch.tanh(n + torch.sigmoid(r + r_h) * n_h)
    z = torch.sigmoid(z + z_h)
    return (1 - z) * n + z * h, c


@pytest.mark.parametrize(("kind", "constructor"), KINDS)
def test_scores_follow_the_equations(kind: str, constructor: Callable[..., Recurrent]):
    torch.manual_seed(0)
    model = constructor(**SMALL).double()
    tokens = torch.tensor([3, 1, 4, 0, 5])
    h, c = [torch.zeros(5).double()] * 2, [torch.zeros(5).double()] * 2
    expected, previous = [], 0
    for token in tokens.tolist():
        x = model.embedding.weight[previous]
        for layer in range(2):
            weights = [
                getattr(model.recurrent, f"{n}_l{layer}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            h[layer], c[layer] = cell(kind, x, h[layer], c[layer], *weights)
            x = h[layer]
        logits = model.output.weight @ x + model.output.bias
        expected.append(logits[token] - logits.logsumexp(0))
        previous = token
    state, scores = model.initial_state(1), []
    for window in tokens[None].split([1, 3, 1], dim=1):
        logprobs, state = model(window, state)
        scores.append(logprobs[0])
    torch.testing.assert_close(torch.cat(scores).double(), torch.stack(expected), atol=1e-6, rtol=0)


def test_tying_shares_one_matrix_and_needs_equal_sizes():
    model = LSTM(**SMALL | {"tied": True})
    assert model.output.weight is model.embedding.weight
    assert sum(p.numel() for p in LSTM(**SMALL).parameters()) - sum(p.numel() for p in model.parameters()) == 7 * 5
    with pytest.raises(UserError, match=r"model\.embedding=4"):
        LSTM(**SMALL | {"tied": True, "embedding": 4})


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = LSTM(**SMALL | {"dropout": 0.5})
    tokens, state = torch.tensor([[1, 2, 3, 4]]), model.initial_state(1)
    first, second = model(tokens, state)[0], model(tokens, state)[0]
    assert not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(tokens, state)[0], model(tokens, state)[0])


def test_dropout_is_before_between_and_after_the_layers():
    torch.manual_seed(0)
    model = LSTM(**SMALL | {"dropout": 0.5})
    seen = watched(model, "embedding", "recurrent", "output")
    model(torch.tensor([[1, 2, 3, 4]]), model.initial_state(1))
    (_, vectors), (inputs, hidden), (outputs, _) = (seen[name] for name in ("embedding", "recurrent", "output"))
    assert_dropped(vectors, inputs)
    assert_dropped(hidden.flatten(0, 1), outputs)
    assert not torch.equal(model.recurrent(inputs)[0], model.recurrent(inputs)[0])


def test_biases_start_at_zero_and_weights_fill_the_range_of_init():
    torch.manual_seed(0)
    for name, parameter in LSTM(**SMALL).named_parameters():
        largest = parameter.abs().max()
        assert largest == 0 if "bias" in name else 0.4 < largest <= 0.5, name


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "lds_rnn"])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layres": 2}, r"(no such option|argument 'layres'); did you mean 'layers'\?$"),
        ({"dropout": 1.5}, r"^model\.dropout=1\.5: must be below 1"),
        ({"hidden": 2.5}, r"^model\.hidden=2\.5: must be an integer"),
        ({"hidden": numpy.int64(2)}, r"^model\.hidden=2: must be an integer; give its item\(\)"),
        ({"classes": 0}, r"^model\.classes=0: must be at least 1"),
        ({"layers": 1, "hidden": 4, "last": 3}, r"^model\.last=3: the only layer has model\.hidden=4 units"),
    ],
)
def test_options_of_all_recurrent_networks_are_checked_in_each(name: str, changed: dict, message: str):
    with pytest.raises(UserError, match=message):
        models.build(defaults("model", name) | changed, vocabulary_size=200)


@pytest.mark.parametrize(("kind", "constructor"), KINDS)
def test_embeddings_are_the_states_after_each_word_by_the_equations(kind: str, constructor: Callable[..., Recurrent]):
    torch.manual_seed(0)
    model = constructor(**SMALL | {"layers": 1}).double().eval()
    sentence = [3, 1, 4, 0]
    parameters = [getattr(model.recurrent, f"{n}_l0") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    h, c, expected = torch.zeros(5).double(), torch.zeros(5).double(), []
    for token in [0, *sentence]:
        h, c = cell(kind, model.embedding.weight[token], h, c, *parameters)
        expected.append(h / h.square().sum().sqrt())
    found = model.embed(torch.tensor([sentence, [3, 1, 0, 0]]))
    torch.testing.assert_close(found[0], torch.stack(expected[1:]))
    torch.testing.assert_close(found[1, :2], found[0, :2])  # later words and padding do not count


@torch.no_grad()
def test_steps_of_stacked_lstms_are_their_course():
    model = LSTM(**SMALL | {"layers": 3}).eval()
    tokens, state = torch.randint(1, 7, (4, 6)), model.initial_state(4)
    expected, after = model(tokens, state)
    steps = []
    for words in tokens.T:
        logprobs, begun = model.begin_step(state)
        steps.append(logprobs.gather(1, words[:, None]))
        state = model.end_step(words, begun)
    torch.testing.assert_close(torch.cat(steps, 1), expected)
    for part, same in zip(state, after, strict=True):
        torch.testing.assert_close(part, same)
