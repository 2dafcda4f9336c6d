"""The linear dynamical system as a language model, and the network that starts from it."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from lds_oracle import HMM

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.lds import lds
from lmzoo.models.lds.estimation.fit import fit
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.models.lds.lds_rnn import LDSRNN
from lmzoo.models.neural.recurrent import RNN

SYSTEM: dict[str, Any] = {"blocks": 4, "lags": 7, "pseudocount": 1.0, "iterations": 3}
NETWORK: dict[str, Any] = {"cell": "rnn", "hidden": 3, "layers": 1, "dropout": 0.0, "classes": None, "init": 0.1}


@pytest.fixture(scope="module")
def hmm_corpus() -> Corpus:
    """20 words of an HMM of 4 states; `<eos>` is one of them."""
    hmm = HMM.draw(stay=0.3, turn=0.6)
    splits = {split: hmm.sample(20_000, seed) for seed, split in enumerate(("train", "valid", "test"))}
    words = ["<eos>", *(f"w{i}" for i in range(19))]
    return Corpus(name="hmm", context="stream", vocabulary=Vocabulary(words), splits=splits, sha256={})


def network(corpus: Corpus, dynamics: bool = True, input: bool = True, head: int = 0, **changed: Any) -> LDSRNN:
    torch.manual_seed(0)
    options = NETWORK | SYSTEM | changed
    model = LDSRNN(vocabulary_size=20, dynamics=dynamics, input=input, head=head, **options).double()
    model.estimate(corpus)
    return model


def system(corpus: Corpus, **changed: Any) -> LinearDynamicalSystem:
    model = LinearDynamicalSystem(vocabulary_size=20, **({"hidden": 3, "classes": None} | SYSTEM | changed)).double()
    model.estimate(corpus)
    return model


def test_without_tanh_the_network_is_the_kalman_filter(hmm_corpus: Corpus):
    filtering, model = system(hmm_corpus), network(hmm_corpus)
    tokens = hmm_corpus.train[None, :500]
    f = filtering.filter(tokens, (torch.zeros(1, 3).double(),))[0]
    layer, h, states = model.recurrent, torch.zeros(3).double(), []
    for x in model.embedding(tokens[0]):
        h = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ h + layer.bias_hh_l0
        states.append(h)
    torch.testing.assert_close(torch.stack(states), f @ (0.5 * filtering.whitener), atol=1e-10, rtol=0)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_with_gates_wide_open_or_shut_a_cell_is_the_rnn(hmm_corpus: Corpus, cell: Literal["gru", "lstm"]):
    plain, tokens = network(hmm_corpus), hmm_corpus.train[None, :200]
    torch.manual_seed(0)
    gated = LDSRNN(vocabulary_size=20, dynamics=True, input=True, head=0, **NETWORK | SYSTEM | {"cell": cell}).double()
    gated.gates = tuple(bias and 20 * bias for bias in gated.gates)
    gated.estimate(hmm_corpus)
    layer, h, states = plain.recurrent, torch.zeros(3).double(), []
    for x in plain.embedding(tokens[0]):
        h = torch.tanh(layer.weight_ih_l0 @ x + layer.weight_hh_l0 @ h)
        h = torch.tanh(h) if cell == "lstm" else h
        states.append(h)
    found, _ = gated.recurrent(gated.embedding(tokens))
    torch.testing.assert_close(found[0], torch.stack(states), atol=1e-10, rtol=0)


def test_before_training_a_system_predicts_frequencies(hmm_corpus: Corpus):
    frequency = (hmm_corpus.train.bincount(minlength=20) + 1.0) / (len(hmm_corpus.train) + 20)
    for classes in (None, 4):
        model = system(hmm_corpus, classes=classes)
        torch.testing.assert_close(
            model.predict(model.initial_state(1))[0].exp(), frequency.double(), atol=1e-6, rtol=0
        )


def test_states_start_with_the_size_that_tanh_leaves_alone(hmm_corpus: Corpus):
    filtering = system(hmm_corpus)
    white = filtering.filter(hmm_corpus.train[None], filtering.initial_state(1))[0] @ filtering.whitener
    torch.testing.assert_close(white.mT @ white / len(white), torch.eye(3).double(), atol=0.02, rtol=0)


@pytest.mark.parametrize("make", [network, system])
def test_classes_start_from_their_words_frequencies(hmm_corpus: Corpus, make: Callable[..., Any]):
    model = make(hmm_corpus, classes=4)
    whole = torch.zeros(4).double().index_add(0, model.output.classes.word_class, model.output.bias.exp())
    torch.testing.assert_close(model.output.classes.S.bias.exp(), whole, atol=1e-10, rtol=0)
    assert model.output.classes.S.bias.exp().sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("dynamics", "input"), [(True, False), (False, True), (False, False)])
def test_each_part_starts_from_the_system_or_as_in_an_rnn(hmm_corpus: Corpus, dynamics: bool, input: bool):
    whole, model = network(hmm_corpus), network(hmm_corpus, dynamics, input)
    torch.manual_seed(0)
    same = {name: NETWORK[name] for name in ("hidden", "layers", "dropout", "classes", "init")}
    plain = RNN(vocabulary_size=20, embedding=3, tied=False, **same).double()
    for name, mine in {
        "recurrent.weight_hh_l0": dynamics,
        "embedding.weight": input,
        "recurrent.weight_ih_l0": input,
        "output.weight": False,
        "output.bias": dynamics or input,
    }.items():
        expected = (whole if mine else plain).get_parameter(name)
        torch.testing.assert_close(model.get_parameter(name), expected, atol=1e-10, rtol=0, msg=name)


def test_the_vector_of_a_rare_word_is_cut(hmm_corpus: Corpus):
    """The last word occurs once: what the filter takes from it is far beyond tanh."""
    text = hmm_corpus.train.clamp(max=18)
    text[1000] = 19
    corpus = dataclasses.replace(hmm_corpus, splits={"train": text})
    filtering, model = (make(corpus, hidden=8, pseudocount=0.0) for make in (system, network))
    free = filtering.gains @ filtering.whitener / 2
    cut = model.embedding.weight.detach()
    assert float(free[19].norm()) > 1.5 * 8**0.5
    torch.testing.assert_close(cut[19], free[19] * (8**0.5 / free[19].norm()))
    torch.testing.assert_close(cut[:19], free[:19])


def test_a_fitted_head_predicts_better_and_leaves_the_rest_alone(hmm_corpus: Corpus):
    random, fitted = network(hmm_corpus), network(hmm_corpus, head=100)
    tokens = hmm_corpus.splits["valid"][None]
    with torch.no_grad():
        before, after = (-model(tokens, model.initial_state(1))[0].mean() for model in (random, fitted))
    assert after < before - 0.05
    for name, parameter in fitted.named_parameters():
        assert parameter.requires_grad
        same = torch.allclose(parameter, random.get_parameter(name), atol=1e-10, rtol=0)
        assert same == (not name.startswith("output")), name


def test_embeddings_of_tokens_see_both_sides_and_no_padding(hmm_corpus: Corpus):
    model, tokens = system(hmm_corpus), hmm_corpus.train[:20].view(2, 10)
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


def test_the_log_names_its_density(hmm_corpus: Corpus, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="lmzoo"):
        system(hmm_corpus)
    lines = [record.getMessage() for record in caplog.records]
    assert "no log-probability" in lines[0]
    densities = [float(line.split("log-density ")[1].split()[0]) for line in lines[1:]]
    assert len(densities) == 4
    assert densities == sorted(densities)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"blocks": 1}, "model.blocks=1"),
        ({"hidden": 20}, "only 20 words"),
        ({"pseudocount": 0.0}, "model.pseudocount=0"),
        ({"lags": 30}, "model.lags=30"),
    ],
)
def test_what_cannot_be_fitted_is_said(hmm_corpus: Corpus, changed: dict, message: str):
    short = dataclasses.replace(hmm_corpus, splits={"train": hmm_corpus.train[:20]})
    with pytest.raises(UserError, match=message):
        LinearDynamicalSystem(vocabulary_size=20, **({"hidden": 3, "classes": None} | SYSTEM | changed)).estimate(short)


def test_a_text_without_structure_is_said(hmm_corpus: Corpus):
    same = dataclasses.replace(hmm_corpus, splits={"train": torch.zeros(50, dtype=torch.int64)})
    with pytest.raises(UserError, match="rank 1; set"):
        LinearDynamicalSystem(vocabulary_size=20, **({"hidden": 3, "classes": None} | SYSTEM)).estimate(same)


@pytest.mark.parametrize("seed", range(10))
def test_texts_far_too_small_for_the_system_still_give_one(hmm_corpus: Corpus, seed: int):
    text = torch.randint(20, (60 + 20 * seed,), generator=torch.Generator().manual_seed(seed))
    model = system(dataclasses.replace(hmm_corpus, splits={"train": text}), hidden=19, iterations=10)
    with torch.no_grad():
        assert bool(torch.isfinite(model(text[None], model.initial_state(1))[0]).all())
