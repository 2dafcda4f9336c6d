"""n-gram models against dictionaries of tuples, and on Penn Treebank against KenLM."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ngram_oracle import BOS, EOS, Oracle

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.models.ngram.counts import adjusted_counts, count_ngrams, places_between
from lmzoo.models.ngram.ngram import NGram
from lmzoo.models.ngram.smoothing import discounts, estimate
from lmzoo.numerics.hashing import HashTable
from lmzoo.protocol.perplexity import score, text_logprobs

KENLM = {  # PTB valid and test, <unk> an ordinary word
    2: (199.01806, 185.70489),
    3: (157.76526, 148.28150),
    4: (149.89556, 142.71561),
    5: (148.00740, 141.18621),
    6: (147.35667, 140.83688),
}
CONFIGURATION = defaults("model", "ngram")
DEFAULTS = {name: value for name, value in CONFIGURATION.items() if name not in ("name", "order", "unknown")}
DEFAULT_4 = {"order": 4} | {
    name: value for name, value in DEFAULTS.items() if name not in ("discount_fallback", "memory")
}
SMOOTHINGS = ["mle", "additive", "witten_bell", "absolute", "kneser_ney", "modified_kneser_ney"]
WORDS = 4  # and <eos>: V = 5, word 4 rarely seen

texts = st.lists(st.lists(st.integers(1, WORDS), max_size=6), min_size=1, max_size=8)
all_options = st.fixed_dictionaries(
    {
        "order": st.integers(1, 4),
        "smoothing": st.sampled_from(SMOOTHINGS),
        "interpolated": st.booleans(),
        "interpolate_unigrams": st.booleans(),
        "pseudocount": st.sampled_from([0.01, 1.0, 3.0]),
        "prune": st.sampled_from([[0], [0, 0, 1], [0, 1], [0, 1, 2]]),
    }
)


def stream(lines: list[list[int]]) -> torch.Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


def contexts(length: int) -> torch.Tensor:
    """Every context of so many words, (WORDS + 1) ** length rows."""
    return torch.tensor(list(product(range(WORDS + 1), repeat=length))).view((WORDS + 1) ** length, length)


def remembered(context: tuple[int, ...]) -> tuple:
    """What a model remembers of a context: nothing before the last sentence boundary."""
    for i in reversed(range(len(context))):
        if context[i] == 0:
            return (BOS, *context[i + 1 :])
    return context


@settings(deadline=None)
@given(texts, all_options, st.integers(WORDS + 1, WORDS + 3))
@example([[]], DEFAULT_4, 5)  # nothing but a sentence boundary
@example([[1]], DEFAULT_4, 5)  # one word
@example([[1, 2, 3, 1, 2, 4]], DEFAULT_4, 5)  # one sentence
@example([[1, 2]] * 9, DEFAULT_4, 5)  # one line again and again
@example([[], [1, 2], [], [], [3]], DEFAULT_4, 5)  # empty lines
@example([[1, 1]], DEFAULT_4 | {"interpolated": False}, 5)  # a backoff above 1
@example([[3, 1, 2]] * 2 + [[1]], DEFAULT_4 | {"order": 3, "prune": [0, 1]}, 5)  # seen twice, after one word alone
@example(
    [[1, 1, 2, 1, 3, 1, 4, 1, 1], [1, 2]], DEFAULT_4 | {"order": 2, "smoothing": "absolute", "interpolated": False}, 5
)
def test_probabilities_equal_the_dictionary_s(lines: list[list[int]], options: dict, types: int):
    tokens = stream(lines)
    order = options["order"]
    table = estimate(tokens, vocabulary_size=types, discount_fallback=True, memory=None, **options)
    orders = count_ngrams(tokens, types, order)
    adjusted = options["smoothing"].endswith("kneser_ney")
    counts = adjusted_counts(orders) if adjusted else [grams.counts for grams in orders]
    D = discounts(tokens, types, counts, options["smoothing"], fallback=True)
    oracle = Oracle(tokens.tolist(), types, discounts=D, **options)
    context = contexts(order - 1)
    predicted = table.predict(context).double().exp()
    torch.testing.assert_close(predicted.sum(1), torch.ones(len(context)).double(), atol=1e-5, rtol=0)
    for row, h in zip(predicted.tolist(), context.tolist(), strict=True):
        expected = [oracle.probability(word or EOS, remembered(tuple(h))) for word in range(types)]
        assert row == pytest.approx(expected, rel=1e-4, abs=1e-9)


@settings(deadline=None, max_examples=25)
@given(texts, all_options, st.integers(1, 4))
@example([[1, 2, 3], [2], [2, 3, 3, 2], []], DEFAULT_4 | {"prune": [0, 0, 1]}, 1)
def test_a_text_is_counted_in_pieces_to_the_same_bits(lines: list[list[int]], options: dict, piece: int):
    options = {"vocabulary_size": WORDS + 1, "discount_fallback": True, "memory": None, **options}
    whole = estimate(stream(lines), **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzoo.models.ngram.counts.PIECE", piece)
        patch.setattr("lmzoo.models.ngram.discounts.PIECE", piece)
        pieces = estimate(stream(lines).int(), **options)
    for name in ("keys", "logprob", "backoff"):
        assert getattr(whole, name).tolist() == getattr(pieces, name).tolist()


def test_a_large_text_is_read_eight_times_for_each_order_above_the_first(monkeypatch: pytest.MonkeyPatch):
    sought = []
    monkeypatch.setattr("lmzoo.models.ngram.counts.PIECE", 1)
    monkeypatch.setattr(
        "lmzoo.models.ngram.counts.places_between", lambda *asked: sought.append(asked) or places_between(*asked)
    )
    count_ngrams(torch.arange(8000) * 7919 % 1000, 1000, 3)
    assert len(sought) == 2 * 8


@settings(deadline=None)
@given(texts, st.lists(st.integers(0, WORDS), min_size=1, max_size=20), all_options)
def test_scores_are_the_predictions_of_the_text(lines: list[list[int]], text: list[int], options: dict):
    order = options["order"]
    table = estimate(stream(lines), vocabulary_size=WORDS + 1, discount_fallback=True, memory=None, **options)
    words = torch.tensor([[0] * (order - 1) + text, [1] * (order - 1) + text[::-1]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzoo.models.ngram.table.WORTH_HASHING", 0)
        searched = table.score(words, order - 1)
        patch.setattr("lmzoo.models.ngram.table.WORTH_HASHING", 1000)
        scores = table.score(words, order - 1)
    assert torch.equal(scores, searched)
    windows = words.unfold(1, order, 1).reshape(-1, order)
    expected = table.predict(windows[:, :-1]).gather(1, windows[:, -1:]).view_as(scores)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)


def test_penn_treebank_perplexities_are_kenlm_s(ptb: Corpus):
    for order, expected in KENLM.items():
        for unknown in (False, True) if order == 5 else (False,):
            model = NGram(vocabulary_size=len(ptb.vocabulary), order=order, unknown=unknown, **DEFAULTS)
            model.estimate(ptb)
            for split, kenlm in zip(("valid", "test"), expected, strict=True):
                for context in ("sentence", "stream") if order == 5 else ("sentence",):
                    perplexity = score(model, ptb.splits[split], context).perplexity
                    # With KenLM's unknown type, only its rounding is left between the two.
                    assert perplexity == pytest.approx(kenlm, rel=2e-7 if unknown else 3e-6)


def test_impossible_tokens_are_counted_not_fatal(corpus: Corpus):
    model = NGram(vocabulary_size=len(corpus.vocabulary), order=3, unknown=False, **DEFAULTS | {"smoothing": "mle"})
    model.estimate(corpus)
    result = score(model, corpus.splits["test"], "sentence")
    assert math.isinf(result.perplexity)
    assert 0 < result.impossible < result.tokens


def test_a_long_text_is_scored_in_large_windows_and_hashes_the_table_once(monkeypatch: pytest.MonkeyPatch):
    model = NGram(vocabulary_size=5, order=3, unknown=False, **DEFAULTS)
    assert model.window_tokens == 2**20
    tokens = stream([[1, 2, 3, 4, 1], [2, 2], [4]] * 20)
    model.table = estimate(tokens, vocabulary_size=5, order=3, **DEFAULTS)
    whole, made = text_logprobs(model, tokens, "sentence"), []
    monkeypatch.setattr(NGram, "window_tokens", 30)
    monkeypatch.setattr("lmzoo.models.ngram.table.SHORT", 0)
    monkeypatch.setattr("lmzoo.models.ngram.table.HashTable", lambda keys: made.append(keys) or HashTable(keys))
    assert torch.equal(text_logprobs(model, tokens, "sentence"), whole)
    assert len(made) == 1


def test_an_n_gram_takes_16_bytes_at_most(corpus: Corpus):
    model = NGram(vocabulary_size=len(corpus.vocabulary), order=5, unknown=False, **DEFAULTS)
    model.estimate(corpus)
    assert sum(tensor.nbytes for tensor in model.state_dict().values()) <= 16 * len(model.table.logprob)


def test_an_unknown_type_takes_its_share(corpus: Corpus):
    closed, opened = (
        NGram(vocabulary_size=len(corpus.vocabulary), order=2, unknown=unknown, **DEFAULTS) for unknown in (False, True)
    )
    closed.estimate(corpus)
    opened.estimate(corpus)
    state = closed.initial_state(1)
    assert closed.predict(state).exp().sum().item() == pytest.approx(1, abs=1e-6)
    assert opened.predict(state).shape == closed.predict(state).shape
    assert opened.predict(state).exp().sum().item() < 1 - 1e-6


def test_a_model_without_a_text_is_uniform():
    for unknown in (False, True):
        model = NGram(vocabulary_size=5, order=3, unknown=unknown, **DEFAULTS)
        torch.testing.assert_close(model.predict(model.initial_state(2)).exp(), torch.full((2, 5), 1 / (5 + unknown)))


def test_weights_of_another_order_or_of_other_words_are_refused(corpus: Corpus):
    V = len(corpus.vocabulary)

    def estimated(text: Corpus, order: int) -> NGram:
        (model := NGram(len(text.vocabulary), order=order)).estimate(text)
        return model

    for order in (1, 3):
        weights = estimated(corpus, order).state_dict()
        for other in ({"order": order + 1}, {"order": 2}, {"vocabulary_size": V + 1}, {"unknown": True}):
            with pytest.raises(RuntimeError, match="size mismatch for NGram"):
                NGram(**({"vocabulary_size": V, "order": order} | other)).load_state_dict(weights)
        (same := NGram(V, order=order)).load_state_dict(weights)
        assert text_logprobs(same, corpus.splits["valid"], "stream").isfinite().all()
    short = replace(corpus, splits={"train": torch.tensor([1, 2, EOS_ID])})  # no n-gram is of the highest order
    NGram(V, order=5).load_state_dict(estimated(short, 5).state_dict())
    NGram(V, order=5).load_state_dict(NGram(V, order=5).state_dict())


@pytest.mark.parametrize("prune", [[], [1], [0, 2, 1], [0, 0, 0, 0]])
def test_pruning_thresholds_are_checked(prune: list[int]):
    with pytest.raises(UserError, match=r"model\.prune"):
        NGram(vocabulary_size=5, order=3, unknown=False, **DEFAULTS | {"prune": prune})


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_short_text_is_scored_as_in_a_long_one(order: int, monkeypatch: pytest.MonkeyPatch):
    model = NGram(vocabulary_size=5, order=order, unknown=False, **DEFAULTS)
    tokens = stream([[1, 2, 3, 4, 1], [2, 2], [4]] * 20)
    rows = torch.randint(5, (7, 9), generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        short = model(rows, model.initial_state(7))[0]
        with monkeypatch.context() as patch:
            patch.setattr("lmzoo.models.ngram.table.SHORT", 0)
            assert torch.equal(model(rows, model.initial_state(7))[0], short)
        model.table = estimate(tokens, vocabulary_size=5, order=order, **DEFAULTS)
