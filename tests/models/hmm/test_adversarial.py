"""Every HMM that learns by gradient, fed what makes probabilities 0 or 1, for as long as a training lasts."""

import pytest
import torch

import lmzoo.models  # noqa: F401
from lmzoo.core.configs import defaults
from lmzoo.protocol.model import models

V = 12
SMALL = {"iterations": 0, "gradient": True, "dim": 8, "state_dropout": 0.5}
"""Options of those models that have them."""
MODELS = {
    "hmm": {},
    "neural_hmm": {},
    "vlhmm": {},
    "twolevel_hmm": {"temperature": 0.8, "teacher": None, "teacher_weight": 1.0},
    "lowrank_hmm": {},
    "lowrank_hmm, softmax kernel": {"feature_map": "softmax_kernel"},
    "lowrank_hmm, softmaxes": {"feature_map": "softmax"},
    "lowrank_hmm, features in clusters": {"block_features": True},
    "lowrank_hmm, softmaxes in clusters": {"block_features": True, "feature_map": "softmax"},
}
SIZES = {
    "plain": {"states": 24, "clusters": 4, "features": 8},
    "one state": {"states": 1, "clusters": 1, "features": 1},
    "a cluster for each word, a state for each cluster": {"states": V, "clusters": V, "features": V},
    "a cluster for each word": {"states": 3 * V, "clusters": V, "features": V},
}


def windows(steps: int):
    """(B, T) tokens: one word over and over, two in turns, sentences of length 1, all words at random, long rows."""
    random = torch.Generator().manual_seed(0)
    for step in range(steps):
        word, other = torch.randint(V, (2,), generator=random).tolist()
        alike = torch.full((3, 40), word)
        yield [
            alike,
            torch.where(torch.arange(40) % 2 == 0, alike, other),
            torch.randint(V, (5, 1), generator=random),
            torch.randint(V, (2, 7), generator=random),
            torch.full((1, 200), other),
        ][step % 5]


@pytest.mark.parametrize("steps", [10, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_no_number_is_ever_anything_but_finite(name: str, size: str, steps: int):
    torch.manual_seed(0)
    options = defaults("model", name.partition(",")[0])
    changed = SMALL | SIZES[size] | MODELS[name]
    options |= {option: changed[option] for option in options if option in changed}
    model = models.build(options, vocabulary_size=V)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    state = model.initial_state(1)
    for step, tokens in enumerate(windows(steps)):
        if step % 3 or len(state[0]) != len(tokens):  # else the memory goes on
            state = model.initial_state(len(tokens))
        logprobs, state = model(tokens, state)
        state = tuple(part.detach() for part in state)
        optimizer.zero_grad()
        (-logprobs.mean()).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        assert logprobs.isfinite().all(), step
        assert norm.isfinite(), step
        assert not any(part.isnan().any() for part in state), step
        optimizer.step()
    model.eval()
    with model.frozen(), torch.no_grad():
        predicted = model.predict(state).exp().sum(1)
    torch.testing.assert_close(predicted, torch.ones_like(predicted), atol=1e-5, rtol=0)
