"""How recurrent weights begin."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from test_recurrent import SMALL

from lmzoo.core.errors import UserError
from lmzoo.models.neural import recurrent
from lmzoo.models.neural.recurrent import GRU, KEPT, LSTM, NOISE, Recurrent, initialise

RNN = partial(recurrent.RNN, activation="tanh")


def recurrent_weights(kind: Callable[..., Recurrent], **options: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = kind(**SMALL | {"layers": 2} | options)
    found = [p.detach() for name, p in model.recurrent.named_parameters() if "weight_hh" in name]
    assert len(found) == 2
    return found


@pytest.mark.parametrize(("kind", "gates"), [(RNN, 1), (GRU, 3), (LSTM, 4)])
@pytest.mark.parametrize("locked", [False, True])  # PyTorch's own layers, and a Stack
def test_an_orthogonal_matrix_of_each_gate_keeps_lengths(kind: Callable[..., Recurrent], gates: int, locked: bool):
    for weight in recurrent_weights(kind, init_recurrent="orthogonal", locked=locked):
        size = weight.shape[1]
        assert weight.shape[0] == gates * size
        for gate in weight.view(gates, size, size):
            torch.testing.assert_close(gate @ gate.T, torch.eye(size))


def test_an_identity_keeps_the_state():
    for weight in recurrent_weights(RNN, init_recurrent="identity"):
        assert torch.equal(weight, torch.eye(weight.shape[1]))


def test_a_graded_matrix_has_memories_of_all_lengths():
    torch.manual_seed(0)
    weight = torch.empty(400, 400)
    initialise(weight, "graded")
    own = weight.diag()
    torch.testing.assert_close(own, torch.linspace(0, KEPT, 400), atol=5 * NOISE / 20, rtol=0)
    others = weight - own.diag()
    assert float(torch.linalg.eigvals(others).abs().max()) == pytest.approx(NOISE, rel=0.1)
    assert not torch.equal(*recurrent_weights(RNN, init_recurrent="graded"))


@pytest.mark.parametrize("kind", [GRU, LSTM])
@pytest.mark.parametrize("start", ["identity", "graded"])
def test_gates_do_not_begin_as_states_do(kind: Callable[..., Recurrent], start: str):
    with pytest.raises(UserError, match=f"model.init_recurrent={start} is for model=rnn"):
        recurrent_weights(kind, init_recurrent=start)
