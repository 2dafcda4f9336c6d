"""The likeliest path and posteriors against enumeration at small size."""

import itertools

import pytest
import torch
from hmm_oracle import EXACT, normal

from lmzoo.models.hmm.inference import paths

T, S = 4, 3
LENGTHS = torch.tensor([4, 1, 3])


@pytest.fixture(params=["blocks", "dense"])
def chain(request) -> paths.Chain:
    P, M = (5, 2) if request.param == "blocks" else (1, 1)
    generator = torch.Generator().manual_seed(3)
    pair, block = (torch.randint(n, (3, T), generator=generator) for n in (P, M))
    belief, tiles = normal(3, S).log_softmax(1), 2 * normal(P, S, S, seed=1)
    numbers = torch.arange(M * S).flip(0).view(M, S)
    return paths.Chain(belief, tiles, pair, normal(3, T, S, seed=2), block, numbers)


def joint(chain: paths.Chain, b: int) -> dict[tuple[int, ...], float]:
    """p(z_1 … z_n, x | past) of every path of one text, summed over z_0."""
    n = int(LENGTHS[b])
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(S), repeat=n + 1):
        score = chain.belief[b, path[0]]
        for t in range(n):
            score = score + chain.tiles[chain.pair[b, t], path[t], path[t + 1]] + chain.emission[b, t, path[t + 1]]
        found[path[1:]] = found.get(path[1:], 0.0) + float(score.exp())
    return found


def states(chain: paths.Chain, b: int, path: tuple[int, ...]) -> list[int]:
    """The states at the places of a path."""
    return [int(chain.states[chain.block[b, t], place]) for t, place in enumerate(path)]


def test_viterbi_finds_the_likeliest_of_all_paths(chain):
    found, logprobs = paths.viterbi(chain, LENGTHS)
    for b, n in enumerate(LENGTHS.tolist()):
        every = joint(chain, b)
        best = max(every, key=every.__getitem__)
        assert found[b, :n].tolist() == states(chain, b, best)
        assert logprobs[b].exp().item() == pytest.approx(every[best], rel=1e-9)


def test_posterior_sums_the_paths_through_a_state(chain):
    gamma = paths.posterior(chain, LENGTHS)
    expected = torch.zeros(3, T, S, dtype=torch.float64)
    for b in range(3):
        every = joint(chain, b)
        for path, p in every.items():
            for t, place in enumerate(path):
                expected[b, t, place] += p / sum(every.values())
    torch.testing.assert_close(gamma, expected, **EXACT)


def test_no_posterior_is_below_zero_where_later_words_rule_a_state_out():
    B, length, states = 16, 20, 16
    belief, tiles = 15 * normal(B, states), 15 * normal(1, states, states)
    zeros = torch.zeros(B, length, dtype=torch.int64)
    chain = paths.Chain(
        belief.log_softmax(1).float(), tiles.log_softmax(2).float(), zeros, 15 * normal(B, length, states).float(),
        zeros, torch.arange(states)[None],
    )  # fmt: skip
    assert float(paths.posterior(chain, torch.full((B,), length)).min()) >= 0
