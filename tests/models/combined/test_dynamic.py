"""Dynamic evaluation against a plain loop written with autograd."""

import copy

import pytest
import torch

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import StreamWindows
from lmzoo.models.combined.dynamic import Dynamic
from lmzoo.protocol.model import LanguageModel, models
from lmzoo.runs.loading import load, load_sources

SEGMENT = 5


def dynamic(run: str, corpus: Corpus, **changed: float | str) -> Dynamic:
    options = {"name": "dynamic", "run": run, "rate": 0.01, "decay": 0.1, "segment": SEGMENT}
    options |= {"epsilon": 1e-4} | changed
    model = models.build(options, vocabulary_size=len(corpus.vocabulary)).eval()
    load_sources(model, corpus)
    model.estimate(corpus)
    return model


def over(inner: LanguageModel, options: dict, corpus: Corpus, **changed: float | str) -> Dynamic:
    """Dynamic evaluation of a model that is no run."""
    chosen = {"name": "dynamic", "rate": 0.001, "segment": SEGMENT} | changed
    model = models.build(chosen, vocabulary_size=len(corpus.vocabulary)).eval()
    model.set_components([options], [inner.eval()])
    model.estimate(corpus)
    return model


def neural_cache(run: str, corpus: Corpus) -> tuple[LanguageModel, dict]:
    options = {"name": "cache", "run": run, "size": 50, "theta": 0.3}
    model = models.build(options, vocabulary_size=len(corpus.vocabulary)).eval()
    load_sources(model, corpus)
    model.weight.fill_(0.3)
    return model, options


def small(name: str, corpus: Corpus, **options: int | str) -> tuple[LanguageModel, dict]:
    chosen = {"name": name, **options}
    torch.manual_seed(0)
    return models.build(chosen, vocabulary_size=len(corpus.vocabulary)), chosen


def scored(model, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens[None], model.initial_state(1))[0][0]


def test_a_rate_of_zero_is_static_evaluation_to_the_last_bit(runs: list[str], corpus: Corpus):
    text, (static, _) = corpus.splits["valid"][:43], load(runs[1])
    state, expected = static.initial_state(1), []
    for segment in text.split(SEGMENT):
        with torch.no_grad():
            logprobs, state = static(segment[None], state)
        expected.append(logprobs[0])
    assert torch.equal(scored(dynamic(runs[1], corpus, rate=0), text), torch.cat(expected))


def test_each_segment_is_scored_and_then_learnt_from(runs: list[str], corpus: Corpus):
    text, (learner, _) = corpus.splits["valid"][:43], load(runs[1])
    windows, squares = list(StreamWindows(corpus.splits["train"], 100, SEGMENT).epoch(0)), {}
    state = learner.initial_state(100)
    for window in windows:
        logprobs, state = learner(window.tokens, tuple(part.detach() for part in state))
        learner.zero_grad()
        (-logprobs.mean()).backward()
        for name, parameter in learner.named_parameters():
            squares[name] = squares.get(name, 0) + parameter.grad**2 / len(windows)
    roots = {name: square.sqrt() for name, square in squares.items()}
    mean = torch.cat([root.flatten() for root in roots.values()]).mean()
    trained = {name: value.detach().clone() for name, value in learner.named_parameters()}
    state, expected = learner.initial_state(1), []
    for segment in text.split(SEGMENT):
        logprobs, state = learner(segment[None], tuple(part.detach() for part in state))
        expected.append(logprobs[0].detach())
        learner.zero_grad()
        (-logprobs.mean()).backward()
        with torch.no_grad():
            for name, parameter in learner.named_parameters():
                back = (0.1 * roots[name] / mean).clamp(max=1)
                parameter += back * (trained[name] - parameter) - 0.01 * parameter.grad / (roots[name] + 1e-4)
    model = dynamic(runs[1], corpus)
    found = scored(model, text)
    torch.testing.assert_close(found, torch.cat(expected), atol=1e-4, rtol=1e-4)
    assert (found - scored(load(runs[1])[0], text)).abs().max() > 0.05
    after = copy.deepcopy(model.inner.state_dict())
    assert all(torch.equal(after[name], value) for name, value in trained.items())  # the trained weights are kept


def test_scores_of_a_prefix_do_not_depend_on_what_follows(runs: list[str], corpus: Corpus):
    model = dynamic(runs[1], corpus)
    half = corpus.splits["valid"][:31]
    contradicting = torch.cat([half, 149 - half])
    whole = scored(model, contradicting)
    for length in (1, 17, 31, 43):
        torch.testing.assert_close(scored(model, contradicting[:length]), whole[:length])


def test_a_state_may_be_used_again(runs: list[str], corpus: Corpus):
    model, text = dynamic(runs[1], corpus), corpus.splits["valid"][None, :43]
    with torch.no_grad(), model.frozen():
        begin = model.initial_state(1)
        _, later = model(text, begin)
        for state in (begin, later):
            assert torch.equal(model(text, state)[0], model(text, state)[0])


@torch.no_grad()
def test_cuts_of_the_text_do_not_matter(runs: list[str], corpus: Corpus):
    """Neither to scores nor to predictions; some cuts are inside a segment, and some windows end with one."""
    model, text = dynamic(runs[1], corpus), corpus.splits["valid"][:44]
    whole, state, parts = scored(model, text), model.initial_state(1), []
    for window in text.split([1, 7, 2, 11, 2, 20, 1]):
        predicted = model.predict(state)[0, window[0]]
        scores, state = model(window[None], state)
        torch.testing.assert_close(scores[0, 0], predicted, atol=1e-5, rtol=1e-5)
        parts.append(scores[0])
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_each_row_learns_for_itself(runs: list[str], corpus: Corpus):
    """Rows that have scored as many tokens as another, and rows that have not."""
    model, rows = dynamic(runs[1], corpus), corpus.splits["valid"][:60].view(3, 20)
    begun = [model(row[None, :n], model.initial_state(1)) for row, n in zip(rows, (1, 4, 6), strict=True)]
    state = tuple(torch.cat(parts) for parts in zip(*(after for _, after in begun), strict=True))
    rest = torch.stack([row[n : n + 14] for row, n in zip(rows, (1, 4, 6), strict=True)])
    model(rest[:, :2], state)  # the second row alone takes a step, and the state stays as it is
    found, _ = model(rest, state)
    for row, n, scores in zip(rows, (1, 4, 6), found, strict=True):
        torch.testing.assert_close(scores, scored(model, row)[n : n + 14], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_windows_without_a_step_copy_no_weights(runs: list[str], corpus: Corpus):
    model, text = dynamic(runs[1], corpus), corpus.splits["valid"][None, : SEGMENT + 1]
    begin = model.initial_state(1)
    _, before = model(text[:, : SEGMENT - 1], begin)
    _, after = model(text[:, SEGMENT - 1 :], before)
    assert before[1].data_ptr() == begin[1].data_ptr() != after[1].data_ptr()


def test_a_neural_cache_learns_although_words_are_not_in_it(runs: list[str], corpus: Corpus):
    cache, options = neural_cache(runs[1], corpus)
    model, text = over(cache, options, corpus), corpus.splits["valid"][:43]
    found = scored(model, text)
    assert torch.isfinite(found).all()
    assert (found - scored(cache, text)).abs().max() > 0.01


def test_tables_that_the_weights_determine_follow_them(corpus: Corpus):
    """While the model is frozen, too: a hidden Markov model would keep its distributions."""
    hmm, options = small("vlhmm", corpus, states=8, clusters=2, clustering="uniform", dim=8)
    hmm.estimate(corpus)
    model, text = over(hmm, options, corpus), corpus.splits["valid"][:43]
    outside = scored(model, text)
    with model.frozen():
        assert torch.equal(scored(model, text), outside)
    assert (outside - scored(hmm, text)).abs().max() > 0.01


def test_parameters_need_not_be_contiguous(corpus: Corpus):
    inner, options = small("rnn", corpus, hidden=8)
    inner.embedding.weight = torch.nn.Parameter(inner.embedding.weight.detach().T.contiguous().T)
    assert torch.isfinite(scored(over(inner, options, corpus), corpus.splits["valid"][:20])).all()


def test_recurrent_networks_have_a_gradient_without_cudnn_alone(corpus: Corpus):
    lstm, options = small("lstm", corpus, embedding=8, hidden=8)
    seen = []
    lstm.recurrent.register_forward_pre_hook(lambda *_: seen.append(torch.backends.cudnn.enabled))
    scored(over(lstm, options, corpus), corpus.splits["valid"][:13])
    assert len(seen) > 3
    assert not any(seen)
    assert torch.backends.cudnn.enabled


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_cuda_learns_as_the_cpu_does(kind: str, corpus: Corpus):
    network, options = small(kind, corpus, embedding=8, hidden=8)
    model, text = over(network, options, corpus), corpus.splits["valid"][:43]
    expected = scored(model, text)
    model.to("cuda")
    model.estimate(corpus)
    torch.testing.assert_close(scored(model, text.cuda()).cpu(), expected, atol=1e-3, rtol=0)


def test_what_learns_already_is_not_made_to_learn_again(runs: list[str], corpus: Corpus):
    lstm, options = small("lstm", corpus, embedding=8, hidden=8)
    inner = over(lstm, options, corpus)
    mixture = models.build({"name": "mixture"}, vocabulary_size=len(corpus.vocabulary))
    mixture.set_components([{"name": "dynamic"}], [inner])
    for model in (inner, mixture):
        with pytest.raises(UserError, match=r"^model\.run: any learns from the text already; choose a run without"):
            over(model, {"name": "any"}, corpus)


def test_what_has_no_weights_cannot_learn(runs: list[str], corpus: Corpus):
    with pytest.raises(UserError, match=r"^model\.run: ngram has no trainable weights"):
        dynamic(runs[0], corpus)


def test_steps_that_are_too_large_are_reported(corpus: Corpus):
    network, options = small("rnn", corpus, embedding=8, hidden=8, activation="relu")
    model = over(network, options, corpus, rate=1e30)
    with pytest.raises(UserError, match=r"^model=dynamic: steps are so large that .*; set a smaller model\.rate, or"):
        scored(model, corpus.splits["valid"][:40])
    with torch.no_grad():
        _, state = model(corpus.splits["valid"][None, :SEGMENT], model.initial_state(1))
    with pytest.raises(UserError, match=r"^model=dynamic: steps are so large"):
        model.predict(state)
