"""The feed-forward model against its equation, written out."""

import pytest
import torch

from lmzoo.errors import UserError
from lmzoo.models.nnlm import NNLM

SMALL = {
    "vocabulary_size": 7,
    "order": 4,
    "embedding": 3,
    "hidden": 5,
    "layers": 1,
    "context": "concatenated",
    "direct": True,
    "tied": False,
    "dropout": 0.0,
    "init": 0.5,
}


@pytest.mark.parametrize("context", ["concatenated", "averaged"])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("layers", "tied"), [(1, False), (2, False), (2, True)])
def test_scores_follow_the_equation(context: str, direct: bool, layers: int, tied: bool):
    torch.manual_seed(0)
    direct = direct and not tied
    model = NNLM(**SMALL | {"context": context, "direct": direct, "layers": layers, "tied": tied}).double()
    tokens = [3, 1, 4, 0, 5]
    C, H, d, b = model.C.weight, model.H.weight, model.H.bias, model.UW.bias
    U, W = (C @ model.P.weight, C[:, :0]) if tied else model.UW.weight.split([5, model.UW.in_features - 5], dim=1)
    expected = []
    for t, token in enumerate(tokens):
        vectors = [C[w] for w in [0, 0, 0, *tokens][t : t + 3]]
        x = torch.cat(vectors) if context == "concatenated" else sum(vectors) / 3
        a = torch.tanh(d + H @ x)
        if layers == 2:
            norm, linear = model.deeper[0][0], model.deeper[0][1]
            centred = a - a.mean()
            normed = centred / (centred.square().mean() + norm.eps).sqrt() * norm.weight + norm.bias
            a = a + torch.tanh(linear.bias + linear.weight @ normed)
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


def test_tying_shares_the_words_vectors_and_excludes_direct_connections():
    model = NNLM(**SMALL | {"direct": False, "tied": True})
    assert model.UW.weight is model.C.weight
    with pytest.raises(UserError, match=r"model\.tied=true leaves no place for model\.direct=true"):
        NNLM(**SMALL | {"tied": True})


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = NNLM(**SMALL | {"dropout": 0.5, "layers": 2})
    tokens, state = torch.tensor([[1, 2, 3, 4]]), model.initial_state(1)
    assert not torch.equal(model(tokens, state)[0], model(tokens, state)[0])
    model.eval()
    assert torch.equal(model(tokens, state)[0], model(tokens, state)[0])
