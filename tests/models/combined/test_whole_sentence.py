"""Whole-sentence models against enumeration, hand counts and autograd."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from command_line import command
from torch import Tensor

from lmzoo.commands import compare, evaluate, generate, score
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.corpus.lines import by_line
from lmzoo.models.combined.contrast import Contrast, log_normaliser
from lmzoo.models.combined.mixture import Mixture
from lmzoo.models.combined.sentence_features import KIND, SentenceFeatures, frequent, matrix
from lmzoo.models.combined.whole_sentence import WholeSentence
from lmzoo.models.ngram.ngram import NGram
from lmzoo.models.ngram.smoothing import SmoothingOptions, estimate
from lmzoo.numerics.sparse import SparseRows
from lmzoo.protocol.abilities import Draws
from lmzoo.protocol.lines import unknown_warning
from lmzoo.protocol.model import LanguageModel, models
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import sample_sentences
from lmzoo.runs.loading import load

LONGEST = 9
"""Words of the sentences that are enumerated; longer ones have less than 1e-4 of the mass."""

UNIGRAMS = {"length": False, "words": 1, "window": 0, "class_words": 0}


class Geometric(LanguageModel):
    """Sentences of words 1 and 2, each drawn by itself: `<eos>` 0.65, 1 0.25, 2 0.1."""

    vocabulary_size = 3
    p = torch.tensor([0.65, 0.25, 0.1])

    def initial_state(self, batch_size: int) -> tuple[Tensor]:
        return (torch.zeros(batch_size, 0),)

    def forward(self, tokens: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        return self.p.log()[tokens], state

    def predict(self, state: tuple[Tensor]) -> Tensor:
        return self.p.log().expand(len(state[0]), -1)


def drawn(sentences: int, seed: int) -> Tensor:
    return sample_sentences(Geometric(), sentences, torch.Generator().manual_seed(seed))


def every_sentence() -> Tensor:
    """All sentences of `Geometric` of up to `LONGEST` words, one after another."""
    found = [words for n in range(LONGEST + 1) for words in itertools.product((1, 2), repeat=n)]
    return torch.tensor(list(itertools.chain.from_iterable([*words, EOS_ID] for words in found)))


def dense(rows: SparseRows) -> Tensor:
    table = torch.zeros(rows.shape)
    table[rows.owners(), rows.columns] = 1 if rows.values is None else rows.values
    return table


def test_features_are_those_counted_by_hand():
    text = torch.tensor([1, 2, 1, 3, 0, 0, 2, 0])  # three sentences, the second without words
    classes = torch.tensor([[0, 1, 1, 2]])
    features = SentenceFeatures(4, length=True, words=2, window=3, class_words=2, classes=classes)
    found = [
        sorted(zip((keys - kind * KIND).tolist(), sentences.tolist(), strict=True))
        for kind, (keys, sentences) in enumerate(features.of(text))
    ]
    assert found == [
        [(0, 1), (1, 2), (4, 0)],
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 0), (2, 0), (2, 2), (3, 0)],
        sorted([(1, 0), (6, 0), (9, 0), (7, 0), (12, 0), (0, 1), (2, 2), (8, 2)]),
        # with one or two words between: <eos> 1 2 1 3 <eos>, <eos> 2 <eos>
        sorted([(2, 0), (5, 0), (11, 0), (4, 0), (1, 0), (7, 0), (8, 0), (0, 2)]),
        sorted([(1, 0), (4, 0), (4, 0), (5, 0), (6, 0), (0, 1), (1, 2), (3, 2)]),
    ]
    keys = frequent(features, [text], 2)
    assert keys.tolist() == [KIND, KIND + 1, KIND + 2, *(4 * KIND + key for key in (1, 4))]
    table = matrix(features, keys, text)
    assert table.shape == (3, len(keys))
    assert dense(table)[0].tolist() == [1, 2, 1, 1, 2]


@pytest.mark.parametrize("length", [True, False])
def test_kinds_of_features_without_a_key_are_an_error(length: bool):
    """With bigrams and trigrams of classes, each clustering makes 2 kinds; there are 64."""

    def features(clusterings: int) -> SentenceFeatures:
        return SentenceFeatures(3, length=length, words=0, window=0, class_words=3,
                                classes=torch.tensor([[0, 1, 1]]).expand(clusterings, -1))  # fmt: skip

    with pytest.raises(UserError, match=r"^model\.clusters: 32 clusterings make 6[56] kinds of features, more than 64"):
        features(32)
    keys = torch.cat([keys for keys, _ in features(31).of(torch.tensor([1, 2, 1, 0]))])
    assert (keys >= 0).all()
    assert int(keys.max()) >= (62 + length) * KIND


def test_the_gradient_is_that_of_autograd():
    text, noise, features = drawn(20, 0), drawn(60, 1), SentenceFeatures(3, classes=torch.zeros(0, 3), **UNIGRAMS)
    keys = frequent(features, [text, noise], 1)
    tables = [matrix(features, keys, part) for part in (text, noise)]
    x = torch.randn(len(keys) + 1, generator=torch.Generator().manual_seed(2), requires_grad=True)
    ours, theirs = (dense(table) @ x[:-1] - x[-1] - torch.tensor(3.0).log() for table in tables)
    value = F.softplus(-ours).sum() + F.softplus(theirs).sum() + 0.7 / 2 * x[:-1].square().sum()
    value.backward()
    found, gradient = Contrast(*tables).objective(x.detach(), 0.7)
    assert found == pytest.approx(float(value.detach()), rel=1e-5)
    assert x.grad is not None
    torch.testing.assert_close(gradient, x.grad)


def test_contrast_finds_the_weights_and_the_normaliser_of_a_known_model():
    """p ∝ p_0 exp(w_1 n_1 + w_2 n_2), over all sentences; what is estimated lies within sampling's error."""
    features, w = SentenceFeatures(3, classes=torch.zeros(0, 3), **UNIGRAMS), torch.tensor([0.0, -0.6, 0.8])
    text, keys = every_sentence(), torch.arange(3)
    counts = dense(matrix(features, keys, text))
    base = torch.stack([part.sum() for part in by_line(text_logprobs(Geometric(), text, "sentence"), text)])
    joint = (base + counts @ w).double()
    exact = float(joint.logsumexp(0))
    sentences = by_line(text, text)
    chosen = joint.softmax(0).multinomial(20000, replacement=True, generator=torch.Generator().manual_seed(3))
    train, noise = torch.cat([sentences[i] for i in chosen.tolist()]), drawn(40000, 4)
    x = Contrast(matrix(features, keys, train), matrix(features, keys, noise)).minimum(torch.zeros(4), 1e-3)
    assert float(x[1]) == pytest.approx(-0.6, abs=0.06)
    assert float(x[2]) == pytest.approx(0.8, abs=0.06)
    assert float(x[3] - x[0]) == pytest.approx(exact, abs=0.03)  # every sentence has one <eos>: w_0 and c are one
    estimate = log_normaliser(matrix(features, keys, drawn(20000, 5)) @ w)
    assert abs(estimate.value - exact) < 3 * estimate.error < 0.05
    ratios = (counts @ w).double()
    share = float((base.double() + 2 * ratios).logsumexp(0)) - 2 * exact  # log E u² / (E u)²
    assert estimate.effective / estimate.samples == pytest.approx(float(torch.tensor(-share).exp()), rel=0.1)


@pytest.mark.parametrize("order", [1, 3])
def test_sentences_are_drawn_as_often_as_they_are_probable(order: int):
    options: Any = defaults("model", "ngram")
    model = models.build(options | {"order": order, "smoothing": "witten_bell", "unknown": False}, vocabulary_size=4)
    assert isinstance(model, NGram)
    text = torch.randint(0, 4, (40,), generator=torch.Generator().manual_seed(1))
    model.table = estimate(
        torch.cat([text, torch.tensor([1, 2, 3, EOS_ID])]), 4, order, **model.options.inherited(SmoothingOptions)
    )
    assert isinstance(model, Draws)
    contexts = torch.tensor(list(itertools.product(range(4), repeat=order - 1)), dtype=torch.int64)
    many = contexts.repeat_interleave(4000, 0)
    words, _ = model.draw((many,), torch.Generator().manual_seed(0))
    shares = F.one_hot(words.view(-1, 4000), 4).double().mean(1)
    expected = model.predict((contexts,)).exp().double()
    assert float((shares - expected).abs().max()) < 4 * 0.5 / 4000**0.5
    sentences = by_line(found := sample_sentences(model, 7000, torch.Generator().manual_seed(0)), found)
    assert len(sentences) == 7000
    assert all(int((sentence == EOS_ID).sum()) == 1 for sentence in sentences)
    empty = sum(len(sentence) == 1 for sentence in sentences) / 7000
    assert empty == pytest.approx(float(model.predict(model.initial_state(1))[0, EOS_ID].exp()), abs=0.02)


@pytest.fixture(scope="module")
def trained(runs: list[str], text: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    options = ["model=whole_sentence", f"model.run={runs[0]}", "corpus.context=sentence",
               "model.samples=500", "model.clusters=[4]", "model.min_count=2", "model.l2=[3,30]"]  # fmt: skip
    assert command(*text, *options, f"run_dir={folder}").code == 0
    return folder


def test_a_run_says_how_sure_its_perplexity_is(trained: Path, corpus: Corpus):
    results = json.loads((trained / "results.json").read_text())
    log_z = results["log_z"]
    assert log_z["samples"] == 500
    assert 1 <= log_z["effective"] <= 500
    assert log_z["error"] == pytest.approx(((500 / log_z["effective"] - 1) / 500) ** 0.5, rel=0.01)
    test = corpus.splits["test"]
    share = float((test == EOS_ID).double().mean())
    assert results["perplexity_error"]["test"] == pytest.approx(results["perplexity"]["test"] * log_z["error"] * share)
    measured = evaluate.evaluate(trained, "test", device="cpu")
    assert measured["perplexity"] == pytest.approx(results["perplexity"]["test"], rel=1e-6)


def test_a_sentence_has_its_probability_at_its_end(trained: Path, runs: list[str], corpus: Corpus):
    model = load(trained)[0]
    assert isinstance(model, WholeSentence)
    test = corpus.splits["test"][:200]
    test = test[: int((test == EOS_ID).nonzero()[-1]) + 1]
    found = text_logprobs(model, test, "sentence")
    assert bool((found[test != EOS_ID] == 0).all())
    base = text_logprobs(load(runs[0])[0], test, "sentence").double()
    table = matrix(model.features, model.keys, test)
    lines = torch.stack([line.sum() for line in by_line(base, test)])
    expected = lines + dense(table).double() @ model.weights.double() - model.log_z.value
    torch.testing.assert_close(found[test == EOS_ID].double(), expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(text_logprobs(model, test, "stream"), found)


def test_commands_that_need_words_refuse_it(trained: Path, runs: list[str], text: list[str], tmp_path: Path):
    (file := tmp_path / "text").write_text("w1 w2\nw3\n")
    assert "only to whole sentences" in command(str(trained), main=generate.main).refused()
    assert "only to whole sentences" in command(str(trained), str(file), main=score.main).refused()
    assert command(str(trained), str(file), "--sums", main=score.main).code == 0
    assert "figures without them mean nothing" in (unknown_warning(1, 3, "text", load(trained)[0]) or "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "text_logprobs", lambda *_: pytest.fail("scored before it is refused"))
        told = command(
            "--tokens", runs[0], str(trained), "--plot", str(tmp_path / "a.svg"), main=compare.main
        ).refused()
        assert f"a.svg: {trained} assigns probabilities only to whole sentences" in told
    for more in (["model=cache", f"model.run={trained}"], ["model=mixture", f"model.runs=[{trained},{runs[0]}]"]):
        assert "only to whole sentences" in command(*text, *more, f"run_dir={tmp_path / 'no'}").refused()


def test_it_mixes_per_sentence(trained: Path, runs: list[str], text: list[str], tmp_path: Path, corpus: Corpus):
    options = ["model=mixture", "model.per=sentence", f"model.runs=[{trained},{runs[0]}]", "corpus.context=sentence"]
    assert command(*text, *options, f"run_dir={tmp_path / 'both'}").code == 0
    mixture, test = load(tmp_path / "both")[0], corpus.splits["test"][:500]
    test = test[: int((test == EOS_ID).nonzero()[-1]) + 1]
    assert isinstance(mixture, Mixture)
    assert mixture.whole_sentences

    def lines(model: LanguageModel) -> Tensor:
        return torch.stack([line.sum() for line in by_line(text_logprobs(model, test, "sentence"), test)])

    parts = torch.stack([lines(load(folder)[0]) for folder in (trained, Path(runs[0]))], 1)
    torch.testing.assert_close(lines(mixture), (parts + mixture.weights.log()).logsumexp(1), atol=1e-3, rtol=1e-5)


def test_a_single_sample_has_no_error_and_is_refused(runs: list[str], text: list[str], tmp_path: Path):
    given = ["model=whole_sentence", f"model.run={runs[0]}", "model.samples=1", f"run_dir={tmp_path / 'no'}"]
    assert "model.samples=1: must be at least 2" in command(*text, *given).refused()


def test_too_many_features_are_refused_before_samples_are_drawn(
    runs: list[str], text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lmzoo.models.combined.whole_sentence.sample_sentences", None)
    given = ["model=whole_sentence", f"model.run={runs[0]}", "corpus.context=sentence", f"run_dir={tmp_path / 'no'}"]
    many = [f"model.clusters=[{','.join(['2'] * 64)}]"]
    assert "model.clusters: 64 clusterings make" in command(*text, *given, *many).refused()
    few = ["model.clusters=[9]", "model.class_words=99"]
    assert "model.class_words=99: 9^99 n-grams have no numbers" in command(*text, *given, *few).refused()
