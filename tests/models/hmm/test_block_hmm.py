"""HMMs of states and words in clusters against plain sums over dense tables at small size."""

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hmm_oracle import (
    EXACT,
    V,
    assert_dropout_of_vectors_acts_in_training_alone,
    assert_finite_in_single_precision,
    assert_rows_at_a_start_and_rows_going_on_share_a_batch,
    assert_same_with_gradients,
    assert_window_cuts_do_not_matter,
    gradient,
    lse,
    residual,
    strings,
    words,
)

from lmzoo.core.errors import UserError
from lmzoo.core.registry import models
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.inference import paths
from lmzoo.models.hmm.lowrank_hmm import POINTING, BlockLowRank, LowRank, LowRankHMM
from lmzoo.models.hmm.twolevel_hmm import TwoLevelHMM
from lmzoo.models.hmm.vlhmm import TableHMM
from lmzoo.protocol.model import Trained

OPTIONS = {
    "states": 12,
    "clusters": 3,
    "clustering": "brown",
    "dim": 6,
    "embeddings": "free",
    "tied": False,
    "dropout": 0.0,
    "state_dropout": 0.5,
    "parent": None,
}
OF_MODEL = {
    "vlhmm": {"parameterisation": "neural"},
    "twolevel_hmm": {},
    "lowrank_hmm": {"features": 4, "feature_map": "exp", "block_features": False},
    "lowrank_hmm, features in clusters": {"feature_map": "softmax", "block_features": True},
}


def make(name: str, **options) -> BlockHMM:
    torch.manual_seed(0)
    settings = {"name": name.partition(",")[0]} | OPTIONS | OF_MODEL[name] | options
    if settings.get("block_features"):  # a feature for every two states, where that is possible
        pairs = settings["states"] // settings["clusters"] % 2 == 0
        settings = {"features": settings["states"] // (2 if pairs else 1)} | settings
    model = models.build(settings, vocabulary_size=V).double()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name:  # fresh ones are all 1 or 0
            torch.nn.init.normal_(parameter)
    return model


@pytest.fixture(params=OF_MODEL)
def build(request) -> Callable[..., BlockHMM]:
    return lambda **options: make(request.param, **options)


def vectors(embedding):
    if isinstance(embedding, torch.nn.Embedding):
        return embedding.weight
    clusters, states = embedding.cluster.weight, embedding.state.weight
    return torch.cat([clusters.repeat_interleave(len(states) // len(clusters), 0), states], 1)


def dense_tables(model, kept):
    """log p(z_1) (Z,), log p(z′ | z) (Z, Z), log p(x | z) (Z, V), -inf where a state is not kept or a word not its."""
    M, S = model.clusters, model.size
    dropped = torch.ones(M, S, dtype=torch.bool).scatter(1, kept[:M], False).flatten()
    outside = model.cluster != torch.arange(M * S)[:, None] // S
    if isinstance(model, TableHMM):
        both = model.start, model.transition
        start, transition = (x.masked_fill(dropped, -torch.inf).log_softmax(-1) for x in both)
        emission = torch.stack([model.emission[:, state % S] for state in range(M * S)])
        return start, transition, emission.masked_fill(outside, -torch.inf).log_softmax(1), dropped
    e = vectors(model.origin)
    v = e if model.tied else vectors(model.destination)
    v = residual(model.target, v) if model.factored else v
    if not isinstance(model, TwoLevelHMM):
        start = (residual(model.start, e) @ model.first.weight[0]).masked_fill(dropped, -torch.inf).log_softmax(0)
    transition = (residual(model.transition, e) @ v.T).masked_fill(dropped, -torch.inf)
    if isinstance(model, LowRankHMM):
        half = 0.5 * (model.feature_map == "softmax_kernel") / model.dim
        u, W = residual(model.transition, e), model.feature_vectors
        phi = [(x @ w.T - half * (x * x).sum(1, keepdim=True)).exp() for x, w in ((u, W), (v, model.targets))]
        if model.block_features:
            phi[0] = phi[0] * ~dropped.view(len(W), -1).all(1)  # features all of whose states are dropped
            phi[1] = phi[1] * torch.block_diag(*torch.ones(M, S, len(W) // M))
        if model.feature_map == "softmax":
            total = phi[1].masked_fill(dropped[:, None], 0.0).sum(0)
            phi[1] = phi[1] / total.where(total > 0, 1.0)
        transition = (phi[0] @ phi[1].T).log().masked_fill(dropped, -torch.inf).log_softmax(1)
    elif isinstance(model, TwoLevelHMM):
        e = torch.cat([e, model.boundary[None]])  # one more state, which nothing leads to
        arrival = residual(model.arrival, e) @ model.next_cluster.weight.T + model.next_cluster.bias
        inside = (residual(model.transition, e) @ v.T).masked_fill(dropped, -torch.inf).view(-1, M, S).log_softmax(2)
        transition = (arrival.log_softmax(1)[:, :, None] + inside).flatten(1)
        transition, start, e = transition[:-1], transition[-1], e[:-1]
    else:
        transition = transition.log_softmax(1)
    emission = residual(model.emission, e) @ model.word.weight.T + model.word.bias
    return start, transition, emission.masked_fill(outside, -torch.inf).log_softmax(1), dropped


def dense_forward(model, tokens, kept, before=None):
    """log p(x_t | x_<t) (B, T) and the last dense belief (B, Z) by the plain masked recursion in log space."""
    start, transition, emission, dropped = dense_tables(model, kept)
    logprobs, belief = [], None
    if before is not None:  # what is left of a belief under another mask
        cluster = torch.arange(len(dropped)) // model.size
        own = cluster == model.cluster[before[1]][:, None]
        belief = before[0].masked_fill(dropped, -torch.inf)
        lost = ~belief.gt(-1e200).any(1, keepdim=True)
        belief = belief.where(~lost, torch.zeros(()).double()).masked_fill(dropped | ~own, -torch.inf)
        belief = belief - lse(belief, 1)[:, None]
    for t in range(tokens.shape[1]):
        prior = start if belief is None else lse(belief[:, :, None] + transition, 1)
        score = prior + emission.T[tokens[:, t]]
        logprobs.append(lse(score, 1))
        belief = score - logprobs[-1][:, None]
    return torch.stack(logprobs, 1), belief


SWITCHES = [
    ("vlhmm", {"parameterisation": "table"}),
    *((name, {"tied": True}) for name in OF_MODEL),
    *((name, {"embeddings": "factored"}) for name in OF_MODEL),
    *((name, {"embeddings": "factored", "tied": True, "dim": 7}) for name in OF_MODEL),
    ("lowrank_hmm", {"feature_map": "softmax_kernel", "features": 7}),
    ("lowrank_hmm, features in clusters", {"feature_map": "softmax_kernel", "features": 3}),
    ("lowrank_hmm, features in clusters", {"features": 12}),
    ("lowrank_hmm", {"feature_map": "softmax", "tied": True}),
    ("lowrank_hmm, features in clusters", {"feature_map": "exp"}),
]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(("name", "options"), SWITCHES, ids=str)
def test_every_switch_leaves_likelihood_and_gradients_exact(name, options, dropout):
    agrees_with_dense_tables(make(name, state_dropout=dropout, **options))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    "options",
    [{}, {"clusters": 1}, {"clusters": 8, "states": 8}, {"clusters": 8, "states": 24}, {"clusters": 4, "states": 20}],
    ids=["plain", "one cluster", "one state and word each", "one word each", "odd number"],
)
def test_likelihood_and_gradients_are_those_of_dense_tables(build, options, dropout):
    agrees_with_dense_tables(build(state_dropout=dropout, **options))


def agrees_with_dense_tables(model):
    tokens, weights = words(5, 7), torch.randn(5, 7, dtype=torch.float64)
    weights[0, 1:], weights[1, 4:] = 0, 0  # padding
    torch.manual_seed(2)
    kept = model.tables().kept
    torch.manual_seed(2)
    logprobs, _ = model(tokens, model.initial_state(5))
    expected, _ = dense_forward(model, tokens, kept)
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_likelihood_is_a_sum_over_all_state_paths(build):
    model = build().eval()
    start, transition, emission, _ = dense_tables(model, model.tables().kept)
    tokens = words(2, 3)
    logprobs, _ = model(tokens, model.initial_state(2))
    for row, ours in zip(tokens.tolist(), logprobs.sum(1), strict=True):
        total = 0.0
        for i, j, k in itertools.product(range(12), repeat=3):
            path = start[i] + transition[i, j] + transition[j, k]
            total += (path + emission[i, row[0]] + emission[j, row[1]] + emission[k, row[2]]).exp()
        torch.testing.assert_close(ours.exp(), total, **EXACT)


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


@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.75])
def test_belief_is_carried_on_to_the_states_newly_kept(build, dropout):
    model = build(state_dropout=dropout)
    tokens, weights = words(40, 5), torch.randn(40, 5, dtype=torch.float64)
    torch.manual_seed(3)
    first, second = model.tables().kept, model.tables().kept
    torch.manual_seed(3)
    left, state = model(tokens[:, :3], model.initial_state(40))
    right, _ = model(tokens[:, 3:], state)
    expected_left, belief = dense_forward(model, tokens[:, :3], first)
    expected_right, _ = dense_forward(model, tokens[:, 3:], second, before=(belief, tokens[:, 2]))
    logprobs, expected = torch.cat([left, right], 1), torch.cat([expected_left, expected_right], 1)
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_rows_at_a_start_and_rows_going_on_share_a_batch(build):
    assert_rows_at_a_start_and_rows_going_on_share_a_batch(build().eval())


@pytest.mark.parametrize(
    ("size", "dropout", "expected"), [(4, 0.5, 2), (8, 0.5, 4), (4, 0.9, 1), (5, 0.25, 4), (1, 0.5, 1)]
)
def test_dropout_keeps_its_share_of_every_cluster_and_all_states_are_back_in_evaluation(build, size, dropout, expected):
    model = build(states=3 * size, state_dropout=dropout)
    draws = torch.stack([model.tables().kept[:3] for _ in range(200)])  # (200, M, K)
    in_groups = isinstance(model, LowRankHMM) and model.block_features and size % 2 == 0
    assert model.together == (2 if in_groups else 1)
    expected = max(expected, model.together)
    assert draws.shape[2] == expected
    for group in draws.unfold(2, model.together, model.together).flatten(0, 2):
        assert group.tolist() == list(range(group[0], group[0] + model.together))
        assert group[0] % model.together == 0
    times = F.one_hot(draws, size).sum(2)  # (200, M, S)
    assert times.max() == 1
    assert (times.double().mean(0) - expected / size).abs().max() < 0.15
    assert model.eval().tables().kept[:3].tolist() == [list(range(size))] * 3


@pytest.mark.parametrize("embeddings", ["free", "factored"])
def test_dropout_of_vectors_acts_in_training_alone_and_leaves_strings_certain(build, embeddings):
    assert_dropout_of_vectors_acts_in_training_alone(
        lambda p: build(embeddings=embeddings, dropout=p, state_dropout=0.0)
    )


def test_frozen_tables_score_alike_and_thaw(build):
    model = build().eval()
    tokens = words(3, 5)
    before, _ = model(tokens, model.initial_state(3))
    with model.frozen():
        torch.testing.assert_close(model(tokens, model.initial_state(3))[0], before, **EXACT)
    with torch.no_grad():
        model.word.bias += torch.randn(8)
    assert not model(tokens, model.initial_state(3))[0].isclose(before).any()


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("length", [1, 60])
def test_repeated_words_and_huge_parameters_stay_finite_in_single_precision(build, scale, length):
    assert_finite_in_single_precision(build(states=32, clusters=8, state_dropout=0.5), scale, length)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_transitions_that_underflow_leave_every_gradient_finite(build, scale):
    assert_finite_in_single_precision(build(), scale, 50)


def test_frozen_within_frozen_is_the_same_draw(build):
    model = build(state_dropout=0.5)
    tokens = words(3, 5)
    with model.frozen():
        outer, _ = model(tokens, model.initial_state(3))
        with model.frozen():
            inner, _ = model(tokens, model.initial_state(3))
        after, _ = model(tokens, model.initial_state(3))
    assert inner.equal(outer)
    assert after.equal(outer)
    assert not model(tokens, model.initial_state(3))[0].equal(outer)


@pytest.mark.parametrize(
    ("name", "scale"), [("vlhmm", 64**-0.5), ("twolevel_hmm", 64**-0.5), ("lowrank_hmm", 64**-0.25)]
)
@pytest.mark.parametrize("options", [{}, {"tied": True}, {"embeddings": "factored"}], ids=str)
def test_vectors_of_fresh_states_are_as_long_as_documented(name, scale, options):
    torch.manual_seed(0)
    sizes = {"states": 600, "dim": 64, "features": 3, "state_dropout": 0.0}
    known = OPTIONS | OF_MODEL[name]
    settings = known | {option: value for option, value in (sizes | options).items() if option in known}
    model = models.build({"name": name} | settings, vocabulary_size=V)
    states = torch.arange(600).view(3, 200)
    e = model.origin(states)
    v = model.destinations(e, states)
    if name == "lowrank_hmm" and options.get("embeddings") != "factored":
        v = v - POINTING * model.targets[states * 3 // 600]  # a third of the states to each feature
    assert v.std().item() == pytest.approx(scale, rel=0.1)
    if "tied" not in options:
        assert e.std().item() == pytest.approx(0.1, rel=0.1)


NEURAL = [(name, options) for name, options in SWITCHES if "parameterisation" not in options]


@pytest.mark.parametrize(("name", "options"), NEURAL, ids=str)
def test_split_states_say_what_their_parent_said(name, options, monkeypatch):
    parent = make(name, **options)
    more = {"features": 2 * len(parent.feature_vectors)} if isinstance(parent, LowRankHMM) else {}
    child = make(name, **options | {"states": 48} | more)
    parent.cluster.copy_(parent.cluster.flip(0))
    tokens = words(6, 5)
    expected, _ = parent.eval()(tokens, parent.initial_state(6))
    child.inherit([Trained("parent", {}, parent)])
    logprobs, _ = child.eval()(tokens, child.initial_state(6))
    assert (logprobs - expected).abs().max() > 1e-6
    twins = vectors(child.origin).view(12, 4, -1)
    assert (twins[:, 0] - twins[:, 1]).norm() < 0.3 * twins[:, 0].norm()
    assert (twins[:, 0] - twins[:, 1]).norm(dim=1).min() > 0
    monkeypatch.setattr("lmzoo.models.hmm.splitting.SPLIT_NOISE", 0)
    child.inherit([Trained("parent", {}, parent)])
    logprobs, _ = child.eval()(tokens, child.initial_state(6))
    torch.testing.assert_close(logprobs, expected, **EXACT)


def test_what_there_is_to_see_is_in_the_dense_tables(build):
    model = build().eval()
    _, transition, emission, _ = dense_tables(model, model.tables().kept)
    for state in (0, 7):
        torch.testing.assert_close(model.successors(state), transition[state], **EXACT)
        torch.testing.assert_close(model.words(state), emission[state], **EXACT)
        torch.testing.assert_close(model.next_words(state).exp(), transition[state].exp() @ emission.exp(), **EXACT)
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


def test_factored_and_tied_vectors_make_the_papers_model():
    options = {"states": 2**15, "clusters": 128, "dim": 256, "embeddings": "factored", "tied": True}
    settings = {"name": "vlhmm", "parameterisation": "neural"} | OPTIONS | options
    model = models.build(settings, vocabulary_size=10_000)
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 1) == 7.7


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


def test_features_that_cannot_be_shared_out_evenly_are_an_error():
    message = (
        "model.features=9 has to divide model.states=12 and be a multiple of model.clusters=3, .* one of 3, 6, 12$"
    )
    with pytest.raises(UserError, match=message):
        make("lowrank_hmm, features in clusters", features=9)


def test_paths_of_a_sentence_are_those_of_dense_tables(build):
    model = build().eval()
    start, transition, emission, _ = dense_tables(model, model.tables().kept)
    tokens = words(3, 5)
    chain, lengths = model.chain(tokens, model.initial_state(3)), torch.full((3,), 5)
    found, logprobs = paths.viterbi(chain, lengths)
    gamma, total = paths.posterior(chain, lengths)
    for b, x in enumerate(tokens):
        e = emission[:, x].T  # (T, Z)
        best, alpha, beta = start + e[0], [start + e[0]], [torch.zeros(12).double()]
        for t in range(1, 5):
            best = (best[:, None] + transition).amax(0) + e[t]
            alpha.append(lse(alpha[-1][:, None] + transition, 0) + e[t])
            beta.append(lse(transition + e[-t] + beta[-1], 1))
        torch.testing.assert_close(logprobs[b], best.max(), **EXACT)
        z = found[b]
        along = start[z[0]] + transition[z[:-1], z[1:]].sum() + emission[z, x].sum()
        torch.testing.assert_close(along, best.max(), **EXACT)
        torch.testing.assert_close(total[b], lse(alpha[-1], 0), **EXACT)
        expected = (torch.stack(alpha) + torch.stack(beta[::-1])).softmax(1)
        torch.testing.assert_close(gamma[b], expected.gather(1, chain.states[chain.block[b]]), **EXACT)


@pytest.mark.parametrize(
    ("features", "dim", "tied", "block_features"),
    [(48, 64, False, False), (24, 64, True, False), (8, 64, False, False), (48, 64, True, True), (24, 16, False, True)],
)
@pytest.mark.parametrize("feature_map", ["exp", "softmax"])
def test_a_fresh_models_features_lead_to_states_of_their_own(features, dim, tied, block_features, feature_map):
    sizes = {"states": 48, "clusters": 4, "dim": dim, "features": features, "tied": tied}
    maps = {"block_features": block_features, "feature_map": feature_map}
    transitions = make("lowrank_hmm", **sizes, **maps).eval().tables().transitions
    if isinstance(transitions, BlockLowRank):
        to_state = torch.block_diag(*transitions.Q)  # (f, 48)
    else:
        assert isinstance(transitions, LowRank)
        to_state = transitions.Q.flatten(0, 1).T
    own = to_state.view(features, features, -1)[range(features), range(features)]  # of each feature's own states
    assert (own.sum(1) > 0.5).all()
    assert (own > 0.1 / own.shape[1]).all()
