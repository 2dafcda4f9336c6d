"""The ∞-gram against a search for every context in the text, and against its own states."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.models.ngram.infinigram import Contexts, InfiniGram, ranked

WORDS = 4
texts = st.lists(st.integers(0, WORDS - 2), min_size=1, max_size=30)  # the last word never occurs


def fitted(text: list[int]) -> InfiniGram:
    model = InfiniGram(vocabulary_size=WORDS)
    words = torch.tensor(text)
    model.keys = (words * len(words) + ranked(words)).sort().values
    return model


def places(text: list[int], context: list[int]) -> list[int]:
    """Before which words of a circle a context stands."""
    N, m = len(text), len(context)
    return [i for i in range(N) if all(text[(i - m + k) % N] == context[k] for k in range(m))]


def longest(text: list[int], context: list[int]) -> list[int]:
    return next(context[k:] for k in range(len(context) + 1) if places(text, context[k:]))


def probabilities(text: list[int], context: list[int]) -> list[float]:
    found = [text[place] for place in places(text, longest(text, context))]
    return [found.count(word) / len(found) for word in range(WORDS)]


@settings(deadline=None)
@given(texts, st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=20))
@example([1, 2, 0, 1, 2, 1, 0], [1, 2, 1, 2, 0, 1, 3, 2, 0])
@example([0], [0, 0, 1, 0])
@example([1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0, 1, 0, 1, 1])  # all contexts are alike
def test_the_longest_context_of_the_text_predicts(text: list[int], query: list[int]):
    model = fitted(text)
    state = model.initial_state(1)
    scores, _ = model(torch.tensor([query]), state)
    context = [EOS_ID]
    for t, word in enumerate(query):
        expected = probabilities(text, context)
        assert model.predict(state)[0].exp().tolist() == pytest.approx(expected)
        assert math.exp(float(scores[0, t])) == pytest.approx(expected[word])
        first, end, length = (int(part) for part in state)
        assert length == len(longest(text, context))
        assert end - first == len(places(text, longest(text, context)))
        _, state = model(torch.tensor([[word]]), state)
        context.append(word)


@settings(deadline=None)
@given(texts)
@example([1, 0, 1, 0])
def test_ranks_are_those_of_the_words_before(text: list[int]):
    N = len(text)
    before = [[text[(i - 1 - k) % N] for k in range(2 * N)] for i in range(N)]
    ranks = ranked(torch.tensor(text)).tolist()
    assert sorted(ranks) == [*range(N)]
    assert [before[i] for i in sorted(range(N), key=ranks.__getitem__)] == sorted(before)
    model = fitted(text)
    following = Contexts(model.keys).following
    assert sorted(following.tolist()) == sorted(text)


def test_a_text_of_train_is_certain_once_its_context_is_alone(corpus: Corpus):
    model = InfiniGram(vocabulary_size=len(corpus.vocabulary))
    model.estimate(corpus)
    text = corpus.splits["train"][None, :300]
    scores, (first, end, length) = model(text, model.initial_state(1))
    assert (int(end - first), int(length)) == (1, 301)
    assert (scores[0, 50:] == 0).all()
    assert (scores[0, 0] < 0).all()
