"""Mixtures of trained models: the formulas word by word, an HMM of all states together, and the best weights."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo import load
from lmzoo.corpus import Corpus
from lmzoo.errors import UserError
from lmzoo.hmm import dense
from lmzoo.models.mixture import Mixture, mixture_weights
from lmzoo.perplexity import score, scored


def mixture(runs: list[str], per: str, weights: list[float] | None = None) -> Mixture:
    model = Mixture(vocabulary_size=150, runs=runs, per=per).eval()  # pyright: ignore[reportArgumentType]
    if weights:
        model.weights.copy_(torch.tensor(weights))
    return model


def lines(tokens: torch.Tensor) -> list[torch.Tensor]:
    return list(tokens.tensor_split((tokens == 0).nonzero()[:, 0] + 1)[:-1])


def alone(run: str, line: torch.Tensor) -> torch.Tensor:
    model, _ = load(run)
    return model(line[None], model.initial_state(1))[0][0]


def test_per_token_probabilities_are_mixed(runs: list[str], corpus: Corpus):
    model = mixture(runs, "token", [0.3, 0.7])
    for line in lines(corpus.splits["valid"])[:5]:
        expected = 0.3 * alone(runs[0], line).exp() + 0.7 * alone(runs[1], line).exp()
        torch.testing.assert_close(model(line[None], model.initial_state(1))[0][0].exp(), expected)


def test_per_sentence_whole_sentences_are_mixed(runs: list[str], corpus: Corpus):
    model = mixture(runs, "sentence", [0.3, 0.7])
    for line in lines(corpus.splits["valid"])[:5]:
        expected = 0.3 * alone(runs[0], line).sum().exp() + 0.7 * alone(runs[1], line).sum().exp()
        torch.testing.assert_close(model(line[None], model.initial_state(1))[0].sum().exp(), expected)


def test_after_a_sentence_every_model_has_its_weight_again(runs: list[str], corpus: Corpus):
    model = mixture([runs[0], runs[0]], "sentence", [0.3, 0.7])
    for line in lines(corpus.splits["valid"])[:5]:
        belief = model(line[None], model.initial_state(1))[1][0].exp()
        torch.testing.assert_close(belief, torch.tensor([[0.3, 0.7]]))


def test_hmms_mixed_per_sentence_are_one_hmm(tmp_path: Path):
    """Start λ_k π_k, and transitions that are block-diagonal."""
    runs = [str(tmp_path / str(seed)) for seed in range(2)]
    for seed, run in enumerate(runs):
        text = [*TEXT, "corpus.context=sentence"]
        assert command(*text, "model=hmm", f"model.states={3 + seed}", f"seed={seed}", f"run_dir={run}").code == 0
    model = mixture(runs, "sentence", [0.4, 0.6])
    tables = [part.tables() for part in model.components]
    start = torch.cat([math.log(0.4) + tables[0].start, math.log(0.6) + tables[1].start])
    transition = torch.block_diag(*(table.transition.exp() for table in tables)).log()
    emission = torch.cat([table.emission for table in tables], 1)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 0], [6, 5, 3, 5, 8, 9, 7, 0]])
    expected, _ = dense.forward(start.expand(2, -1), transition, emission[tokens])
    torch.testing.assert_close(model(tokens, model.initial_state(2))[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("per", ["token", "sentence"])
@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_no_other_weights_fit_the_valid_split_better(runs: list[str], corpus: Corpus, per: str, context: str):
    model = mixture(runs, per)
    corpus = dataclasses.replace(corpus, context=context)  # pyright: ignore[reportArgumentType]
    model.estimate(corpus)
    best = model.weights.tolist()
    assert sum(best) == pytest.approx(1)
    found = score(model, corpus.splits["valid"], corpus.context).logprob
    for shift in (-0.02, 0.02):
        model.weights.copy_(torch.tensor([best[0] + shift, best[1] - shift]).clamp(0, 1))
        assert score(model, corpus.splits["valid"], corpus.context).logprob < found


def test_weights_of_events_that_can_be_counted():
    """Where each event is possible under one model alone, its weight is the share of its events."""
    logprobs = torch.tensor([[-1.0, -torch.inf], [-9.0, -torch.inf], [-torch.inf, -2.0], [-torch.inf, -torch.inf]])
    torch.testing.assert_close(mixture_weights(logprobs), torch.tensor([2 / 3, 1 / 3]))


def test_what_no_model_allows_is_impossible_and_forgotten(tmp_path: Path):
    options = ["model=ngram", "model.order=2", "model.smoothing=mle"]  # bigrams that were not seen are impossible
    assert command(*TEXT, *options, f"run_dir={tmp_path / 'run'}").code == 0
    model = mixture([str(tmp_path / "run")] * 2, "sentence")
    first = int(model.predict(model.initial_state(1))[0].argmax())
    before = model(torch.tensor([[first]]), model.initial_state(1))[1]
    unseen = int(model.predict(before)[0].argmin())
    logprobs, after = model(torch.tensor([[first, unseen]]), model.initial_state(1))
    assert logprobs[0].isneginf().tolist() == [False, True]
    torch.testing.assert_close(after[0].exp(), torch.tensor([[0.5, 0.5]]))


def test_a_mixture_is_a_run_like_any_other(runs: list[str], corpus: Corpus, tmp_path: Path):
    text = ["corpus=markov", "corpus.words=149", "corpus.states=6", "corpus.sentence_length=6", "corpus.train=3000"]
    text += ["corpus.concentration=0.3", "corpus.seed=1", "corpus.valid=500", "corpus.test=2000"]
    outcome = command(*text, "model=mixture", f"model.runs=[{','.join(runs)}]", f"run_dir={tmp_path / 'both'}")
    assert outcome.code == 0, outcome
    both, _ = load(tmp_path / "both")
    perplexities = [score(load(run)[0], corpus.splits["valid"], "stream").perplexity for run in runs]
    assert score(both, corpus.splits["valid"], "stream").perplexity < min(perplexities)


def test_scored_tokens_are_those_of_the_text(runs: list[str], corpus: Corpus):
    model, _ = load(runs[0])
    text = corpus.splits["valid"]
    whole = torch.cat([words for words, _ in scored(model, text, "stream")])
    assert torch.equal(whole, text)
    apart = torch.cat([words for words, _ in scored(model, text, "sentence")])
    assert sorted(line.tolist() for line in lines(apart)) == sorted(line.tolist() for line in lines(text))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "model.runs=[]: a mixture needs trained runs"),
        (["nowhere"], "nowhere: not a run directory"),
    ],
)
def test_runs_that_are_none(given: list[str], said: str):
    with pytest.raises(UserError, match="^" + said.replace("[", r"\[")):
        mixture(given, "token")


def test_runs_of_another_corpus(tmp_path: Path, corpus: Corpus):
    assert command(*TEXT, *QUICK, *MODELS["ngram"], f"run_dir={tmp_path / 'other'}").code == 0
    with pytest.raises(UserError, match="was not trained on the words of corpus markov"):
        mixture([str(tmp_path / "other")], "token").estimate(corpus)
