"""The two-level HMM with a history of clusters against plain sums over dense tables, made anew for every word."""

import pytest
import torch
from block_hmm_oracle import OPTIONS, full_logits, is_dropped, vectors
from hmm_oracle import (
    EXACT,
    V,
    all_paths,
    assert_finite_in_single_precision,
    assert_rows_at_a_start_and_rows_going_on_share_a_batch,
    assert_same_with_gradients,
    assert_window_cuts_do_not_matter,
    lse,
    residual,
    strings,
    words,
)
from torch import Tensor

from lmzoo.models.hmm.history_hmm import HistoryHMM
from lmzoo.models.hmm.inference import paths
from lmzoo.protocol.model import models

M, S = 3, 4


def make(**options) -> HistoryHMM:
    torch.manual_seed(0)
    model = models.build(
        {"name": "history_hmm", "history": 2, "history_dropout": 0.0} | OPTIONS | options, vocabulary_size=V
    ).double()
    for name, parameter in model.named_parameters():
        if "norm" in name or "past" in name:  # as large as what is learnt, so that the history matters
            torch.nn.init.normal_(parameter)
    return model


def tables_after(model: HistoryHMM, kept: Tensor, text: list[int]) -> tuple[Tensor, Tensor]:
    """log p(z_t | z_{t-1}) (Z, Z), or of the first word (1, Z), and log p(x_t | z_t) (Z, V), after the words before."""
    past = [M] * model.history + model.cluster[text].tolist()
    rows = [(M + 1) * place + c for place, c in enumerate(past[-model.history :])]
    y, dropped = model.past.weight[rows].sum(0), is_dropped(model, kept)
    e = vectors(model.origin)
    v = e if model.tied else vectors(model.destination)
    v = residual(model.target, v) if model.factored else v
    f = model.word.weight @ residual(model.past_word, y)
    outside = model.cluster != torch.arange(M * S)[:, None] // S
    emission = residual(model.emission, e) @ model.word.weight.T + model.word.bias + f
    origins = e if text else model.boundary[None]
    arrival = residual(model.arrival, origins) @ model.next_cluster.weight.T + model.next_cluster.bias
    inside = full_logits(model, origins, v)
    if text:
        arrival = arrival + residual(model.past_cluster, y) @ model.next_cluster.weight.T
        inside = inside + v @ residual(model.past_state, y)
    inside = inside.masked_fill(dropped, -torch.inf).view(-1, M, S).log_softmax(2)
    transition = (arrival.log_softmax(1)[:, :, None] + inside).flatten(1)
    return transition, emission.masked_fill(outside, -torch.inf).log_softmax(1)


def expected_logprobs(model: HistoryHMM, kept: Tensor, text: list[int]) -> Tensor:
    """(T,) log p(x_t | x_<t) by the recursion over all states."""
    logprobs, belief = [], torch.zeros(1).double()
    for t, word in enumerate(text):
        transition, emission = tables_after(model, kept, text[:t])
        score = lse(belief[:, None] + transition, 0) + emission[:, word]
        logprobs.append(lse(score, 0))
        belief = score - logprobs[-1]
    return torch.stack(logprobs)


def joint(model: HistoryHMM, kept: Tensor, text: list[int]) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every path for a text, and log p(z, x) of each."""
    tables = [tables_after(model, kept, text[:t]) for t in range(len(text))]
    nothing = torch.zeros(M * S, M * S).double(), torch.zeros(M * S, V).double()
    every, score = all_paths(nothing[0][0], *nothing, text)
    z = torch.tensor(every)
    for t, (transition, emission) in enumerate(tables):
        score = score + transition[z[:, t - 1] if t else 0, z[:, t]] + emission[z[:, t], text[t]]
    return every, score


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"history": 1},
        {"history": 5},
        {"tied": True},
        {"embeddings": "factored"},
        {"embeddings": "factored", "tied": True},
    ],
    ids=str,
)
def test_likelihood_and_gradients_are_those_of_dense_tables(options, dropout):
    model, tokens = make(state_dropout=dropout, **options), words(5, 7)
    weights = torch.randn(5, 7, dtype=torch.float64)
    torch.manual_seed(2)
    kept = model.tables().kept
    torch.manual_seed(2)
    logprobs, _ = model(tokens, model.initial_state(5))
    expected = torch.stack([expected_logprobs(model, kept, text) for text in tokens.tolist()])
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_the_history_matters():
    model = make().eval()
    texts = torch.tensor([[0, 3, 5, 1], [4, 3, 5, 1]])
    assert model.cluster[0] != model.cluster[4]
    with torch.no_grad():
        for part in (model.arrival, model.transition, model.emission):
            part.norm.weight.zero_()  # now all states are alike
    logprobs, _ = model(texts, model.initial_state(2))
    assert logprobs[0, 2] != logprobs[1, 2]  # two words before
    torch.testing.assert_close(logprobs[0, 3], logprobs[1, 3], **EXACT)  # three words before


@pytest.mark.parametrize(("half", "tolerance"), [(False, 1e-6), (True, 1e-6)])
@pytest.mark.parametrize("training", [False, True])
def test_all_strings_of_length_three_together_are_certain(half, tolerance, training):
    model = make().float().train(training)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logprobs, _ = model(strings(), model.initial_state(V**3))
    assert logprobs.double().sum(1).exp().sum().item() == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [4, 2], [1, 5]])
@pytest.mark.parametrize("history", [1, 3])
def test_window_cuts_do_not_matter(cuts, history):
    assert_window_cuts_do_not_matter(make(history=history), cuts)


def test_rows_at_a_start_and_rows_going_on_share_a_batch():
    assert_rows_at_a_start_and_rows_going_on_share_a_batch(make().eval())


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_huge_parameters_stay_finite_in_single_precision(scale):
    assert_finite_in_single_precision(make(states=32, clusters=8), scale, 60)


def test_dropout_acts_in_training_alone():
    dropped, whole = (make(history_dropout=dropout, state_dropout=0.0) for dropout in (0.5, 0.0))
    state = dropped.initial_state(V**3)
    assert not dropped(strings(), state)[0].eq(dropped(strings(), state)[0]).any()
    torch.testing.assert_close(dropped.eval()(strings(), state)[0], whole(strings(), state)[0], **EXACT)


def test_paths_of_a_sentence_are_those_of_dense_tables():
    model = make().eval()
    kept, tokens = model.tables().kept, words(3, 4)
    chain, lengths = model.chain(tokens, model.initial_state(3)), torch.full((3,), 4)
    found, logprobs = paths.viterbi(chain, lengths)
    gamma, total = paths.posterior(chain, lengths)
    drawn = torch.stack([paths.sample(chain, lengths, torch.Generator().manual_seed(seed)) for seed in range(300)], 1)
    for b, text in enumerate(tokens.tolist()):
        every, scores = joint(model, kept, text)
        assert tuple(found[b].tolist()) == every[scores.argmax()]
        torch.testing.assert_close(logprobs[b], scores.max(), **EXACT)
        torch.testing.assert_close(total[b], scores.logsumexp(0), **EXACT)
        visits = torch.zeros(4, M * S, dtype=torch.float64)
        for t, z in enumerate(torch.tensor(every).T):
            visits[t].index_add_(0, z, scores.softmax(0))
        torch.testing.assert_close(gamma[b], visits.gather(1, chain.states[chain.block[b]]), **EXACT)
        shares = torch.stack([(drawn[b, :, t, None] == torch.arange(M * S)).double().mean(0) for t in range(4)])
        assert (shares - visits).abs().max() < 0.12  # four standard errors


def test_what_is_shown_of_a_state():
    model = make().eval()
    kept = model.tables().kept
    first = model.cluster.tolist().index(1)  # any word of the cluster of state 5
    transition, emission = tables_after(model, kept, [first])
    torch.testing.assert_close(model.next_words(5).exp(), transition[5].exp() @ emission.exp(), **EXACT)
    torch.testing.assert_close(model.words(5).exp().sum(), torch.ones(()).double(), **EXACT)
    torch.testing.assert_close(model.successors(5).exp().sum(), torch.ones(()).double(), **EXACT)
