"""The feed-forward model against its equation, written out."""

import pytest
import torch
from layers import assert_dropped, watched

from lmzoo.models.neural.nnlm import NNLM

SMALL = {
    "vocabulary_size": 7,
    "embedding_from": None,
    "embedding_frozen": False,
    "order": 4,
    "embedding": 3,
    "hidden": 5,
    "layers": 1,
    "context": "concatenated",
    "memory": 0.5,
    "direct": True,
    "tied": False,
    "classes": None,
    "clustering": "brown",
    "norm": False,
    "gated": False,
    "dropout": 0.0,
    "init": 0.5,
}


FADE = torch.tensor([0.0, 0.25, 0.5], dtype=torch.float64)


def layer_norm(module: torch.nn.LayerNorm, a: torch.Tensor) -> torch.Tensor:
    centred = a - a.mean()
    return centred / (centred.square().mean() + module.eps).sqrt() * module.weight + module.bias


@pytest.mark.parametrize("context", ["concatenated", "averaged", "fading"])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("changed", [{}, {"layers": 2, "norm": True}, {"layers": 2, "tied": True, "gated": True}])
def test_scores_follow_the_equation(context: str, direct: bool, changed: dict):
    torch.manual_seed(0)
    options = SMALL | {"context": context, "direct": direct} | changed
    layers, tied, norm, gated = (options[name] for name in ("layers", "tied", "norm", "gated"))
    model = NNLM(**options).double()
    tokens = [3, 1, 4, 0, 5]
    C, H, d, b = model.C.weight, model.H.weight, model.H.bias, model.output.bias
    both = C @ model.PD.weight if tied else model.output.weight
    U, W = both[:, :5], both[:, 5:]
    expected = []
    for t, token in enumerate(tokens):
        vectors = [C[w] for w in [0, 0, 0, *tokens][t : t + 3]]
        oldest, older, last = vectors
        x = {
            "concatenated": torch.cat(vectors),
            "averaged": sum(vectors) / 3,
            "fading": last + older * FADE + oldest * FADE**2,
        }[context]
        a = torch.tanh(layer_norm(model.norm, d + H @ x) if norm else d + H @ x)
        if gated:
            a = a * torch.sigmoid(model.G.bias + model.G.weight @ x)
        if layers == 2:
            first, linear = model.deeper[0][0], model.deeper[0][1]
            a = a + torch.tanh(linear.bias + linear.weight @ layer_norm(first, a))
        y = b + U @ a + (W @ x if direct else 0)
        expected.append(y[token] - y.logsumexp(0))
    assert W.shape[1] == (len(x) if direct else 0)
    scores, _ = model(torch.tensor([tokens]), model.initial_state(1))
    torch.testing.assert_close(scores[0], torch.stack(expected), atol=1e-10, rtol=0)


@pytest.mark.parametrize("n", [2, 4, 6])
def test_the_number_of_parameters_is_the_paper_s(n: int):
    """|V| (1 + nm + h) + h (1 + (n - 1) m), Bengio et al. (2003), section 2."""
    V, m, h = 7, 3, 5
    count = sum(parameter.numel() for parameter in NNLM(**SMALL | {"order": n}).parameters())
    assert count == V * (1 + n * m + h) + h * (1 + (n - 1) * m)


@pytest.mark.parametrize("context", ["averaged", "fading"])
def test_without_context_there_is_still_a_distribution(context: str):
    model = NNLM(**SMALL | {"order": 1, "context": context})
    assert model.predict(model.initial_state(2)).exp().sum(1).tolist() == pytest.approx([1, 1], abs=1e-6)


def test_tying_shares_the_words_vectors():
    model = NNLM(**SMALL | {"tied": True})
    assert model.output.weight is model.C.weight


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = NNLM(**SMALL | {"dropout": 0.5, "layers": 2})
    tokens, state = torch.tensor([[1, 2, 3, 4]]), model.initial_state(1)
    assert not torch.equal(model(tokens, state)[0], model(tokens, state)[0])
    model.eval()
    assert torch.equal(model(tokens, state)[0], model(tokens, state)[0])


def test_dropout_is_after_the_words_and_after_every_hidden_layer():
    torch.manual_seed(0)
    model = NNLM(**SMALL | {"context": "fading", "dropout": 0.5, "layers": 2, "direct": False, "hidden": 20})
    seen = watched(model, "C", "context", "H", "deeper.0", "deeper.0.2")
    model(torch.tensor([[1, 2, 3, 4]]), model.initial_state(1))
    assert_dropped(seen["C"][1], seen["context"][0])
    assert_dropped(seen["H"][1].tanh(), seen["deeper.0"][0])
    assert_dropped(seen["deeper.0.2"][1], seen["deeper.0"][1])


def test_biases_start_at_zero_and_weights_fill_the_range_of_init():
    torch.manual_seed(0)
    for name, parameter in NNLM(**SMALL | {"hidden": 20, "gated": True}).named_parameters():
        largest = parameter.abs().max()
        assert largest == 0 if "bias" in name else 0.4 < largest <= 0.5, name
