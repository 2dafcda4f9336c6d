"""Dynamic evaluation against a plain loop written with autograd."""

import copy

import pytest
import torch

from lmzoo.core.errors import UserError
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import StreamWindows
from lmzoo.models.combined.dynamic import Dynamic
from lmzoo.runs.loading import hand_over, load

SEGMENT = 5


def dynamic(run: str, corpus: Corpus, **changed: float | str) -> Dynamic:
    options = {"name": "dynamic", "run": run, "rule": "sgd", "rate": 2.0, "decay": 0.1, "segment": SEGMENT}
    options |= {"epsilon": 1e-4} | changed
    model = models.build(options, vocabulary_size=len(corpus.vocabulary)).eval()
    hand_over(model, corpus)
    model.estimate(corpus)
    return model


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
    for rule in ("sgd", "rms"):
        assert torch.equal(scored(dynamic(runs[1], corpus, rule=rule, rate=0), text), torch.cat(expected))


@pytest.mark.parametrize(("rule", "rate"), [("sgd", 2.0), ("rms", 0.01)])
def test_each_segment_is_scored_and_then_learnt_from(rule: str, rate: float, runs: list[str], corpus: Corpus):
    text, (learner, _) = corpus.splits["valid"][:43], load(runs[1])
    roots = {}
    if rule == "rms":
        windows, squares = list(StreamWindows(corpus.train, 100, SEGMENT).epoch(0)), {}
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
                scale = roots[name] + 1e-4 if roots else 1.0
                back = (0.1 * roots[name] / mean).clamp(max=1) if roots else 0.1
                parameter += back * (trained[name] - parameter) - rate * parameter.grad / scale
    model = dynamic(runs[1], corpus, rule=rule, rate=rate)
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


@pytest.mark.parametrize(("rule", "rate"), [("sgd", 2.0), ("rms", 0.01)])
def test_a_state_may_be_used_again(rule: str, rate: float, runs: list[str], corpus: Corpus):
    model, text = dynamic(runs[1], corpus, rule=rule, rate=rate), corpus.splits["valid"][None, :43]
    with torch.no_grad(), model.frozen():
        begin = model.initial_state(1)
        _, later = model(text, begin)
        for state in (begin, later):
            assert torch.equal(model(text, state)[0], model(text, state)[0])


def test_what_has_no_weights_cannot_learn(runs: list[str], corpus: Corpus):
    with pytest.raises(UserError, match=r"^model\.run: ngram has no weights that a gradient could change"):
        dynamic(runs[0], corpus)
