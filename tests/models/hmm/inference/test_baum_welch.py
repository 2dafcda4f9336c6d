"""EM against sums over all paths, against counts by hand, and against its promise to raise the likelihood."""

import itertools

import pytest
import torch
from hmm_oracle import EXACT, V, all_paths, words

from lmzoo.corpus.windows import SentenceWindows, Window
from lmzoo.models.hmm.inference import baum_welch
from lmzoo.models.hmm.inference.baum_welch import Parameters

SUMMED = (0, 1, 0)
"""The dimension of each of the `Parameters` over which probabilities sum to one."""


def parameters() -> Parameters:
    random = torch.Generator().manual_seed(0)
    tables = (torch.randn(*shape, generator=random, dtype=torch.float64) for shape in [(3,), (3, 3), (V, 3)])
    return Parameters(*(table.log_softmax(outcomes) for table, outcomes in zip(tables, SUMMED, strict=True)))


def text(*shape: int) -> tuple[torch.Tensor, list[Window]]:
    tokens = words(*shape)
    tokens[:, -1] = 0
    return tokens, [Window(tokens, None, torch.zeros_like(tokens), starts=True)]


def test_expected_counts_are_sums_over_all_paths():
    tables = parameters()
    tokens, windows = text(4, 5)
    counts, loglikelihood = baum_welch.expected_counts(tables, windows)
    start, transition, emission = (torch.zeros_like(table) for table in tables)
    total = 0.0
    for row in tokens.tolist():
        paths, scores = all_paths(tables.start, tables.transition, tables.emission.T, row)
        total += float(scores.logsumexp(0))
        for path, weight in zip(paths, scores.softmax(0), strict=True):
            start[path[0]] += weight
            for i, j in itertools.pairwise(path):
                transition[i, j] += weight
            for x, z in zip(row, path, strict=True):
                emission[x, z] += weight
    assert loglikelihood == pytest.approx(total, rel=1e-12)
    for ours, expected in zip(counts, (start, transition, emission), strict=True):
        torch.testing.assert_close(ours, expected, **EXACT)


@pytest.mark.parametrize("seed", [4, 31])
def test_no_count_is_below_zero_where_later_words_rule_a_state_out(seed: int):
    random = torch.Generator().manual_seed(seed)
    start, transition, emission = (torch.rand(*shape, generator=random) for shape in [(4,), (4, 4), (V, 4)])
    transition = transition.triu()  # no state leads back
    transition[0] += 0.1
    emission[torch.rand(V, 4, generator=random) < 0.5] = 0.0
    emission[:, 0] += 0.05
    tokens = (V * torch.rand(60, generator=random)).long()
    tokens[-1] = 0
    counts = (start, transition, emission)
    tables = Parameters(*((n / n.sum(of, keepdim=True)).log() for n, of in zip(counts, SUMMED, strict=True)))
    found, _ = baum_welch.expected_counts(tables, SentenceWindows(tokens, 60, None).epoch(0))
    assert all(bool((count >= 0).all()) for count in found)


def test_padding_is_not_counted():
    tokens, lengths = words(3, 4), [4, 2, 1]
    inside = torch.arange(4) < torch.tensor(lengths)[:, None]
    line = torch.zeros_like(tokens)
    counts, loglikelihood = baum_welch.expected_counts(parameters(), [Window(tokens, inside, line, starts=True)])
    alone = [Window(tokens[i : i + 1, :n], None, line[i : i + 1, :n], starts=True) for i, n in enumerate(lengths)]
    expected, total = baum_welch.expected_counts(parameters(), alone)
    assert loglikelihood == pytest.approx(total, rel=1e-12)
    for ours, theirs in zip(counts, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_maximise_divides_counts_by_their_sums():
    counts = Parameters(
        torch.tensor([3.0, 1.0]), torch.tensor([[2.0, 6.0], [0.0, 0.0]]), torch.tensor([[4.0, 0.0], [6.0, 1.0]])
    )
    before = Parameters(*(torch.full_like(count, -7.0) for count in counts))
    plain, more = (baum_welch.maximise(counts, pseudocount, before) for pseudocount in (0.0, 2.0))
    torch.testing.assert_close(plain.start.exp(), torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(plain.transition[0].exp(), torch.tensor([0.25, 0.75]))
    assert plain.transition[1].tolist() == [-7.0, -7.0]  # a state without counts
    torch.testing.assert_close(plain.emission.exp(), torch.tensor([[0.4, 0.0], [0.6, 1.0]]))
    torch.testing.assert_close(more.start.exp(), torch.tensor([5 / 8, 3 / 8]))
    torch.testing.assert_close(more.transition.exp(), torch.tensor([[1 / 3, 2 / 3], [0.5, 0.5]]))
    torch.testing.assert_close(more.emission.exp(), torch.tensor([[6 / 14, 2 / 5], [8 / 14, 3 / 5]]))


@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_em_never_lowers_what_it_maximises(pseudocount):
    tables, objectives = parameters(), []
    _, windows = text(30, 9)
    for _ in range(60):
        counts, loglikelihood = baum_welch.expected_counts(tables, windows)
        prior = sum(float(table.sum()) for table in tables) if pseudocount else 0.0
        objectives.append(loglikelihood + pseudocount * prior)
        tables = baum_welch.maximise(counts, pseudocount, tables)
        for table, outcomes in zip(tables, SUMMED, strict=True):
            sums = table.exp().sum(outcomes)
            torch.testing.assert_close(sums, torch.ones_like(sums), **EXACT)
    steps = torch.tensor(objectives).diff()
    assert steps.min() > -1e-9
    assert steps[0] > 1


def test_a_state_that_is_never_visited_stays_as_it_was():
    tables = parameters()
    for table in (tables.start[2:], tables.transition[:, 2]):
        table.fill_(-torch.inf)
    _, windows = text(6, 5)
    counts, _ = baum_welch.expected_counts(tables, windows)
    after = baum_welch.maximise(counts, 0.0, tables)
    assert after.transition[2].equal(tables.transition[2])
    assert after.emission[:, 2].equal(tables.emission[:, 2])
    assert after.start[2].isneginf()
    assert not any(table.isnan().any() for table in after)


def test_cluster_start_is_a_class_bigram_model_with_a_leak():
    tokens = torch.tensor([1, 2, 0, 3, 2, 1, 0])
    tables = baum_welch.cluster_start(tokens, torch.tensor([2, 0, 1, 0]), 3)
    # three tokens of cluster 0, two each of clusters 1 and 2; seven tokens in all
    overall = torch.tensor([3, 3, 3, 2]) / 11  # (1 + n) / Σ
    joint = torch.tensor([0, 2, 0, 1])  # of words and cluster 0
    torch.testing.assert_close(tables.emission[:, 0].exp(), (joint + (0.1 * 3 + 1) * overall) / (3 + 0.1 * 3 + 1))
    # the clusters of the text are 0 1 2 0 1 0 2: each follows twice, and 1, 1 and 2 follow cluster 0
    follows = torch.tensor([0, 2, 1])
    torch.testing.assert_close(tables.transition[0].exp(), (follows + (0.1 * 3 + 1) / 3) / (3 + 0.1 * 3 + 1))
    # both lines begin with cluster 0
    torch.testing.assert_close(tables.start.exp(), (torch.tensor([2, 0, 0]) + 1.2 * torch.tensor([3, 1, 1]) / 5) / 3.2)
    assert all(
        torch.allclose(table.exp().sum(outcomes), torch.ones(()))
        for table, outcomes in zip(tables, SUMMED, strict=True)
    )


def test_random_start_emits_words_as_often_as_they_occur():
    torch.manual_seed(0)
    tokens = torch.tensor([1] * 98 + [2] * 8 + [0])
    emission = baum_welch.random_start(tokens, 3, 5000).emission.exp()  # (V, Z), a Dirichlet draw for each state
    assert (emission[1] > emission[2]).double().mean().item() == pytest.approx(99 / (99 + 9), abs=0.02)
    assert (emission[2] > emission[0]).double().mean().item() == pytest.approx(9 / (9 + 2), abs=0.02)
