"""The log-bilinear model against its equations, written out."""

import pytest
import torch
from layers import assert_dropped, watched

from lmzoo.models.neural.logbilinear import LogBilinear

SMALL = {
    "vocabulary_size": 7,
    "embedding_from": None,
    "embedding_frozen": False,
    "order": 4,
    "embedding": 3,
    "diagonal": False,
    "memory": 0.5,
    "classes": None,
    "clustering": "brown",
    "dropout": 0.0,
    "init": 0.5,
}


@pytest.mark.parametrize("diagonal", [False, True])
def test_scores_follow_the_equations(diagonal: bool):
    torch.manual_seed(0)
    model = LogBilinear(**SMALL | {"diagonal": diagonal}).double()
    with torch.no_grad():
        for parameter in (*model.C.parameters(), model.b):
            parameter.normal_()
    tokens = [3, 1, 4, 0, 5]
    R, b = model.R.weight, model.b
    C = [c.diag() for c in model.C.c] if diagonal else model.C.weight.split(3, dim=1)
    expected = []
    for t, token in enumerate(tokens):
        context = [0, 0, 0, *tokens][t : t + 3]
        predicted = sum(C_i @ R[w] for C_i, w in zip(C, context, strict=True))
        energy = [-predicted @ R[v] - b[v] for v in range(7)]
        expected.append(-energy[token] - torch.stack(energy).neg().logsumexp(0))
    scores, _ = model(torch.tensor([tokens]), model.initial_state(1))
    torch.testing.assert_close(scores[0], torch.stack(expected), atol=1e-10, rtol=0)


def test_the_first_prediction_is_the_context_s_average():
    model = LogBilinear(**SMALL)
    context = torch.tensor([[1, 2, 6], [0, 0, 3]])
    torch.testing.assert_close(model.features(context)[:, 0], model.R(context).mean(1))


def test_a_diagonal_context_forgets_at_first_feature_by_feature():
    model = LogBilinear(**SMALL | {"diagonal": True})
    rates = torch.tensor([0.0, 0.25, 0.5])
    r = model.R(torch.tensor([[1, 2, 6]]))[0]
    torch.testing.assert_close(model.features(torch.tensor([[1, 2, 6]]))[0, 0], r[2] + r[1] * rates + r[0] * rates**2)


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = LogBilinear(**SMALL | {"dropout": 0.5})
    tokens, state = torch.tensor([[1, 2, 3, 4]]), model.initial_state(1)
    assert not torch.equal(model(tokens, state)[0], model(tokens, state)[0])
    model.eval()
    assert torch.equal(model(tokens, state)[0], model(tokens, state)[0])


def test_dropout_is_after_the_words_and_after_the_prediction():
    torch.manual_seed(0)
    model = LogBilinear(**SMALL | {"dropout": 0.5, "embedding": 20})
    seen = watched(model, "R", "C")
    features = model.features(torch.tensor([[0, 0, 0, 1, 2, 3]]))
    assert_dropped(seen["R"][1], seen["C"][0])
    assert_dropped(seen["C"][1], features)


def test_vectors_fill_the_range_of_init():
    torch.manual_seed(0)
    assert 0.4 < LogBilinear(**SMALL).R.weight.abs().max() <= 0.5
