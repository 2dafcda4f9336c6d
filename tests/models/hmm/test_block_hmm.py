"""Block-sparse HMMs against plain sums over dense tables at small size."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from block_hmm_oracle import OF_MODEL, SWITCHES, assert_agrees_with_dense_tables, dense_tables, make
from hmm_oracle import (
    EXACT,
    V,
    all_paths,
    assert_finite_in_single_precision,
    assert_likelihood_is_a_sum_over_all_paths,
    assert_rows_at_a_start_and_rows_going_on_share_a_batch,
    assert_tokens_have_the_roots_of_posteriors,
    assert_what_is_visible_is_in_the_tables,
    assert_window_cuts_do_not_matter,
    gradient,
    strings,
    words,
)

from lmzoo.core.errors import UserError
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.inference import paths
from lmzoo.words.brown import word_clusters


@pytest.fixture(params=OF_MODEL)
def build(request) -> Callable[..., BlockHMM]:
    return lambda **options: make(request.param, **options)


def test_models_are_three_classes_deep_at_most(build):
    assert len([each for each in type(build()).__mro__ if each.__module__.startswith("lmzoo.")]) <= 3


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(("name", "options"), SWITCHES, ids=str)
def test_every_switch_leaves_likelihood_and_gradients_exact(name, options, dropout):
    assert_agrees_with_dense_tables(make(name, state_dropout=dropout, **options))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    "options",
    [{}, {"clusters": 1}, {"clusters": 8, "states": 8}, {"clusters": 8, "states": 24}, {"clusters": 4, "states": 20}],
    ids=["plain", "one cluster", "one state and word each", "one word each", "odd number"],
)
def test_likelihood_and_gradients_are_those_of_dense_tables(build, options, dropout):
    assert_agrees_with_dense_tables(build(state_dropout=dropout, **options))


def test_likelihood_is_a_sum_over_all_paths(build):
    model = build().eval()
    assert_likelihood_is_a_sum_over_all_paths(model, dense_tables(model, model.tables().active))


@pytest.mark.parametrize(
    ("dtype", "half", "tolerance"),
    [(torch.float64, False, 1e-9), (torch.float32, False, 1e-6), (torch.float32, True, 1e-6)],
)
@pytest.mark.parametrize("training", [False, True])
def test_all_strings_of_length_three_together_are_certain(build, dtype, half, tolerance, training):
    model = build().to(dtype).train(training)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logprobs, _ = model(strings(), model.initial_state(V**3))
    assert logprobs.double().sum(1).exp().sum().item() == pytest.approx(1, abs=tolerance)


def test_half_precision_scores_and_learns_almost_alike(build):
    model = build(state_dropout=0.0).float()
    tokens = words(6, 9)
    results = []
    for half in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logprobs, _ = model(tokens, model.initial_state(6))
        assert logprobs.dtype == torch.float32
        results.append((logprobs, torch.cat([g.flatten() for g in gradient(model, logprobs.mean())])))
    (exact, slope), (rounded, rounded_slope) = results
    assert not rounded.equal(exact)
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.15)
    assert F.cosine_similarity(rounded_slope, slope, dim=0) > 0.99


@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [4, 2], [1, 5]])
def test_window_cuts_do_not_matter(build, cuts):
    assert_window_cuts_do_not_matter(build(state_dropout=0.5), cuts)


def test_rows_at_a_start_and_rows_going_on_share_a_batch(build):
    assert_rows_at_a_start_and_rows_going_on_share_a_batch(build().eval())


def test_frozen_tables_score_alike_and_thaw(build):
    model = build().eval()
    tokens = words(3, 5)
    before, _ = model(tokens, model.initial_state(3))
    with model.frozen():
        torch.testing.assert_close(model(tokens, model.initial_state(3))[0], before, **EXACT)
    with torch.no_grad():
        model.distributions.word.bias += torch.randn(8)
    assert not model(tokens, model.initial_state(3))[0].isclose(before).any()


@pytest.mark.parametrize("clustering", ["brown", "frequency"])
def test_words_are_put_into_the_clusters_of_the_text(clustering):
    text, model = words(100), make("vlhmm", clustering=clustering)
    before = model.cluster.clone()
    model.estimate(SimpleNamespace(splits={"train": text}))
    assert model.cluster.equal(word_clusters(clustering, text, V, 3))
    assert not model.cluster.equal(before)


def test_normalisers_are_computed_once_while_a_model_is_frozen():
    model = make("vlhmm").eval()
    with model.frozen():
        tables = model.current_tables()
        _, transition, _ = dense_tables(model, tables.active)
        u, v = tables.transitions.U.flatten(0, 1), tables.transitions.V.flatten(0, 1)
        torch.testing.assert_close(tables.transitions.total.flatten()[:, None].expand(12, 12), u @ v.T - transition)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("length", [1, 60])
def test_repeated_words_and_huge_parameters_stay_finite_in_single_precision(build, scale, length):
    assert_finite_in_single_precision(build(states=32, clusters=8, state_dropout=0.5), scale, length)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_transitions_that_underflow_leave_every_gradient_finite(build, scale):
    assert_finite_in_single_precision(build(), scale, 50)


@pytest.mark.parametrize("z", [0, 7])
def test_what_is_visible_is_in_the_dense_tables(build, z):
    model = build().eval()
    assert_what_is_visible_is_in_the_tables(model, dense_tables(model, model.tables().active), z)


def test_tokens_have_the_roots_of_posteriors(build):
    model = build().eval()
    assert_tokens_have_the_roots_of_posteriors(model, dense_tables(model, model.tables().active))


def test_transitions_between_clusters_weight_states_by_their_visits(build):
    model = build().eval()
    _, transition, _ = dense_tables(model, model.tables().active)
    visits = torch.tensor([4.0, 0, 1, 3] + [0] * 4 + [1, 1, 0, 0]).double()
    between = transition.exp().view(3, 4, 3, 4).sum(3)
    expected = torch.stack(
        [
            (4 * between[0, 0] + between[0, 2] + 3 * between[0, 3]) / 8,
            between[1].mean(0),
            (between[2, 0] + between[2, 1]) / 2,
        ]
    )
    torch.testing.assert_close(model.cluster_transitions(visits), expected, **EXACT)


def test_paths_of_a_sentence_are_those_of_dense_tables(build):
    model = build().eval()
    tables = dense_tables(model, model.tables().active)
    tokens = words(3, 4)
    chain, lengths = model.chain(tokens, model.initial_state(3)), torch.full((3,), 4)
    found, logprobs = paths.viterbi(chain, lengths)
    gamma = paths.posterior(chain, lengths)
    for b, text in enumerate(tokens.tolist()):
        every, scores = all_paths(*tables, text)
        best = scores.argmax()
        assert tuple(found[b].tolist()) == every[best]
        torch.testing.assert_close(logprobs[b], scores[best], **EXACT)
        visits = torch.zeros(4, 12, dtype=torch.float64)
        for t, z in enumerate(torch.tensor(every).T):
            visits[t].index_add_(0, z, scores.softmax(0))
        torch.testing.assert_close(gamma[b], visits.gather(1, chain.states[chain.block[b]]), **EXACT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": 13}, "model.states=13 is not a multiple of model.clusters=3; the nearest that is: 12"),
        ({"clusters": 9, "states": 9}, "model.clusters=9: there are only 8 words"),
    ],
)
def test_sizes_that_cannot_be_are_errors(build, options, message):
    with pytest.raises(UserError, match=message):
        build(**options)
