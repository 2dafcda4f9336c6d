"""Dense HMMs against plain sums over their tables at small size."""

import pytest
import torch
from hmm_oracle import (
    EXACT,
    V,
    assert_dropout_of_vectors_acts_in_training_alone,
    assert_finite_in_single_precision,
    assert_likelihood_is_a_sum_over_all_paths,
    assert_rows_at_a_start_and_rows_going_on_share_a_batch,
    assert_same_with_gradients,
    assert_tokens_have_the_roots_of_posteriors,
    assert_what_is_visible_is_in_the_tables,
    assert_window_cuts_do_not_matter,
    lse,
    recursion,
    residual,
    strings,
    words,
)

from lmzoo.models.hmm.dense_hmm import DenseHMM
from lmzoo.models.hmm.inference import blocks
from lmzoo.protocol.model import models

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
    """log p(z_1) (Z,), log p(z′ | z) (Z, Z), log p(x | z) (Z, V); states that are not kept have probability 0."""
    dropped = torch.ones(model.states, dtype=torch.bool).index_fill(0, kept, False)
    if hasattr(model, "word"):
        e = model.origin.weight
        start = residual(model.start, e) @ model.first.weight[0]
        transition = residual(model.transition, e) @ model.destination.weight.T
        emission = residual(model.emission, e) @ model.word.weight.T + model.word.bias
    else:
        start, transition, emission = model.start, model.transition, model.emission.T
    start, transition = (x.masked_fill(dropped, -torch.inf) for x in (start, transition))
    return start.log_softmax(0), transition.log_softmax(1), emission.log_softmax(1)


@pytest.mark.parametrize("states", [Z, 1])
def test_likelihood_and_gradients_are_those_of_plain_tables(build, states):
    model = build(states=states)
    tokens, weights = words(5, 7), torch.randn(5, 7, dtype=torch.float64)
    weights[0, 1:], weights[1, 4:] = 0, 0  # padding
    torch.manual_seed(2)
    kept = model.tables().active
    torch.manual_seed(2)
    logprobs, _ = model(tokens, model.initial_state(5))
    expected, _ = recursion(*dense_tables(model, kept), tokens)
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_likelihood_is_a_sum_over_all_paths(build):
    model = build().eval()
    assert_likelihood_is_a_sum_over_all_paths(model, dense_tables(model, torch.arange(Z)))


@pytest.mark.parametrize("z", [0, 3])
def test_what_is_visible_is_in_the_tables(build, z):
    model = build().eval()
    assert_what_is_visible_is_in_the_tables(model, dense_tables(model, torch.arange(Z)), z)


def test_tokens_have_the_roots_of_posteriors(build):
    model = build().eval()
    assert_tokens_have_the_roots_of_posteriors(model, dense_tables(model, torch.arange(Z)))


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


@pytest.mark.parametrize(("dropout", "kept"), [(0.0, 6), (0.25, 4), (0.8, 1)])
def test_dropout_keeps_its_share_of_the_states_and_all_are_back_in_evaluation(dropout, kept):
    model = make_neural(state_dropout=dropout)
    draws = torch.stack([model.tables().active for _ in range(300)])
    assert draws.shape[1] == kept
    times = torch.bincount(draws.flatten(), minlength=Z) / 300
    torch.testing.assert_close(times, torch.full((Z,), kept / Z), atol=0.1, rtol=0)
    assert model.eval().tables().active.tolist() == list(range(Z))


def test_destinations_begin_with_unit_length_and_origins_with_unit_variance():
    model = make_neural(states=500, dim=64)
    assert float(model.destination.weight.detach().square().sum(1).mean()) == pytest.approx(1, abs=0.05)
    assert float(model.origin.weight.detach().square().mean()) == pytest.approx(1, abs=0.05)


def test_belief_is_carried_on_to_the_states_newly_kept(build):
    """The belief in the states of another draw, renormalised, or uniform over them where nothing of it is left."""
    model = build()
    torch.manual_seed(3)
    first, second = model.tables().active, model.tables().active
    belief = torch.full((3, Z), -torch.inf, dtype=torch.float64)
    belief[0], belief[1, first] = torch.randn(Z).double(), torch.randn(len(first)).double()
    belief[2, [z for z in range(Z) if z not in second] or [0]] = 0.0
    torch.manual_seed(3)
    model.tables()
    predicted = model.predict((belief, torch.ones(3, dtype=torch.bool)))
    _, transition, emission = dense_tables(model, second)
    left = torch.full_like(belief, -torch.inf)
    left[:, second] = belief[:, second]
    if len(second) < Z:
        left[2, second] = 0.0
    expected = lse(left.log_softmax(1)[:, :, None] + transition, 1)
    torch.testing.assert_close(predicted, (expected[:, :, None] + emission).logsumexp(1), **EXACT)


def test_chain_is_the_same_model(build):
    model = build().eval()
    tokens = words(3, 5)
    expected, state = model(tokens, model.initial_state(3))
    further, _ = model(tokens, state)
    for before, logprobs in ((model.initial_state(3), expected), (state, further)):
        belief, tiles, pair, emission, block, states = model.chain(tokens, before)
        torch.testing.assert_close(blocks.forward(belief, tiles, pair, emission)[0], logprobs, **EXACT)
        assert states[block].equal(torch.arange(Z).expand(3, 5, Z))


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


@pytest.mark.parametrize("name", ["hmm", "neural_hmm"])
def test_emissions_sum_to_one_over_many_words(name):
    torch.manual_seed(0)
    model = models.build({"name": name} | VARIANTS[name], vocabulary_size=2000).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
        if name == "hmm":
            model.emission[50:] = -12.0
        sums = model.tables().emission.double().exp().sum(0)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=5e-6)
