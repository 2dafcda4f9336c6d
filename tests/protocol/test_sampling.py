"""Text drawn from a model: how often what is drawn, and what is remembered."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Context
from lmzoo.protocol.model import LanguageModel, State, models
from lmzoo.protocol.perplexity import score, text_logprobs
from lmzoo.protocol.sampling import Decoding, beam_search, draw, sample
from lmzoo.protocol.window_model import WindowModel

P = torch.tensor([[0.0, 0.2, 0.8, 0.0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.0, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
LOG_P = P.log()


class Bigrams(LanguageModel):
    """Whose next word is drawn from a row of P; the state is the last word."""

    vocabulary_size = 4

    def initial_state(self, batch_size: int) -> State:
        return (torch.zeros(batch_size, dtype=torch.int64),)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        before = torch.cat([state[0][:, None], tokens[:, :-1]], 1)
        return LOG_P[before, tokens], (tokens[:, -1],)

    def predict(self, state: State) -> Tensor:
        return LOG_P[state[0]]


class Boundary(WindowModel):
    """Emits 1, but 2 after the end of a sentence that it remembers; after 1, 2 and 3 it emits the end."""

    vocabulary_size, order = 4, 3

    def next_logprobs(self, context: Tensor) -> Tensor:
        before, last = context.unbind(1)
        following = torch.where(last > 0, 0, torch.where(before > 0, 2, 1))
        return torch.where(torch.arange(4) == following[:, None], 0.0, -torch.inf)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_words_are_drawn_as_often_as_the_model_and_the_temperature_have_it(temperature: float):
    decoding = Decoding(temperature=temperature)
    texts = sample(Bigrams(), 200, seed=1, context="stream", decoding=decoding, samples=100).tokens  # (100, 200)
    assert len(set(map(tuple, texts.tolist()))) == 100
    before = torch.cat([torch.zeros(100, 1, dtype=torch.int64), texts[:, :-1]], 1)
    counts = torch.zeros(4, 4).index_put_((before.flatten(), texts.flatten()), torch.ones(()), accumulate=True)
    expected = P ** (1 / temperature)
    expected /= expected.sum(1, keepdim=True)
    times = counts.sum(1, keepdim=True)
    assert times.min() > 500
    assert ((counts / times - expected).abs() <= 4 * (expected * (1 - expected) / times).sqrt()).all()


def test_what_is_remembered_at_the_end_of_a_sentence_is_the_context_s():
    assert sample(Boundary(), 6, seed=0, context="stream").tokens[0].tolist() == [1, 0, 2, 0, 2, 0]
    assert sample(Boundary(), 6, seed=0, context="sentence").tokens[0].tolist() == [1, 0, 1, 0, 1, 0]


def test_a_prompt_is_read_first():
    assert sample(Boundary(), 2, seed=0, context="stream", prompt=torch.tensor([3])).tokens[0].tolist() == [0, 2]


def test_a_seed_draws_the_same_again_and_another_something_else():
    texts = [sample(Bigrams(), 100, seed, context="stream").tokens[0].tolist() for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_next_to_no_temperature_takes_the_likeliest_word():
    assert (
        sample(Bigrams(), 6, seed=0, context="stream", decoding=Decoding(temperature=1e-300)).tokens[0].tolist()
        == [2, 0] * 3
    )


def test_each_text_forgets_at_its_own_boundaries():
    texts = sample(Mixed(), 40, seed=0, context="sentence", samples=8).tokens
    assert len(set(map(tuple, texts.tolist()))) == 8
    for text in texts.tolist():
        for line in " ".join(map(str, text)).split("0"):
            assert "2" not in line.split()[:1], "the sentence before was remembered"
    assert any(2 in text for text in sample(Mixed(), 40, seed=0, context="stream", samples=8).tokens.tolist())


class Mixed(Boundary):
    """As Boundary, but a sentence goes on with 3 half of the time."""

    def next_logprobs(self, context: Tensor) -> Tensor:
        goes_on = torch.tensor([-torch.inf, -torch.inf, -torch.inf, math.log(0.5)])
        certain = super().next_logprobs(context)
        return torch.where((context[:, 1:] > 0), torch.logaddexp(certain + math.log(0.5), goes_on), certain)


def test_each_text_has_a_seed_of_its_own():
    together = sample(Bigrams(), 30, seed=5, context="stream", samples=3).tokens.tolist()
    alone = [sample(Bigrams(), 30, seed, context="stream").tokens[0].tolist() for seed in (5, 6, 7)]
    assert together == alone


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_whole_sentences_are_those_of_a_longer_text(context: Context):
    long = sample(Mixed(), 100, seed=0, context=context, samples=9)
    texts = sample(Mixed(), None, seed=0, context=context, samples=9, sentences=3).each()
    assert len({len(tokens) for tokens, _ in texts}) > 2
    for (tokens, logprobs), whole, scores in zip(texts, long.tokens, long.logprobs, strict=True):
        assert tokens.tolist().count(0) == 3
        assert tokens[-1] == 0
        assert tokens.equal(whole[: len(tokens)])
        assert logprobs.equal(scores[: len(tokens)])


def test_a_sentence_without_an_end_is_reported():
    class Endless(Boundary):
        def next_logprobs(self, context: Tensor) -> Tensor:
            return torch.tensor([-torch.inf, 0.0, -torch.inf, -torch.inf]).expand(len(context), -1)

    with pytest.raises(UserError, match="a sentence has over 2,000 tokens; ask for a number of tokens"):
        sample(Endless(), None, seed=0, context="stream", sentences=1)


def test_words_that_are_not_allowed_are_never_drawn_and_the_others_keep_their_ratios():
    allowed = torch.tensor([True, True, False, True])
    texts = sample(Bigrams(), 200, seed=1, context="stream", samples=100, allowed=allowed)
    before = torch.cat([torch.zeros(100, 1, dtype=torch.int64), texts.tokens[:, :-1]], 1)
    counts = torch.zeros(4, 4).index_put_((before.flatten(), texts.tokens.flatten()), torch.ones(()), accumulate=True)
    expected = torch.tensor([[0, 1, 0, 0], [1 / 7, 2 / 7, 0, 4 / 7], [0, 0, 0, 0], [1, 0, 0, 0]])
    times = counts.sum(1, keepdim=True).clamp(min=1)
    assert ((counts / times - expected).abs() <= 4 * (expected * (1 - expected) / times).sqrt() + 1e-6).all()
    assert torch.allclose(LOG_P[before, texts.tokens].double(), texts.logprobs), "scores are the model's"
    nowhere = torch.tensor([False, False, False, True])
    with pytest.raises(UserError, match="every next word that may be sampled probability 0"):
        sample(Bigrams(), 1, seed=0, context="stream", allowed=nowhere)


def test_scores_are_the_model_s_own_whatever_the_decoding():
    texts = sample(Bigrams(), 50, seed=0, context="stream", decoding=Decoding(temperature=3.0, top_k=3), samples=3)
    for tokens, logprobs in zip(texts.tokens, texts.logprobs, strict=True):
        assert torch.allclose(text_logprobs(Bigrams(), tokens, "stream").double(), logprobs)


LOGPROBS = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2], [0.9, 0.0, 0.02, 0.05, 0.03]]).log()


@pytest.mark.parametrize(
    ("decoding", "kept"),
    [
        (Decoding(), [{0, 1, 2, 3, 4}, {0, 2, 3, 4}]),
        (Decoding(top_k=2), [{1, 3}, {0, 3}]),
        (Decoding(top_k=9), [{0, 1, 2, 3, 4}, {0, 2, 3, 4}]),
        (Decoding(top_p=0.5), [{1, 3}, {0}]),
        (Decoding(top_p=0.4), [{1}, {0}]),
        (Decoding(top_p=0.95), [{0, 1, 3, 4}, {0, 3}]),
        (Decoding(top_k=3, top_p=0.7), [{1, 3}, {0}]),  # 0.65 of 0.85, 0.9 of 0.98
    ],
)
def test_words_that_may_be_drawn(decoding: Decoding, kept: list[set[int]]):
    weights = decoding.weights(LOGPROBS).double()
    for row, logprobs, expected in zip(weights, LOGPROBS, kept, strict=True):
        assert set(row.nonzero()[:, 0].tolist()) == expected
        among = logprobs.exp().double()[sorted(expected)]
        assert torch.allclose(row[sorted(expected)] / row.sum(), among / among.sum(), rtol=1e-5)


def test_the_nucleus_of_many_words_is_that_of_a_whole_sort():
    p = (
        torch.rand(20, 3000, generator=torch.Generator().manual_seed(0))
        .pow(torch.arange(1, 21)[:, None])
        .log()
        .log_softmax(1)
    )
    for mass in (0.1, 0.9, 1 - 1e-9):
        ordered = p.double().exp().sort(1, descending=True).values
        few = (ordered.cumsum(1) - ordered < mass * ordered.sum(1, keepdim=True)).sum(1)
        assert ((Decoding(top_p=mass).weights(p) > 0).sum(1) == few).all()


def test_the_nucleus_is_found_without_a_sort_of_all_words(monkeypatch: pytest.MonkeyPatch):
    sizes, topk = [], torch.Tensor.topk
    monkeypatch.setattr(torch.Tensor, "topk", lambda rank, most, **how: sizes.append(most) or topk(rank, most, **how))
    for whole in ("sort", "argsort"):
        monkeypatch.setattr(torch.Tensor, whole, lambda *_, **__: pytest.fail("all words are sorted"))
    Decoding(top_p=0.9).weights((1 / torch.arange(1.0, 20_001) ** 2).log().log_softmax(0)[None])
    assert len(sizes) == 1
    assert sizes[0] <= 512


def test_words_are_drawn_in_proportion_to_weights_over_many_blocks():
    weights = torch.zeros(1, 1000)
    weights[0, [0, 63, 64, 500, 999]] = torch.tensor([1.0, 2.0, 3.0, 4.0, 1e-30])
    drawn = draw(
        weights.expand(20000, -1), torch.rand(20000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    )[:, 0]
    counts = drawn.bincount(minlength=1000)
    assert counts.nonzero()[:, 0].tolist() == [0, 63, 64, 500]
    expected = 20000 * weights[0, [0, 63, 64, 500]] / 10
    assert ((counts[[0, 63, 64, 500]] - expected).abs() < 4 * expected.sqrt()).all()


def sentences(length: int) -> dict[tuple[int, ...], float]:
    """Every sentence of Bigrams with at most so many tokens, and its log-probability, by enumeration."""
    found, begun = {}, {(): 0.0}
    for _ in range(length):
        begun = {(*b, w): score + float(LOG_P[b[-1] if b else 0, w]) for b, score in begun.items() for w in range(4)}
        found |= {b: score for b, score in begun.items() if b[-1] == 0 and score > -math.inf}
        begun = {b: score for b, score in begun.items() if b[-1] != 0 and score > -math.inf}
    return found


def test_a_wide_beam_finds_the_likeliest_sentences():
    best = sorted(sentences(6).items(), key=lambda sentence: -sentence[1])[:5]
    found = [sentence for sentence in beam_search(Bigrams(), 200, 6) if sentence.tokens[-1] == 0][:5]
    assert [round(sentence.logprob, 5) for sentence in found] == [round(score, 5) for _, score in best]
    for sentence in found:
        assert sentence.logprob == pytest.approx(sentences(6)[tuple(sentence.tokens)])


def test_a_beam_leaves_out_words_that_are_not_allowed():
    best = sorted(
        ((score, tokens) for tokens, score in sentences(6).items() if 2 not in tokens), key=lambda pair: -pair[0]
    )[:3]
    found = [
        (sentence.logprob, tuple(sentence.tokens))
        for sentence in beam_search(Bigrams(), 200, 6, allowed=torch.tensor([True, True, False, True]))
        if sentence.tokens[-1] == 0
    ][:3]
    assert [tokens for _, tokens in found] == [tokens for _, tokens in best]
    assert [score for score, _ in found] == pytest.approx([score for score, _ in best])


class Fixed(WindowModel):
    """The log-probabilities of the word after each word."""

    vocabulary_size, order = 4, 2

    def __init__(self, rows: Tensor):
        super().__init__()
        self.rows = rows.log_softmax(1)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return self.rows[context[:, -1]]


def test_prefixes_that_nothing_continues_leave_the_beam():
    impossible = -torch.inf
    after_2 = torch.tensor([impossible, impossible, impossible, 0.0])
    model = Fixed(
        torch.stack([torch.tensor([impossible, 0.0, 1.0, impossible]), *torch.eye(4)[:1].log(), after_2, after_2])
    )
    found = beam_search(model, 5, 9, allowed=torch.tensor([True, True, True, False]))
    assert [sentence.tokens for sentence in found] == [[1, 0]]
    with pytest.raises(UserError, match="every next word that may be sampled probability 0"):
        beam_search(model, 5, 9, allowed=torch.tensor([True, False, True, False]))


def test_allowed_words_are_drawn_however_unlikely():
    model = Fixed(torch.tensor([[-200.0, -200, -200, 0]]).expand(4, -1))
    drawn = sample(model, 50, seed=0, context="stream", allowed=torch.tensor([False, True, True, False]))
    assert set(drawn.tokens[0].tolist()) == {1, 2}


def test_a_beam_of_one_is_greedy_and_so_is_the_likeliest_word_alone():
    (found,) = beam_search(Bigrams(), 1, 20)
    greedy = sample(Bigrams(), 2, seed=0, context="sentence", decoding=Decoding(top_k=1))
    assert found.tokens == greedy.tokens[0].tolist() == [2, 0]
    assert found.logprob == pytest.approx(float(greedy.logprobs.sum()))


def test_a_beam_search_reads_the_prompt_and_cuts_off():
    assert [sentence.tokens for sentence in beam_search(Bigrams(), 3, 9, prompt=torch.tensor([3]))] == [[0]]
    assert [len(sentence.tokens) for sentence in beam_search(Bigrams(), 2, 1)] == [1, 1]
    (ended, cut) = beam_search(Mixed(), 2, 2)
    assert {tuple(ended.tokens), tuple(cut.tokens)} == {(1, 0), (1, 3)}


@pytest.mark.parametrize("training", [True, False])
def test_text_is_drawn_and_measured_in_evaluation_mode(training: bool):
    class Watched(Bigrams):
        def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
            modes.append(self.training)
            return super().forward(tokens, state)

    modes: list[bool] = []
    model = Watched().train(training)
    sample(model, 3, seed=0, context="stream")
    score(model, torch.tensor([1, 0]), "stream")
    assert modes == [False] * 4
    assert model.training == training


def test_arguments_that_cannot_be():
    with pytest.raises(ValueError, match="tokens=0: must be at least 1"):
        sample(Bigrams(), 0, seed=0, context="stream")
    with pytest.raises(ValueError, match="samples=0: must be at least 1"):
        sample(Bigrams(), 1, seed=0, context="stream", samples=0)
    for tokens, number in ((None, None), (1, 1)):
        with pytest.raises(UserError, match="either tokens or sentences"):
            sample(Bigrams(), tokens, seed=0, context="stream", sentences=number)
    for seed, why in ((1.5, "an integer"), ("1", "an integer"), (-1, "at least 0"), (2**63, f"at most {2**63 - 1}")):
        with pytest.raises(UserError, match=f"seed={seed!r}: must be {why}$"):
            sample(Bigrams(), 1, seed=seed, context="stream")  # pyright: ignore[reportArgumentType]
    sample(Bigrams(), 1, seed=np.int64(3), context="stream")  # pyright: ignore[reportArgumentType]
    sample(Bigrams(), 1, seed=2**63 - 1, context="stream", samples=2)  # the largest of lmzoo generate --seed
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be positive and finite"):
            Decoding(temperature=temperature)
    for wrong in ({"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(ValueError, match="must be"):
            Decoding(**wrong)
    for width, longest in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="=0: must be at least 1"):
            beam_search(Bigrams(), width, longest)


@pytest.mark.parametrize("draw", ["sample", "beam"])
def test_a_network_runs_once_a_token(draw: str):
    model, times = models.build(defaults("model", "lstm") | {"embedding": 4, "hidden": 4}, vocabulary_size=6), []
    model.embedding.register_forward_hook(lambda *_: times.append(1))  # its input
    if draw == "sample":
        sample(model, 10, 0, context="stream", samples=3)
        assert len(times) == 10
    else:
        with torch.no_grad():
            model.output.bias[0] = -1e9  # no sentence ends before the longest
        beam_search(model, 3, 10)
        assert len(times) == 10
