"""The output layer against log-softmax over all words, and its gradient against autograd's."""

import pytest
import torch
from torch.nn import functional as F

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.neural import softmax
from lmzoo.models.neural.output import MixtureOfSoftmaxes, Output, WordClasses
from lmzoo.protocol.model import models
from lmzoo.words.brown import cached_brown_clusters

N, D, V = 23, 4, 11
CLASSES = torch.tensor([2, 0, 1, 0, 2, 2, 3, 0, 1, 1, 2])  # the words' own; word 6 is alone, class 4 is empty


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(softmax, "CHUNK_ELEMENTS", 5 * V)


def draw(dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((N, D), (V, D), (V,))
    inputs = [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]
    return inputs, torch.randint(V, (N,), generator=random)


def layer(inputs: list[torch.Tensor], classes: WordClasses | None = None) -> Output:
    output = Output(inputs[1], inputs[2], classes=None)
    output.classes = classes
    return output


def dense(inputs: list[torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(F.linear(*inputs).to(torch.float64), tokens, reduction="none")


def classed(dtype: torch.dtype = torch.float64) -> WordClasses:
    torch.manual_seed(0)
    classes = WordClasses(V, D, 5, "brown").to(dtype)
    classes.word_class.copy_(CLASSES)
    return classes


def two_level(inputs: list[torch.Tensor], tokens: torch.Tensor, classes: WordClasses) -> torch.Tensor:
    """log p(c | h) + log p(x | h, c), token by token."""
    scores = []
    for h, x in zip(inputs[0], tokens, strict=True):
        c = CLASSES[x]
        own = c == CLASSES
        within = (inputs[1] @ h + inputs[2]).masked_fill(~own, -torch.inf).log_softmax(0)[x]
        scores.append((classes.S.weight @ h + classes.S.bias).log_softmax(0)[c] + within)
    return torch.stack(scores)


WEIGHTS = {
    "mean": torch.full((N,), 1 / N).double(),
    "mask": (torch.arange(N) % 3 > 0).double(),
    "any": torch.linspace(-1, 2, N).double(),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_scores_and_gradients_are_the_dense_ones(weights: torch.Tensor):
    inputs, tokens = draw()
    scores, expected = layer(inputs)(inputs[0], tokens), dense(inputs, tokens)
    torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)
    gradients, wanted = (torch.autograd.grad((weights * s).sum(), inputs) for s in (scores, expected))
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("word_class", [None, CLASSES])
def test_tokens_that_are_not_alike_have_the_same_gradients(word_class: torch.Tensor | None):
    inputs, tokens = draw()
    scores = [softmax.token_logprobs(*inputs, tokens, word_class, alike=alike) for alike in (True, False)]
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-12, atol=1e-12)
    wanted, ours = (torch.autograd.grad((WEIGHTS["any"] * s).sum(), inputs) for s in scores)
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    of_none = softmax.token_logprobs(inputs[0][:0], *inputs[1:], tokens[:0], word_class).sum()
    assert not any(part.any() for part in torch.autograd.grad(of_none, inputs))


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_two_levels_are_the_class_and_the_word_among_its_own(weights: torch.Tensor):
    inputs, tokens = draw()
    classes = classed()
    inputs_and_S = [*inputs, classes.S.weight, classes.S.bias]
    scores, expected = layer(inputs, classes)(inputs[0], tokens), two_level(inputs, tokens, classes)
    torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)
    gradients, wanted = (torch.autograd.grad((weights * s).sum(), inputs_and_S) for s in (scores, expected))
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(layer(inputs, classes)(inputs[0], tokens), expected, rtol=1e-12, atol=1e-12)


def test_the_next_word_s_distribution_gives_every_token_its_score():
    for classes in (None, classed(torch.float32)):
        inputs, tokens = draw(torch.float32)
        distribution = layer(inputs, classes).predict(inputs[0])
        scores = layer(inputs, classes)(inputs[0], tokens)
        torch.testing.assert_close(distribution.gather(1, tokens[:, None])[:, 0], scores, rtol=1e-5, atol=1e-5)
        if classes is None:
            torch.testing.assert_close(distribution.exp().sum(1), torch.ones(N), rtol=1e-5, atol=1e-5)


def test_classes_far_from_each_other_stay_finite():
    classes = WordClasses(V, D, 3, "brown")
    inputs, tokens = draw(torch.float32)
    bias = torch.where(classes.word_class == 1, 200.0, 0.0)
    distribution = layer([inputs[0], inputs[1], bias], classes).predict(inputs[0])
    torch.testing.assert_close(distribution.exp().sum(1), torch.ones(N), rtol=1e-5, atol=1e-5)
    scores = layer([inputs[0], inputs[1], bias], classes)(inputs[0], tokens)
    torch.testing.assert_close(distribution.gather(1, tokens[:, None])[:, 0], scores, rtol=1e-4, atol=1e-4)


def test_two_levels_sum_to_one_where_no_class_is_empty():
    classes = WordClasses(V, D, 3, "brown")
    inputs, _ = draw(torch.float32)
    torch.testing.assert_close(
        layer(inputs, classes).predict(inputs[0]).exp().sum(1), torch.ones(N), rtol=1e-5, atol=1e-5
    )


def test_more_classes_than_words_are_refused():
    with pytest.raises(UserError, match=r"model\.classes=12: there are only 11 words"):
        WordClasses(V, D, 12, "brown")


def test_classes_of_frequent_and_of_rare_words_need_no_brown_clusters():
    classes = WordClasses(5, D, 2, "frequency")
    classes.estimate(torch.tensor([0, 2, 2, 2, 0, 1, 3, 0]))
    assert classes.word_class.tolist() == [0, 1, 0, 1, 1]  # 2 and 0 are six of the eight tokens; 4 is in no text


def test_classes_are_found_in_the_text():
    classes = WordClasses(4, D, 2, "brown")
    classes.estimate(torch.tensor([0, 2, 3, 0, 1, 3, 0, 2, 3, 0, 1, 3]))
    assert classes.word_class[1] == classes.word_class[2]
    assert sorted(classes.word_class.unique().tolist()) == [0, 1]


@pytest.mark.parametrize("name", ["lstm", "nnlm", "logbilinear", "lds", "lds_rnn"])
def test_every_model_with_classes_finds_them_in_its_text(name: str, corpus: Corpus):
    small = {"hidden": 4, "iterations": 1} if name.startswith("lds") else {}
    model = models.build(defaults("model", name) | small | {"classes": 4}, vocabulary_size=150)
    model.estimate(corpus)
    assert torch.equal(model.output.classes.word_class, cached_brown_clusters(corpus.splits["train"], 150, 4))


def test_biases_start_at_the_frequencies_of_words_and_classes():
    classes = classed(torch.float32)
    output = Output(torch.zeros(V, D), torch.zeros(V), classes=None)
    output.classes = classes
    frequency = torch.arange(1, V + 1) / torch.arange(1, V + 1).sum()
    output.start_from_frequencies(frequency)
    torch.testing.assert_close(output.bias, frequency.log())
    expected = [frequency[c == CLASSES].sum().log() for c in range(4)]
    torch.testing.assert_close(classes.S.bias[:4].detach(), torch.stack(expected))


def test_under_autocast_two_levels_stay_close():
    inputs, tokens = draw(torch.float32)
    classes = classed(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer(inputs, classes)(inputs[0], tokens)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, two_level(inputs, tokens, classes), rtol=0.03, atol=0.05)
    assert (scores - two_level(inputs, tokens, classes)).abs().max() > 1e-3


def test_under_autocast_the_second_level_is_exact():
    """Words of one class after one h have the class's factor in common."""
    inputs, _ = draw(torch.float32)
    own = (CLASSES == 2).nonzero()[:, 0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer(inputs, classed(torch.float32))(inputs[0][:1].expand(len(own), -1), own)
    logits = inputs[1][own] @ inputs[0][0] + inputs[2][own]
    torch.testing.assert_close(scores - scores[0], logits - logits[0], rtol=1e-5, atol=1e-5)


def test_under_autocast_mixed_softmaxes_sum_to_one():
    torch.manual_seed(0)
    mixed = MixtureOfSoftmaxes(torch.randn(2000, 16), torch.randn(2000), 16, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logprobs = mixed.predict(torch.randn(4, 16))
    torch.testing.assert_close(logprobs.double().exp().sum(1), torch.ones(4, dtype=torch.float64), atol=1e-5, rtol=0)


def test_without_gradients_the_scores_are_the_same():
    inputs, tokens = draw()
    with torch.no_grad():
        torch.testing.assert_close(layer(inputs)(inputs[0], tokens), dense(inputs, tokens), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_under_autocast_products_are_rounded_and_sums_are_not(weights: torch.Tensor):
    inputs, tokens = draw(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer(inputs)(inputs[0], tokens)
    assert scores.dtype == torch.float32
    expected = dense(inputs, tokens)
    torch.testing.assert_close(scores.double(), expected, rtol=0.03, atol=0.05)
    assert (scores - expected).abs().max() > 1e-3
    gradients, wanted = (torch.autograd.grad((weights * s).sum(), inputs) for s in (scores, expected))
    for ours, theirs in zip(gradients, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_under_autocast_products_that_the_backward_pass_repeats_are_rounded_too(monkeypatch: pytest.MonkeyPatch):
    seen = []
    addmm = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda *matrices: seen.append(addmm(*matrices)) or seen[-1])
    inputs, tokens = draw(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer(inputs)(inputs[0], tokens)
    before = len(seen)
    (torch.arange(N) * scores).sum().backward()
    assert len(seen) > before > 0
    assert {logits.dtype for logits in seen} == {torch.bfloat16}


@pytest.mark.parametrize("two_levels", [False, True])
def test_no_more_logits_than_a_chunk(two_levels: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(softmax, "CHUNK_ELEMENTS", 2 * V)
    seen = []
    addmm = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda *matrices: seen.append(addmm(*matrices)) or seen[-1])
    inputs, tokens = draw()
    layer(inputs, classed() if two_levels else None)(inputs[0], tokens).sum().backward()
    certain = int((CLASSES[tokens] == CLASSES[6]).sum()) if two_levels else 0
    assert sum(len(logits) for logits in seen) == (2 * N - certain if two_levels else N)
    assert max(logits.numel() for logits in seen) <= softmax.CHUNK_ELEMENTS


@pytest.mark.parametrize("two_levels", [False, True])
def test_large_logits_stay_finite(two_levels: bool):
    inputs, tokens = draw(torch.float32)
    large = [inputs[0] * 1000, *inputs[1:]]
    exact = [part.detach().double().requires_grad_() for part in inputs]
    single, double = (classed(dtype) if two_levels else None for dtype in (torch.float32, torch.float64))
    scores = layer(large, single)(large[0], tokens)
    expected = layer(exact, double)(exact[0] * 1000, tokens)
    torch.testing.assert_close(scores.double(), expected, rtol=1e-4, atol=1e-3)
    gradients, wanted = torch.autograd.grad(scores.sum(), inputs), torch.autograd.grad(expected.sum(), exact)
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-2)


def test_a_word_alone_in_its_class_is_certain_whatever_its_logit():
    inputs, _ = draw()
    bias = inputs[2].detach().index_fill(0, torch.tensor(6), -torch.inf)
    within = softmax.token_logprobs(inputs[0], inputs[1], bias, torch.full((N,), 6), CLASSES)
    assert torch.equal(within, torch.zeros(N).double())
    assert torch.equal(torch.autograd.grad(within.sum(), inputs[1])[0], torch.zeros(V, D).double())


def test_more_classes_than_the_text_has_words_is_said():
    with pytest.raises(UserError, match=r"model\.classes=7: must be 1 to 4, the number of different words"):
        WordClasses(V, D, 7, "brown").estimate(torch.arange(40) % 4)
