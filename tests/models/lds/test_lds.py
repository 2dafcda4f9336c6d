"""The linear dynamical system as a language model."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from lmzoo.core import progress
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.lds import lds
from lmzoo.models.lds.estimation.asos import e_step
from lmzoo.models.lds.estimation.fit import fit
from lmzoo.models.lds.estimation.statistics import Counts, whiten
from lmzoo.models.lds.lds import LinearDynamicalSystem, smooth
from lmzoo.protocol.model import models
from lmzoo.words.vectors.formats import encoded
from lmzoo.words.vectors.word_vectors import WordVectors

SMALL: dict[str, Any] = {"hidden": 3, "blocks": 4, "lags": 7, "pseudocount": 1.0, "iterations": 3, "vectors": None,
                         "classes": None, "clustering": "brown"}  # fmt: skip


def system(corpus: Corpus, **changed: Any) -> LinearDynamicalSystem:
    model = LinearDynamicalSystem(vocabulary_size=20, **SMALL | changed).double()
    model.estimate(corpus)
    return model


def test_before_training_a_system_predicts_frequencies(hmm_corpus: Corpus):
    frequency = (hmm_corpus.splits["train"].bincount(minlength=20) + 30.0) / (
        len(hmm_corpus.splits["train"]) + 20 * 30.0
    )
    for classes in (None, 4):
        model = system(hmm_corpus, classes=classes, pseudocount=30.0)
        torch.testing.assert_close(
            model.predict(model.initial_state(1))[0].exp(), frequency.double(), atol=1e-6, rtol=0
        )


def test_classes_start_from_their_words_frequencies(hmm_corpus: Corpus):
    model = system(hmm_corpus, classes=4)
    whole = torch.zeros(4).double().index_add(0, model.output.classes.word_class, model.output.bias.exp())
    torch.testing.assert_close(model.output.classes.S.bias.exp(), whole, atol=1e-10, rtol=0)
    assert model.output.classes.S.bias.exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_whitened_means_are_white_over_the_text(hmm_corpus: Corpus):
    model = system(hmm_corpus)
    white = model.filter(hmm_corpus.splits["train"][None], model.initial_state(1))[0] @ model.whitener
    torch.testing.assert_close(white.mT @ white / len(white), torch.eye(3).double(), atol=0.02, rtol=0)


def test_a_mean_longer_than_its_root_mean_square_is_cut_to_it(hmm_corpus: Corpus):
    model = system(hmm_corpus)
    white = torch.tensor([[1.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, -0.5]]).double()
    cut = white * torch.tensor([[1.0], [3**0.5 / 5], [1.0]]).double()
    torch.testing.assert_close(model.features(white @ torch.linalg.inv(model.whitener)), cut)


def written(path: Path, words: Sequence[str], matrix: torch.Tensor) -> str:
    path.write_bytes(encoded(WordVectors(list(words), matrix), "word2vec-text"))
    return str(path)


def test_vectors_that_span_all_words_give_the_system_of_one_hot_words(hmm_corpus: Corpus, tmp_path: Path):
    """Up to a rotation of the state, and what 30 iterations leave of the random starts of their decompositions."""
    random = torch.randn(20, 19, generator=torch.Generator().manual_seed(0))
    file = written(tmp_path / "v.txt", hmm_corpus.vocabulary.words, random)
    one_hot, seen = system(hmm_corpus, iterations=30), system(hmm_corpus, vectors=file, iterations=30)
    one, other = one_hot.gains @ one_hot.whitener, seen.gains @ seen.whitener
    torch.testing.assert_close(other @ other.mT, one @ one.mT, atol=0.01, rtol=0)
    one, other = (normalize(model.C @ torch.linalg.inv(model.spherical)) for model in (one_hot, seen))
    torch.testing.assert_close(other @ other.mT, one @ one.mT, atol=0.01, rtol=0)


def test_words_without_a_vector_do_not_move_the_state(hmm_corpus: Corpus, tmp_path: Path):
    words = hmm_corpus.vocabulary.words
    file = written(tmp_path / "v.txt", words[:15], torch.randn(15, 5, generator=torch.Generator().manual_seed(0)))
    model = system(hmm_corpus, vectors=file)
    torch.testing.assert_close(model.gains[15:], torch.zeros(5, 3).double(), atol=1e-9, rtol=0)
    assert model.gains[:15].norm(dim=1).min() > 1e-3


def test_vectors_of_fewer_dimensions_than_the_state_are_refused(hmm_corpus: Corpus, tmp_path: Path):
    file = written(tmp_path / "v.txt", hmm_corpus.vocabulary.words, torch.randn(20, 2))
    with pytest.raises(UserError, match=r"model.hidden=3: the vectors of .* have 2 dimensions; set it to 2 or less"):
        system(hmm_corpus, vectors=file)


def test_before_a_text_the_state_is_what_one_end_of_a_line_leaves(hmm_corpus: Corpus):
    model = system(hmm_corpus)
    after = model.filter(torch.zeros(2, 1, dtype=torch.int64), (torch.zeros(2, 3).double(),))[:, -1]
    torch.testing.assert_close(model.initial_state(2)[0], after)
    assert float(after.norm()) > 0.01


def test_the_state_goes_on_from_window_to_window(hmm_corpus: Corpus):
    model = system(hmm_corpus)
    torch.nn.init.normal_(model.output.weight)  # at first it is 0, and the state tells nothing
    tokens = hmm_corpus.splits["valid"][:24].view(2, 12)
    with torch.no_grad():
        whole, _ = model(tokens, model.initial_state(2))
        first, state = model(tokens[:, :5], model.initial_state(2))
        second, _ = model(tokens[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)


def test_smoothed_means_are_spherical_over_the_text(hmm_corpus: Corpus):
    model = system(hmm_corpus)
    filtered = model.filter(hmm_corpus.splits["train"][None], model.initial_state(1))
    spherical = smooth(model.J, model.A, filtered)[0] @ model.spherical
    torch.testing.assert_close(spherical.mT @ spherical / spherical.shape[0], torch.eye(3).double(), atol=0.02, rtol=0)


def test_em_sees_its_own_lags_and_a_dimension_less_than_words(hmm_corpus: Corpus):
    """One-hot words lie in V - 1 dimensions; identification has counted seven lags."""
    counts = Counts.of(hmm_corpus.splits["train"], 20, 7)
    fitted = fit(counts, hidden=3, blocks=4, lags=2, pseudocount=1.0, iterations=1)
    seen = e_step(whiten(counts, 1.0)[1][:2], fitted.lds, fitted.steady, 19)
    assert fitted.expectations.log_density == pytest.approx(seen.log_density, rel=1e-9)
    torch.testing.assert_close(fitted.expectations.xx, seen.xx)
    torch.testing.assert_close(system(hmm_corpus, lags=2, iterations=1).A, fitted.lds.A)


def test_embeddings_of_tokens_see_both_sides_and_no_padding(hmm_corpus: Corpus):
    model, tokens = system(hmm_corpus), hmm_corpus.splits["train"][:20].view(2, 10)
    mask = torch.arange(10) < torch.tensor([10, 6])[:, None]
    embedded = model.embed(tokens, mask)
    torch.testing.assert_close(embedded.norm(dim=2), torch.ones(2, 10).double())
    torch.testing.assert_close(embedded[1:, :6], model.embed(tokens[1:, :6]))
    changed = tokens.clone()
    changed[:, 5] = (tokens[:, 5] + 1) % 20
    assert not torch.allclose(model.embed(changed)[:, 4], model.embed(tokens)[:, 4])


def test_every_model_fits_its_own_system(hmm_corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    """The time of a run must not depend on what ran before it in the same process."""
    fits = []
    monkeypatch.setattr(lds, "fit", lambda *arguments, **options: fits.append(options) or fit(*arguments, **options))
    for _ in range(2):
        system(hmm_corpus)
    assert len(fits) == 2


def test_identification_counts_the_lags_that_it_needs_where_em_sees_fewer(hmm_corpus: Corpus):
    few, same = system(hmm_corpus, lags=2, iterations=0), system(hmm_corpus, iterations=0)
    torch.testing.assert_close(few.A, same.A, atol=1e-8, rtol=0)


def test_the_log_names_its_density(
    hmm_corpus: Corpus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "SECONDS", 0)  # a line for each iteration
    with caplog.at_level(logging.INFO, logger="lmzoo"):
        system(hmm_corpus)
    lines = [record.getMessage() for record in caplog.records]
    assert "is not a log-probability" in lines[0]
    densities = [float(line.split("log-density of ")[1].split()[0]) for line in lines[1:]]
    assert len(densities) == 5  # before and after three iterations, and after each
    assert densities == sorted(densities)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"blocks": 1}, "model.blocks=1"),
        ({"hidden": 20}, "only 20 words"),
        ({"pseudocount": 0.0}, "model.pseudocount=0"),
        ({"lags": 30}, "model.lags=30 count words 30 apart"),
        ({"blocks": 11}, "model.blocks=11 .* 21 apart"),
    ],
)
def test_what_cannot_be_fitted_is_said(hmm_corpus: Corpus, changed: dict, message: str):
    short = dataclasses.replace(hmm_corpus, splits={"train": hmm_corpus.splits["train"][:20]})
    with pytest.raises(UserError, match=message):
        LinearDynamicalSystem(vocabulary_size=20, **SMALL | changed).estimate(short)


def test_a_text_without_structure_is_said(hmm_corpus: Corpus):
    same = dataclasses.replace(hmm_corpus, splits={"train": torch.zeros(50, dtype=torch.int64)})
    with pytest.raises(UserError, match="rank 1; set"):
        LinearDynamicalSystem(vocabulary_size=20, **SMALL).estimate(same)


@pytest.mark.parametrize("seed", range(10))
def test_texts_far_too_small_for_the_system_still_give_one(hmm_corpus: Corpus, seed: int):
    text = torch.randint(20, (60 + 20 * seed,), generator=torch.Generator().manual_seed(seed))
    model = system(dataclasses.replace(hmm_corpus, splits={"train": text}), hidden=19, iterations=10)
    with torch.no_grad():
        assert bool(torch.isfinite(model(text[None], model.initial_state(1))[0]).all())


@pytest.mark.parametrize("name", ["lds", "lds_rnn"])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pseudocuont": 1.0}, r"^model\.pseudocuont: no such option; did you mean 'pseudocount'\?$"),
        ({"pseudocount": -1.0}, r"^model\.pseudocount=-1\.0: must be at least 0"),
        ({"iterations": "all"}, r"^model\.iterations=all: must be an integer"),
        ({"blocks": 0}, r"^model\.blocks=0: must be at least 1"),
    ],
)
def test_options_of_the_system_are_checked_in_both_models(name: str, changed: dict, message: str):
    with pytest.raises(UserError, match=message):
        models.build(defaults("model", name) | changed, vocabulary_size=200)


def test_under_autocast_the_filter_stays_in_single_precision(hmm_corpus: Corpus):
    model, tokens = system(hmm_corpus).float(), hmm_corpus.splits["train"][None, :300]
    _, (exact,) = model(tokens, model.initial_state(1))
    with torch.autocast("cpu", torch.bfloat16):
        _, (state,) = model(tokens, model.initial_state(1))
    assert state.equal(exact)
