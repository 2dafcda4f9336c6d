"""Windows cover a text, and perplexity does not depend on how."""

import math

import pytest
import torch

from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import score, text_logprobs


def text(lines: int = 37, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    rows = [torch.randint(1, 9, (int(n),), generator=random) for n in torch.randint(0, 12, (lines,), generator=random)]
    return torch.cat([torch.cat([row, torch.zeros(1, dtype=torch.int64)]) for row in rows])


def test_stream_rows_are_consecutive_and_windows_cover_them():
    tokens = torch.arange(1, 24)
    windows = StreamWindows(tokens, batch_size=3, bptt=4)
    seen = list(windows.epoch(0))
    assert len(seen) == len(windows) == 2
    assert [window.starts for window in seen] == [True, False]
    assert torch.equal(torch.cat([window.tokens for window in seen], 1), tokens[:21].view(3, 7))


@pytest.mark.parametrize("stored", [text(), text().int()])
@pytest.mark.parametrize("cut", [lambda text: SentenceWindows(text, 30, 1), lambda text: StreamWindows(text, 4, 7)])
def test_positions_are_the_places_of_tokens_in_the_text(cut, stored):
    for window in cut(stored).epoch(0):
        assert window.tokens.dtype == torch.int64
        assert torch.equal(text()[window.positions[window.inside]], window.tokens[window.inside])


def test_one_row_leaves_nothing_out():
    tokens = torch.arange(1, 24)
    assert torch.equal(torch.cat([w.tokens for w in StreamWindows(tokens, 1, 5).epoch(0)], 1)[0], tokens)


@pytest.mark.parametrize("seed", [None, 3])
def test_every_sentence_is_in_one_window_once(seed: int | None):
    tokens = text()
    windows = SentenceWindows(tokens, max_tokens=30, seed=seed)
    lines = []
    for window in windows.epoch(5):
        assert window.starts
        assert window.tokens.numel() <= 30
        mask = torch.ones_like(window.tokens).bool() if window.mask is None else window.mask
        lines += [tuple(row[keep].tolist()) for row, keep in zip(window.tokens, mask, strict=True)]
        assert window.count == int(mask.sum())
        assert (window.tokens[~mask] == 0).all()
    expected = "".join(map(str, tokens.tolist())).split("0")[:-1]
    assert sorted(lines) == sorted((*map(int, line), 0) for line in expected)


def test_a_long_sentence_has_a_window_to_itself():
    tokens = torch.tensor([1] * 50 + [0, 2, 0])
    assert sorted(w.tokens.shape for w in SentenceWindows(tokens, 10, None).epoch(0)) == [(1, 2), (1, 51)]


@pytest.mark.parametrize("windows", [SentenceWindows(text(), 30, 1), StreamWindows(text(), 4, 7)])
def test_an_epoch_goes_on_from_a_window_s_number(windows):
    whole = list(windows.epoch(2))
    rest = list(windows.epoch(2, skip=3))
    assert [w.tokens.tolist() for w in rest] == [w.tokens.tolist() for w in whole[3:]]
    assert len(whole) == len(windows)


def test_epochs_differ_in_the_order_of_sentences():
    windows = SentenceWindows(text(), 30, 1)
    assert [w.tokens.tolist() for w in windows.epoch(0)] != [w.tokens.tolist() for w in windows.epoch(1)]


class Repeater(LanguageModel):
    """p(x_t) = 1/2 for the previous word, the rest shared: enough memory to notice a cold row."""

    vocabulary_size = 9
    window_tokens = 16

    def initial_state(self, batch_size: int):
        return (torch.zeros(batch_size, dtype=torch.int64),)

    def forward(self, tokens, state):
        before = torch.cat([state[0][:, None], tokens[:, :-1]], 1)
        return torch.where(tokens == before, 0.5, 0.5 / 8).double().log(), (tokens[:, -1],)

    def predict(self, state):
        raise NotImplementedError


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_perplexity_counts_every_token_by_hand(context):
    tokens = text()
    total, before = 0.0, 0
    for token in tokens.tolist():
        total += math.log(0.5 if token == before else 0.5 / 8)
        before = token  # a sentence's first word follows <eos> in both contexts
    measured = score(Repeater(), tokens, context)
    assert measured.tokens == len(tokens)
    assert math.isclose(measured.logprob, total, rel_tol=1e-12)
    assert math.isclose(measured.perplexity, math.exp(-total / len(tokens)), rel_tol=1e-12)


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_log_probabilities_are_in_the_order_of_the_text(context):
    class Named(Repeater):
        """-0.01 times the word, and -1 where the state has carried anything on."""

        def initial_state(self, batch_size: int):
            return (torch.zeros(batch_size),)

        def forward(self, tokens, state):
            return -0.01 * tokens - state[0][:, None], (torch.ones(len(tokens)),)

    tokens = text()
    later = torch.arange(len(tokens)) >= 16 if context == "stream" else torch.zeros(len(tokens))
    torch.testing.assert_close(text_logprobs(Named(), tokens, context), -0.01 * tokens - 1.0 * later)


def test_nothing_and_half_a_sentence_have_no_score():
    with pytest.raises(ValueError, match="there is no token to score"):
        score(Repeater(), torch.empty(0, dtype=torch.int64), "stream")
    open_ended = torch.tensor([1, 0, 2])
    assert score(Repeater(), open_ended, "stream").tokens == 3
    with pytest.raises(ValueError, match="the last sentence of the text is not closed by <eos>"):
        score(Repeater(), open_ended, "sentence")


def test_impossible_tokens_are_counted_and_perplexity_is_infinite():
    class Never(Repeater):
        def forward(self, tokens, state):
            return torch.where(tokens == 3, -math.inf, -1.0), state

    tokens = torch.tensor([1, 3, 3, 0])
    measured = score(Never(), tokens, "stream")
    assert measured.impossible == 2
    assert measured.perplexity == math.inf
