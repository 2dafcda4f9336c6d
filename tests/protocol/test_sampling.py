"""Text drawn from a model: how often what is drawn, and what is remembered."""

import math

import pytest
import torch
from torch import Tensor

from lmzoo.protocol.model import LanguageModel, State, WindowModel
from lmzoo.protocol.sampling import sample

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
    drawn = sample(Bigrams(), 20_000, seed=1, context="stream", temperature=temperature)
    before = torch.cat([torch.tensor([0]), drawn[:-1]])
    counts = torch.zeros(4, 4).index_put_((before, drawn), torch.ones(()), accumulate=True)
    expected = P ** (1 / temperature)
    expected /= expected.sum(1, keepdim=True)
    times = counts.sum(1, keepdim=True)
    assert times.min() > 500
    assert ((counts / times - expected).abs() <= 4 * (expected * (1 - expected) / times).sqrt()).all()


def test_what_is_remembered_at_the_end_of_a_sentence_is_the_context_s():
    assert sample(Boundary(), 6, seed=0, context="stream").tolist() == [1, 0, 2, 0, 2, 0]
    assert sample(Boundary(), 6, seed=0, context="sentence").tolist() == [1, 0, 1, 0, 1, 0]


def test_a_prompt_is_read_first():
    assert sample(Boundary(), 2, seed=0, context="stream", prompt=torch.tensor([3])).tolist() == [0, 2]


def test_a_seed_draws_the_same_again_and_another_something_else():
    texts = [sample(Bigrams(), 100, seed, context="stream").tolist() for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_next_to_no_temperature_takes_the_likeliest_word():
    assert sample(Bigrams(), 6, seed=0, context="stream", temperature=1e-300).tolist() == [2, 0] * 3


def test_arguments_that_cannot_be():
    with pytest.raises(ValueError, match="tokens=0: must be at least 1"):
        sample(Bigrams(), 0, seed=0, context="stream")
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be positive and finite"):
            sample(Bigrams(), 1, seed=0, context="stream", temperature=temperature)
