"""Every HMM with huge weights, whose probabilities underflow, in single precision: exact, and forward as predict."""

import pytest
import torch
from hmm_oracle import lse
from test_adversarial import MODELS, SIZES, SMALL, V
from torch import Tensor

from lmzoo.core.configs import defaults
from lmzoo.models.hmm.dense_hmm import DenseHMM
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.protocol.model import models

WAYS = MODELS | {"vlhmm, factored": {"embeddings": "factored"}}


def make(name: str, scale: float) -> HiddenMarkovModel:
    """A model in single precision, its weights, drawn from N(0, 1), times ``scale``."""
    options = defaults("model", name.partition(",")[0])
    changed = SMALL | SIZES["plain"] | WAYS[name]
    options |= {option: changed[option] for option in options if option in changed}
    model = models.build(options, vocabulary_size=V).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape))
    return model


def dense_tables(model: HiddenMarkovModel) -> tuple[Tensor, Tensor, Tensor]:
    """log p(z_1) (Z,), log p(z′ | z) (Z, Z) and log p(x | z) (Z, V) of the same numbers in double precision."""
    transition, emission = (torch.stack([of(z) for z in range(model.states)]) for of in (model.successors, model.words))
    return model.tables().start.flatten().double(), transition.double(), emission.double()


def dense_belief(model: HiddenMarkovModel, state: tuple[Tensor, ...]) -> Tensor:
    """The (B, Z) log-belief after the last token, in double precision."""
    if isinstance(model, DenseHMM):
        return state[0].double()
    belief, last = state[0].double(), state[1]
    whole = belief.new_full((len(last), model.states), -torch.inf)
    return whole.scatter(1, last[:, None] * belief.shape[1] + torch.arange(belief.shape[1]), belief)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("name", WAYS)
@torch.no_grad()
def test_forward_and_predict_are_sums_over_all_states_in_double_precision(name: str, scale: float):
    model = make(name, scale)
    start, transition, emission = dense_tables(model)
    tokens = torch.randint(V, (3, 12), generator=torch.Generator().manual_seed(1))
    whole, last = model(tokens, model.initial_state(3))
    state = model.initial_state(3)
    for t, words in enumerate(tokens.T):
        prior = lse(dense_belief(model, state)[:, :, None] + transition, 1) if t > 0 else start.expand(3, -1)
        expected = lse(prior[:, :, None] + emission, 1)  # (3, V)
        predicted = model.predict(state)
        torch.testing.assert_close(predicted.double(), expected, rtol=2e-6, atol=1e-5)
        scored, state = model(words[:, None], state)
        chosen = predicted.gather(1, words[:, None])
        torch.testing.assert_close(scored, chosen, rtol=1e-6, atol=1e-5)
        torch.testing.assert_close(scored, whole[:, t : t + 1], rtol=1e-6, atol=1e-5 + 1e-6 * float(whole.abs().max()))
    assert state[0].isnan().logical_not().all()
    torch.testing.assert_close(state[1], last[1])
    assert bool((predicted < -100).any()) == (scale > 1)


@pytest.mark.parametrize("name", WAYS)
def test_gradients_are_finite_where_probabilities_underflow(name: str):
    model = make(name, 1e4).train()
    tokens = torch.randint(V, (3, 12), generator=torch.Generator().manual_seed(1))
    logprobs, _ = model(tokens, model.initial_state(3))
    gradients = torch.autograd.grad(logprobs.mean(), list(model.parameters()), allow_unused=True)
    assert logprobs.isfinite().all()
    assert all(part.isfinite().all() for part in gradients if part is not None)
