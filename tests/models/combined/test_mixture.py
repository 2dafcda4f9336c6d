"""Mixtures of trained models: the formulas word by word, an HMM of all states together, and the best weights."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest
import torch
from command_line import MODELS, TEXT, command, edit, put

from lmzoo import load
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.corpus.lines import by_line
from lmzoo.models.combined.mixture import Mixture, mixture_weights
from lmzoo.models.combined.trained import CompositeModel
from lmzoo.models.hmm.inference import dense
from lmzoo.protocol.lines import known_words
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import score
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load_sources


def mixture(runs: list[str], corpus: Corpus, per: str, weights: list[float] | None = None) -> Mixture:
    options = {"name": "mixture", "runs": runs, "per": per}
    model = models.build(options, vocabulary_size=len(corpus.vocabulary)).eval()
    load_sources(model, corpus)
    model.estimate(corpus)
    if weights:
        model.weights.copy_(torch.tensor(weights))
    return model


def alone(run: str, line: torch.Tensor) -> torch.Tensor:
    model, _ = load(run)
    return model(line[None], model.initial_state(1))[0][0]


def test_per_token_probabilities_are_mixed(runs: list[str], corpus: Corpus):
    model = mixture(runs, corpus, "token", [0.3, 0.7])
    for line in by_line(corpus.splits["valid"], corpus.splits["valid"])[:5]:
        expected = 0.3 * alone(runs[0], line).exp() + 0.7 * alone(runs[1], line).exp()
        torch.testing.assert_close(model(line[None], model.initial_state(1))[0][0].exp(), expected)
        torch.testing.assert_close(model.predict(model.initial_state(1))[0, line[0]].exp(), expected[0])
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_per_sentence_whole_sentences_are_mixed(runs: list[str], corpus: Corpus):
    model = mixture(runs, corpus, "sentence", [0.3, 0.7])
    for line in by_line(corpus.splits["valid"], corpus.splits["valid"])[:5]:
        expected = 0.3 * alone(runs[0], line).sum().exp() + 0.7 * alone(runs[1], line).sum().exp()
        torch.testing.assert_close(model(line[None], model.initial_state(1))[0].sum().exp(), expected)


def test_states_are_made_once_to_know_their_parts(runs: list[str], corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    model, words = mixture(runs, corpus, "token", [0.3, 0.7]), torch.tensor([[3, 1, 4]])
    scores, state = model(words, model.initial_state(1))
    for component in model.components:
        monkeypatch.setattr(component, "initial_state", None)
    model(words, state)
    model.predict(state)
    monkeypatch.undo()
    model.set_components(model.component_options[::-1], list(model.components)[::-1])  # whose states have other parts
    model.weights.copy_(torch.tensor([0.7, 0.3]))
    torch.testing.assert_close(model(words, model.initial_state(1))[0], scores)


def test_after_a_sentence_every_model_has_its_weight_again(runs: list[str], corpus: Corpus):
    model, given = mixture(runs, corpus, "sentence", [0.3, 0.7]), torch.tensor([[0.3, 0.7]])
    for line in by_line(corpus.splits["valid"], corpus.splits["valid"])[:5]:
        inside = model(line[None, :-1], model.initial_state(1))[1]
        assert (inside[0].exp() - given).abs().max() > 1e-3
        torch.testing.assert_close(model(line[None, -1:], inside)[1][0].exp(), given)


def test_hmms_mixed_per_sentence_are_one_hmm(tmp_path: Path):
    """Start λ_k π_k, and transitions that are block-diagonal."""
    runs = [str(tmp_path / str(seed)) for seed in range(2)]
    for seed, run in enumerate(runs):
        text = [*TEXT, "corpus.context=sentence"]
        assert command(*text, "model=hmm", f"model.states={3 + seed}", f"seed={seed}", f"run_dir={run}").code == 0
    model = mixture(runs, Run(Path(runs[0])).corpus(), "sentence", [0.4, 0.6])
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
    corpus = dataclasses.replace(corpus, context=context)  # pyright: ignore[reportArgumentType]
    model = mixture(runs, corpus, per)
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
    run = str(tmp_path / "run")
    model = mixture([run, run], Run(Path(run)).corpus(), "sentence", [0.3, 0.7])
    first = int(model.predict(model.initial_state(1))[0].argmax())
    before = model(torch.tensor([[first]]), model.initial_state(1))[1]
    unseen = int(model.predict(before)[0].argmin())
    logprobs, after = model(torch.tensor([[first, unseen]]), model.initial_state(1))
    assert logprobs[0].isneginf().tolist() == [False, True]
    torch.testing.assert_close(after[0].exp(), torch.tensor([[0.3, 0.7]]))


def test_a_mixture_needs_its_runs_no_more(
    runs: list[str], corpus: Corpus, text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for run in runs:
        shutil.copytree(run, tmp_path / Path(run).name)
    monkeypatch.chdir(tmp_path)
    assert command(*text, "model=mixture", "model.runs=[ngram,rnn]", "run_dir=inner").code == 0
    parameters = [Run(Path(run)).results()["parameters"] for run in ("ngram", "rnn", "inner")]
    assert parameters[2] == parameters[0] + parameters[1] + 2  # the weights
    assert min(parameters) > 0
    outer = [*text, "model=mixture", "model.per=sentence", "model.runs=[inner,rnn]", "run_dir=outer"]
    assert command(*outer).code == 0
    for run in ("ngram", "rnn", "inner"):
        shutil.rmtree(tmp_path / run)
    (tmp_path / "outer" / "results.json").unlink()
    assert command(*outer).code == 0  # as one that was killed while it was measured
    monkeypatch.chdir("/")
    both, _ = load(tmp_path / "outer")
    perplexities = [score(load(run).model, corpus.splits["valid"], "stream").perplexity for run in runs]
    assert score(both, corpus.splits["valid"], "stream").perplexity < min(perplexities)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[]", "model.runs=[]: a mixture needs trained runs"),
        ("[nowhere]", "model.runs: nowhere: not a run directory"),
        ("[1.5]", "model.runs=[1.5]: must be a list, each item a string"),
    ],
)
def test_runs_that_are_none(text: list[str], given: str, said: str, tmp_path: Path):
    assert said in command(*text, "model=mixture", f"model.runs={given}", f"run_dir={tmp_path / 'run'}").refused()
    assert not list(tmp_path.iterdir())


def test_runs_of_other_words_or_another_text(runs: list[str], tmp_path: Path, corpus: Corpus):
    other = str(tmp_path / "other")
    assert command(*TEXT, *MODELS["ngram"], f"run_dir={other}").code == 0
    with pytest.raises(UserError, match=r"^model\.runs: .*other: was trained on another text"):
        mixture([other], corpus, "token")
    scored = dataclasses.replace(
        corpus, sha256=corpus.sha256 | {"vocabulary": "of other scores"},
        vocabulary=Vocabulary(corpus.vocabulary.words, Form(unit="unigram")),
    )  # fmt: skip
    with pytest.raises(UserError, match=r"was trained on another text .* \(different: vocabulary\)"):
        mixture(runs, scored, "token")
    words = [*corpus.vocabulary.words[:1], *reversed(corpus.vocabulary.words[1:])]
    with pytest.raises(UserError, match="was not trained on the words of corpus markov; choose another run"):
        mixture(runs, dataclasses.replace(corpus, vocabulary=Vocabulary(words)), "token")


def test_runs_that_may_surprise_are_named(runs: list[str], corpus: Corpus, tmp_path: Path, caplog):
    unfinished = shutil.copytree(runs[1], tmp_path / "unfinished")
    (unfinished / "results.json").unlink()
    mixture([str(unfinished)], corpus, "token")
    assert f"{unfinished}: its training is not finished" in caplog.text
    mixture(runs, dataclasses.replace(corpus, context="sentence"), "token")
    assert f"{runs[0]}: was trained with corpus.context=stream, and here it is sentence" in caplog.text
    assert "was trained on only" not in caplog.text
    part = shutil.copytree(runs[0], tmp_path / "part")
    for name in ("config.yaml", "best.pt"):
        keys = ("trainer",) if name == "config.yaml" else ("config", "trainer")
        edit(part / name, put(*keys, "first_tokens", value=1000))
    mixture([str(part)], corpus, "token")
    assert "was trained on only" not in caplog.text  # the text has fewer
    edit(part / "provenance.json", put(0, "corpus", "name", value="markov, first 1,000 tokens"))
    mixture([str(part)], corpus, "token")
    assert f"{part}: was trained on only the first 1,000 tokens" in caplog.text


def test_a_word_that_one_model_does_not_have_is_unknown(
    runs: list[str], corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    model = mixture(runs, corpus, "token")
    assert known_words(model, corpus.vocabulary).all()
    missing = torch.arange(len(corpus.vocabulary)) == 3
    monkeypatch.setattr(next(iter(model.components)), "unlisted", lambda: missing)
    assert torch.equal(known_words(model, corpus.vocabulary), ~missing)


def test_a_composite_model_without_predictions_is_refused():
    methods = {name: getattr(Mixture, name) for name in ("initial_state", "forward")}
    with pytest.raises(UserError, match=r"^model 'bare' has no predict; define it in its class$"):
        models.register("bare")(type("Bare", (CompositeModel,), methods))
