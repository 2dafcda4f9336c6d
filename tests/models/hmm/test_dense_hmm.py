"""Dense HMMs against plain sums over their tables at small size, and EM against its own promise."""

import dataclasses
import itertools
import logging
import math
import re

import pytest
import torch
from hmm_oracle import (
    EXACT,
    V,
    assert_dropout_of_vectors_acts_in_training_alone,
    assert_finite_in_single_precision,
    assert_rows_at_a_start_and_rows_going_on_share_a_batch,
    assert_same_with_gradients,
    assert_window_cuts_do_not_matter,
    lse,
    residual,
    strings,
    words,
)

from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import Window
from lmzoo.models.hmm.dense_hmm import DenseHMM
from lmzoo.models.hmm.inference import baum_welch, blocks
from lmzoo.models.hmm.inference.baum_welch import Parameters
from lmzoo.protocol.perplexity import score

Z = 6
VARIANTS = {
    "neural_hmm": {"states": Z, "dim": 5, "dropout": 0.0, "state_dropout": 0.0},
    "neural_hmm, dropout": {"states": Z, "dim": 5, "dropout": 0.0, "state_dropout": 0.5},
    "hmm": {"states": Z, "begin": "random", "iterations": 0, "pseudocount": 0.0, "gradient": True},
}


@pytest.fixture(params=VARIANTS)
def build(request):
    def build(**options) -> DenseHMM:
        torch.manual_seed(0)
        settings = {"name": request.param.partition(",")[0]} | VARIANTS[request.param] | options
        model = models.build(settings, vocabulary_size=V).double()
        for parameter in model.parameters():  # fresh ones of norms and plain tables are all alike
            torch.nn.init.normal_(parameter)
        return model

    return build


def make_neural(**options) -> DenseHMM:
    torch.manual_seed(0)
    return models.build({"name": "neural_hmm"} | VARIANTS["neural_hmm"] | options, vocabulary_size=V).double()


def dense_tables(model, kept):
    """log p(z_1) (Z,), log p(z′ | z) (Z, Z), log p(x | z) (Z, V), states that are not kept being no outcome."""
    dropped = torch.ones(Z, dtype=torch.bool).index_fill(0, kept, False)
    if hasattr(model, "word"):
        e = model.origin.weight
        start = residual(model.start, e) @ model.first.weight[0]
        transition = residual(model.transition, e) @ model.destination.weight.T
        emission = residual(model.emission, e) @ model.word.weight.T + model.word.bias
    else:
        start, transition, emission = model.start, model.transition, model.emission.T
    start, transition = (x.masked_fill(dropped, -torch.inf) for x in (start, transition))
    return start.log_softmax(0), transition.log_softmax(1), emission.log_softmax(1)


def dense_forward(model, tokens, kept):
    """log p(x_t | x_<t) (B, T) by the plain recursion in log space."""
    start, transition, emission = dense_tables(model, kept)
    logprobs, prior = [], start.expand(len(tokens), -1)
    for t in range(tokens.shape[1]):
        score = prior + emission.T[tokens[:, t]]
        logprobs.append(lse(score, 1))
        prior = lse((score - logprobs[-1][:, None])[:, :, None] + transition, 1)
    return torch.stack(logprobs, 1)


@pytest.mark.parametrize("states", [Z, 1])
def test_likelihood_and_gradients_are_those_of_plain_tables(build, states, monkeypatch):
    monkeypatch.setitem(globals(), "Z", states)
    model = build(states=states)
    tokens, weights = words(5, 7), torch.randn(5, 7, dtype=torch.float64)
    weights[0, 1:], weights[1, 4:] = 0, 0  # padding
    torch.manual_seed(2)
    kept = model.tables().kept
    torch.manual_seed(2)
    logprobs, _ = model(tokens, model.initial_state(5))
    expected = dense_forward(model, tokens, kept)
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_likelihood_is_a_sum_over_all_state_paths(build):
    model = build().eval()
    start, transition, emission = dense_tables(model, torch.arange(Z))
    tokens = words(2, 3)
    logprobs, _ = model(tokens, model.initial_state(2))
    for row, ours in zip(tokens.tolist(), logprobs.sum(1), strict=True):
        total = 0.0
        for path in itertools.product(range(Z), repeat=3):
            arcs = start[path[0]] + sum(transition[i, j] for i, j in itertools.pairwise(path))
            total += (arcs + sum(emission[z, x] for z, x in zip(path, row, strict=True))).exp()
        torch.testing.assert_close(ours.exp(), total, **EXACT)


@pytest.mark.parametrize(
    ("dtype", "half", "tolerance"),
    [(torch.float64, False, 1e-9), (torch.float32, False, 1e-6), (torch.float32, True, 1e-6)],
)
@pytest.mark.parametrize("training", [False, True])
def test_all_strings_of_length_three_together_are_certain(build, dtype, half, tolerance, training):
    model = build().to(dtype).train(training)
    start = model.initial_state(V**3)
    with torch.autocast("cpu", torch.bfloat16, enabled=half and model.autocast):
        logprobs, _ = model(strings(), start)
        with model.frozen():
            first, state = model(strings()[:, :1], start)
            rest, _ = model(strings()[:, 1:], state)
    for scores in (logprobs, torch.cat([first, rest], 1)):
        assert scores.double().sum(1).exp().sum().item() == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [4, 2], [1, 5]])
def test_window_cuts_do_not_matter(build, cuts):
    assert_window_cuts_do_not_matter(build(), cuts)


def test_rows_at_a_start_and_rows_going_on_share_a_batch(build):
    assert_rows_at_a_start_and_rows_going_on_share_a_batch(build().eval())


def test_belief_is_carried_on_to_the_states_newly_kept(build):
    """What is left of the belief after another draw, renormalised; anything where nothing is left."""
    model = build()
    torch.manual_seed(3)
    first, second = model.tables(), model.tables()
    belief = torch.full((2, Z), -torch.inf, dtype=torch.float64)
    belief[0], belief[1, first.kept] = torch.randn(Z).double(), torch.randn(len(first.kept)).double()
    only = torch.full((1, Z), -torch.inf, dtype=torch.float64)
    only[0, [z for z in range(Z) if z not in second.kept] or [0]] = 0.0
    model._frozen = second
    predicted = model.predict((torch.cat([belief, only]), torch.ones(3, dtype=torch.bool)))
    assert predicted.isfinite().all()
    _, transition, emission = dense_tables(model, second.kept)
    left = torch.full((Z,), -torch.inf, dtype=torch.float64).index_copy(0, second.kept, belief[0][second.kept])
    expected = lse((left.log_softmax(0)[:, None] + transition), 0)
    torch.testing.assert_close(predicted[0], (expected[:, None] + emission).logsumexp(0), **EXACT)


def test_chain_is_the_same_model(build):
    model = build().eval()
    tokens = words(3, 5)
    expected, state = model(tokens, model.initial_state(3))
    further, _ = model(tokens, state)
    for before, logprobs in ((model.initial_state(3), expected), (state, further)):
        belief, tiles, pair, emission, block, states = model.chain(tokens, before)
        torch.testing.assert_close(blocks.forward(belief, tiles, pair, emission)[0], logprobs, **EXACT)
        assert states[block].shape == (3, 5, Z)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("length", [1, 60])
def test_repeated_words_and_huge_parameters_stay_finite_in_single_precision(build, scale, length):
    assert_finite_in_single_precision(build(), scale, length)


def test_dropout_of_vectors_acts_in_training_alone_and_leaves_strings_certain():
    assert_dropout_of_vectors_acts_in_training_alone(lambda p: make_neural(dropout=p))


@pytest.mark.parametrize("half", [False, True])
def test_predictions_are_in_single_precision_and_sum_to_one(build, half):
    model = build().float().eval()
    with torch.autocast("cpu", torch.bfloat16, enabled=half and model.autocast):
        _, state = model(words(4, 3), model.initial_state(4))
        logprobs = torch.cat([model.predict(state), model.next_words(1)[None]])
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(5), rtol=0, atol=1e-5)


def parameters(scale: float = 1.0) -> Parameters:
    random = torch.Generator().manual_seed(0)
    start, transition, emission = (
        scale * torch.randn(*shape, generator=random, dtype=torch.float64) for shape in [(3,), (3, 3), (V, 3)]
    )
    return Parameters(start.log_softmax(0), transition.log_softmax(1), emission.log_softmax(0))


def text(*shape: int) -> tuple[torch.Tensor, list[Window]]:
    tokens = words(*shape)
    tokens[:, -1] = 0
    return tokens, [Window(tokens, None, torch.zeros_like(tokens), starts=True)]


def test_expected_counts_are_sums_over_all_paths():
    tables = parameters()
    tokens, windows = text(4, 5)
    counts, loglikelihood = baum_welch.expected_counts(tables, windows)
    expected, total = Parameters(*(torch.zeros_like(table) for table in tables)), 0.0
    for row in tokens.tolist():
        paths = list(itertools.product(range(3), repeat=5))
        scores = torch.stack(
            [
                tables.start[path[0]]
                + sum(tables.transition[arc] for arc in itertools.pairwise(path))
                + sum(tables.emission[x, z] for x, z in zip(row, path, strict=True))
                for path in paths
            ]
        )
        total += float(scores.logsumexp(0))
        for path, weight in zip(paths, scores.softmax(0), strict=True):
            expected.start[path[0]] += weight
            for arc in itertools.pairwise(path):
                expected.transition[arc] += weight
            for x, z in zip(row, path, strict=True):
                expected.emission[x, z] += weight
    assert loglikelihood == pytest.approx(total, rel=1e-12)
    for ours, theirs in zip(counts, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_em_never_lowers_what_it_maximises(pseudocount):
    tables, objectives = parameters(), []
    _, windows = text(30, 9)
    for _ in range(60):
        counts, loglikelihood = baum_welch.expected_counts(tables, windows)
        prior = sum(float(table.sum()) for table in tables) if pseudocount else 0.0
        objectives.append(loglikelihood + pseudocount * prior)
        tables = baum_welch.maximise(counts, pseudocount, tables)
        for table, outcomes in zip(tables, (0, 1, 0), strict=True):
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
    # clusters are 0 1 2 0 1 0 2: each follows twice, and cluster 0 is followed by 1, 1 and 2
    follows = torch.tensor([0, 2, 1])
    torch.testing.assert_close(tables.transition[0].exp(), (follows + (0.1 * 3 + 1) / 3) / (3 + 0.1 * 3 + 1))
    assert tables.start.argmax() == 0
    assert all(
        torch.allclose(table.exp().sum(outcomes), torch.ones(()))
        for table, outcomes in zip(tables, (0, 1, 0), strict=True)
    )


def test_random_start_says_words_as_often_as_they_occur():
    torch.manual_seed(0)
    tokens = torch.tensor([1] * 98 + [2] * 8 + [0])
    emission = baum_welch.random_start(tokens, 3, 5000).emission.exp()  # (V, Z), a Dirichlet draw for each state
    assert (emission[1] > emission[2]).double().mean().item() == pytest.approx(99 / (99 + 9), abs=0.02)
    assert (emission[2] > emission[0]).double().mean().item() == pytest.approx(9 / (9 + 2), abs=0.02)


def test_estimate_adds_its_pseudocount(corpus: Corpus):
    options = {"name": "hmm", "states": 1, "begin": "random", "iterations": 1, "gradient": False}
    model = models.build(options | {"pseudocount": 2.5}, vocabulary_size=150)
    model.estimate(dataclasses.replace(corpus, context="sentence"))
    counts = torch.bincount(corpus.train, minlength=150) + 2.5
    torch.testing.assert_close(model.tables().emission[:, 0].exp(), counts / counts.sum())


@pytest.mark.parametrize("begin", ["random", "clusters"])
@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_em_learns_from_a_text_and_says_so(corpus: Corpus, begin, context, caplog):
    corpus = dataclasses.replace(corpus, context=context)
    options = {"name": "hmm", "states": 7, "begin": begin, "iterations": 15, "pseudocount": 0.0, "gradient": False}
    torch.manual_seed(0)
    model = models.build(options, vocabulary_size=150).double()
    with caplog.at_level(logging.INFO):
        model.estimate(corpus)
    reported = torch.tensor([float(x) for x in re.findall(r"log-likelihood of (-[\d.]+)", caplog.text)])
    assert len(reported) == 15
    assert reported.diff().min() >= 0
    assert reported[-1] - reported[0] > 0.05
    if context == "sentence":  # in which EM and `score` begin at the same places
        assert score(model, corpus.train, context).perplexity < math.exp(-float(reported[-1]))


def test_gradient_training_starts_where_em_stops(corpus: Corpus):
    pair = []
    for gradient_training in (False, True):
        torch.manual_seed(0)
        options = {"name": "hmm", "states": 4, "begin": "random", "iterations": 2, "pseudocount": 0.1}
        pair.append(models.build(options | {"gradient": gradient_training}, vocabulary_size=150))
        pair[-1].estimate(corpus)
    fixed, learning = pair
    assert not list(fixed.parameters())
    assert {name for name, _ in learning.named_parameters()} == {"start", "transition", "emission"}
    for name, table in learning.named_parameters():
        torch.testing.assert_close(table.detach(), fixed.get_buffer(name))
