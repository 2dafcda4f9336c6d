"""What an HMM believes as it reads, against the sum over all paths, and the likeliest path."""

import pytest
import torch
from block_hmm_oracle import dense_tables, table_hmm
from hmm_oracle import all_paths

from lmzoo.models.hmm import reading
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.protocol.model import models

TEXT = [2, 3, 5, 0]


@pytest.fixture
def blocks() -> BlockHMM:
    return table_hmm()


def every_path(model: BlockHMM, text: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, T) all paths of a text and the (N,) p(z | x) of each."""
    found, scores = all_paths(*dense_tables(model, model.tables().active), text)
    return torch.tensor(found), scores.detach().double().softmax(0)


def by_state(model: HiddenMarkovModel, text: list[int]) -> torch.Tensor:
    """(T, T, Z) `beliefs`, each at the number of its state."""
    found = reading.read(model, torch.tensor(text))
    grid = reading.beliefs(found.chain)
    states = found.states.expand(len(text), -1, -1)
    return grid.new_zeros(len(text), len(text), model.states).scatter_(2, states, grid)


@pytest.mark.parametrize("at_once", [1 << 24, 4])
def test_beliefs_are_sums_over_the_paths_of_what_is_known(
    blocks: BlockHMM, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "MOST_TRANSITIONS", at_once)
    found = by_state(blocks, TEXT)
    for known in range(1, len(TEXT) + 1):
        paths, p = every_path(blocks, TEXT[:known])
        for t in range(known):
            expected = torch.zeros(6, dtype=torch.float64).index_add(0, paths[:, t], p)
            torch.testing.assert_close(found[known - 1, t].double(), expected, rtol=1e-5, atol=1e-6)
        assert not found[known - 1, known:].any()


def test_the_path_is_the_likeliest_and_has_its_share(blocks: BlockHMM):
    found = reading.read(blocks, torch.tensor(TEXT))
    paths, p = every_path(blocks, TEXT)
    best = int(p.argmax())
    assert found.path.tolist() == paths[best].tolist()
    assert found.share == pytest.approx(float(p[best]), rel=1e-5)


def test_a_dense_model_filters_as_its_state_does():
    torch.manual_seed(0)
    options = {"states": 5, "dim": 4, "dropout": 0.0, "state_dropout": 0.0}
    model = models.build({"name": "neural_hmm", **options}, vocabulary_size=6).eval()
    assert isinstance(model, HiddenMarkovModel)
    found = by_state(model, TEXT)
    for known in range(1, len(TEXT) + 1):
        with torch.no_grad():
            _, state = model(torch.tensor([TEXT[:known]]), model.initial_state(1))
        torch.testing.assert_close(found[known - 1, known - 1], state[0][0].exp(), rtol=1e-4, atol=1e-6)
