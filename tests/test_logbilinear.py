"""The log-bilinear model against its equations, written out."""

import torch

from lmzoo.models.logbilinear import LogBilinear

SMALL = {"vocabulary_size": 7, "order": 4, "embedding": 3, "dropout": 0.0, "init": 0.5}


def test_scores_follow_the_equations():
    torch.manual_seed(0)
    model = LogBilinear(**SMALL).double()
    with torch.no_grad():
        model.C.weight.normal_()
        model.b.normal_()
    tokens = [3, 1, 4, 0, 5]
    R, C, b = model.R.weight, model.C.weight.split(3, dim=1), model.b
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
    torch.testing.assert_close(model.predicted(context), model.R(context).mean(1))


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = LogBilinear(**SMALL | {"dropout": 0.5})
    tokens, state = torch.tensor([[1, 2, 3, 4]]), model.initial_state(1)
    assert not torch.equal(model(tokens, state)[0], model(tokens, state)[0])
    model.eval()
    assert torch.equal(model(tokens, state)[0], model(tokens, state)[0])
