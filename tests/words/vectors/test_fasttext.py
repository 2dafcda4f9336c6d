"""fastText: hashes against gensim's, sums of n-grams against loops, words that the text does not have."""

import math
import random
from pathlib import Path

import pytest
import torch
from vectors_corpus import corpus_of, two_topics

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.words.vectors.fasttext import MOST, FastText, buckets_of
from lmzoo.words.vectors.method import methods
from lmzoo.words.vectors.word_vectors import unit


def started(corpus: Corpus | None = None, **options) -> FastText:
    method = methods.build(defaults("method", "fasttext") | {"min_count": 1, "dim": 8, "buckets": 500, **options})
    method.start(corpus or two_topics(), seed=0)
    return method


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lengths", [(3, 6), (2, 3), (1, 2), (1, 1), (8, 9)])
def test_n_grams_fall_into_the_buckets_of_gensim(lengths: tuple[int, int]):
    fasttext = pytest.importorskip("gensim.models.fasttext")
    for word in ("a", "where", "naïve", "日本語", "1990's", "<unk>"):
        assert sorted(buckets_of(word, *lengths, 997)) == sorted(fasttext.ft_ngram_hashes(word, *lengths, 997))


def test_a_word_is_the_mean_of_its_vector_and_those_of_its_n_grams(tmp_path: Path):
    (tmp_path / "words").write_text("a9\na1\nabba\n")
    method = started(shortest=2, longest=3, also=str(tmp_path / "words"))
    V = len(method.text.words)
    assert method.words == [*method.text.words, "a9", "abba"]
    for row, (word, vector) in enumerate(zip(method.words, method.vectors(), strict=True)):
        own = [method.W[V + n] for n in buckets_of(word, 2, 3, 500)] + [method.W[row]] * (row < V)
        torch.testing.assert_close(vector, torch.stack(own).mean(0))


def test_each_part_of_a_word_takes_its_whole_step():
    method = started(shortest=2, longest=3)
    V, before = len(method.text.words), method.W.clone()
    words, gradient = (
        torch.tensor([[3, 1], [3, 5], [3, 3]]),
        torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(1)),
    )
    steps = torch.zeros_like(before)
    times = torch.zeros(len(before))
    for word, step in zip(words.flatten().tolist(), gradient.flatten(0, 1), strict=True):
        for row in [word, *(V + n for n in buckets_of(method.words[word], 2, 3, 500))]:
            steps[row] += step
            times[row] += 1
    assert times.max() > MOST > 1
    method.learn(words, gradient, 0.1)
    in_full = (MOST / times).clamp(max=1)[:, None]
    torch.testing.assert_close(method.W, before - 0.1 * steps * in_full)


def test_a_word_that_the_text_does_not_have_is_like_those_with_its_n_grams(tmp_path: Path):
    (tmp_path / "words").write_text("sunning\nraining\n<unk>\n")
    draw = random.Random(0)
    topics = [[stem + end for end in ("", "s", "ny", "ned", "less")] for stem in ("sun", "rain")]
    lines = [" ".join(draw.choices(topic, k=8)) for topic in topics for _ in range(150)]
    draw.shuffle(lines)
    method = started(corpus_of(lines), also=str(tmp_path / "words"), sample=0, epochs=30)
    for number in range(method.steps):
        method.step(number)
    vectors = dict(zip(method.words, unit(method.vectors()), strict=True))
    assert "<unk>" not in vectors
    for new, own, other in (("sunning", "sun", "rain"), ("raining", "rain", "sun")):
        near, far = (min(float(vectors[new] @ vectors[stem + end]) for end in ("s", "less")) for stem in (own, other))
        assert near > far + 0.2


def test_what_cannot_be_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match=r"method.longest=2: is below method.shortest=3"):
        started(shortest=3, longest=2)
    (tmp_path / "words").write_text("a\n")
    with pytest.raises(UserError, match=r"method.shortest=5: 'a' of method.also has no n-gram"):
        started(shortest=5, longest=6, also=str(tmp_path / "words"))


def test_the_defaults_learn_the_embedded_corpus():
    method = methods.build(defaults("method", "fasttext") | {"epochs": 1})
    method.start(load_corpus(defaults("corpus", "pydoc")), seed=0)
    losses = [method.step(number)["train/loss"] for number in range(method.steps)]
    assert max(losses) < 1.01 * 6 * math.log(2)  # as vectors of zeros have it, with five words of noise


def test_training_that_diverges_is_refused():
    method = started(lr=100.0, epochs=20)
    with pytest.raises(UserError, match=r"method.lr=100.0: training diverges"):
        [method.step(number) for number in range(method.steps)]
