"""The output layer of the neural models: log-softmax of an affine map, of the given tokens alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.words.clusters import brown_classes

CHUNK_ELEMENTS = 1 << 22
"""How many logits exist at once."""


class WordClasses(nn.Module):
    """A second level of softmax: p(w | h) = p(c | h) p(w | h, c), c the Brown class of w (Brown et al. 1992).

    p(c | h) = softmax(S h + s)_c, S drawn as in `torch.nn.Linear`, and p(w | h, c) is the softmax of W h + b over the
    words of c, so that a token costs the classes and its own class's words in place of all words. Goodman, *Classes for
    fast maximum entropy training*, ICASSP 2001; in neural models Morin & Bengio (2005) and Mikolov et al. (2011).

    Args:
        features: h's size.
        classes: their number.

    Raises: UserError where there are more classes than words.
    """

    word_class: Tensor

    def __init__(self, vocabulary_size: int, features: int, classes: int):
        super().__init__()
        if classes > vocabulary_size:
            raise UserError(f"model.classes={classes}: there are only {vocabulary_size} words", "choose fewer")
        self.S = nn.Linear(features, classes)
        self.register_buffer("word_class", torch.arange(vocabulary_size) % classes)

    def estimate(self, tokens: Tensor) -> None:
        """Find the classes in a (N,) text.

        Raises: UserError where it has fewer different words than there are to be classes.
        """
        self.word_class.copy_(brown_classes(tokens, len(self.word_class), self.S.out_features, "model.classes"))

    @torch.no_grad()
    def expect(self, frequency: Tensor) -> None:
        """Have the biases s say how frequent the classes are, given the (V,) frequencies of words."""
        frequency = frequency.to(self.S.bias)
        self.S.bias.copy_(torch.zeros_like(self.S.bias).index_add(0, self.word_class, frequency).log())


class Output(nn.Module):
    """p(x | h) = softmax(W h + b)_x over all words, or over the words of x's class times p(class of x | h).

    Args:
        weight: W, a (V, d) parameter; another module may have it, too, such as the embedding that it is tied to.
        bias: b, a (V,) parameter.
        classes: of words in a two-level softmax, `WordClasses`; None for one softmax over all words.

    Raises: UserError where there are more classes than words.
    """

    def __init__(self, weight: Tensor, bias: Tensor, classes: int | None):
        super().__init__()
        self.weight, self.bias = weight, bias
        self.classes = None if classes is None else WordClasses(len(weight), weight.shape[1], classes)

    def estimate(self, tokens: Tensor) -> None:
        """Find the classes, where there are any, in a (N,) text.

        Raises: UserError where it has fewer different words than there are to be classes.
        """
        if self.classes is not None:
            self.classes.estimate(tokens)

    def expect(self, frequency: Tensor) -> None:
        """Have the biases tell how frequent words and classes are, given the (V,) frequencies of words."""
        with torch.no_grad():
            self.bias.copy_(frequency.log())
        if self.classes is not None:
            self.classes.expect(frequency)

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """(N, d) h and (N,) int64 x -> log p(x | h) in nats, (N,) float32 at least.

        Of the (N, V) logits only a chunk of rows exists at any time. The gradient of the sum of the result is
        taken along with it, so backward only scales it where every token weighs the same, as in a mean; it computes
        the logits again of tokens that weigh more or less than most, such as those masked.

        Under autocast products are taken in its type, sums in float32; those within classes, which are small, in
        float32.
        """
        if self.classes is None:
            return _softmax_logprobs(hidden, self.weight, self.bias, tokens)
        word_class, S = self.classes.word_class, self.classes.S
        of_class = _softmax_logprobs(hidden, S.weight, S.bias, word_class[tokens])
        with torch.autocast(hidden.device.type, enabled=False):
            return of_class + _dispatch(hidden.to(self.weight.dtype), self.weight, self.bias, tokens, word_class)

    def predict(self, hidden: Tensor) -> Tensor:
        """What `forward` would be of every word: (N, V)."""
        scores = F.linear(hidden, self.weight, self.bias)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.classes is None:
            return scores.log_softmax(1)
        of_class = self.classes.S(hidden).to(scores.dtype).log_softmax(1)  # (N, C)
        own = self.classes.word_class.expand_as(scores)
        largest = torch.full_like(of_class, -torch.inf).scatter_reduce(1, own, scores, "amax")  # (N, C)
        totals = torch.zeros_like(of_class).scatter_add(1, own, (scores - largest.gather(1, own)).exp())
        return scores + (of_class - largest - totals.log()).gather(1, own)


def _softmax_logprobs(hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor) -> Tensor:
    """(N,) log-probabilities by one softmax over all rows of the weight, in autocast's type where that is on."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        hidden, weight, bias = hidden.to(half), weight.to(half), bias.to(half)
    return _dispatch(hidden, weight, bias, tokens, None)


def _dispatch(hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None) -> Tensor:
    if torch.is_grad_enabled():
        return _TokenLogprobs.apply(hidden, weight, bias, tokens, word_class)
    return _logprobs(hidden, weight, bias, tokens, word_class, None)[0]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None
    ) -> Tensor:
        ones = torch.ones(len(tokens), device=tokens.device)
        logprobs, gradients = _logprobs(hidden, weight, bias, tokens, word_class, ones)
        ctx.save_for_backward(hidden, weight, bias, tokens, word_class, *gradients)
        return logprobs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        g = upstream[0]
        hidden, weight, bias, tokens, word_class, *gradients = ctx.saved_tensors
        common = g.median()
        to_hidden, to_weight, to_bias = (part * common.to(part.dtype) for part in gradients)
        others = (g != common).nonzero()[:, 0]
        if len(others):
            more = _logprobs(hidden[others], weight, bias, tokens[others], word_class, g[others] - common)[1]
            to_hidden.index_add_(0, others, more[0])
            to_weight += more[1]
            to_bias += more[2]
        return to_hidden, to_weight, to_bias, None, None


def _logprobs(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """log p(x | h), (N,), and where weights g of the tokens are given, the gradient of Σ g log p."""
    if word_class is None:
        return _softmax(hidden, weight, bias, tokens, g)
    words, sizes, place = _grouped(word_class)
    rows, counts, _ = _grouped(word_class[tokens], len(sizes))
    whole = torch.promote_types(hidden.dtype, torch.float32)
    logprobs = hidden.new_zeros(len(hidden), dtype=whole)
    gradients = [torch.zeros_like(part if g is not None else part[:0]) for part in (hidden, weight, bias)]
    for r, w in zip(rows.split(counts.tolist()), words.split(sizes.tolist()), strict=True):
        if len(r) == 0 or len(w) == 1:  # nobody asks, or the word is certain
            continue
        weights = None if g is None else g[r]
        logprobs[r], found = _softmax(hidden[r], weight[w], bias[w], place[tokens[r]], weights)
        if g is not None:
            for gradient, part, where in zip(gradients, found, (r, w, w), strict=True):
                gradient[where] = part
    return logprobs, gradients


def _grouped(group: Tensor, groups: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) group of each thing -> the things group by group, the groups' sizes, and each thing's place in its group."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=groups)
    return order, sizes, order.argsort() - (sizes.cumsum(0) - sizes)[group]


def _softmax(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """`_logprobs` where every word is in one class."""
    rows = max(1, CHUNK_ELEMENTS // len(weight))
    whole = torch.promote_types(hidden.dtype, torch.float32)
    logprobs = hidden.new_empty(len(hidden), dtype=whole)
    to_hidden = torch.empty_like(hidden if g is not None else hidden[:0])
    to_weight, to_bias = (torch.zeros_like(part if g is not None else part[:0], dtype=whole) for part in (weight, bias))
    for start in range(0, len(hidden), rows):
        chunk = slice(start, start + rows)
        h, x = hidden[chunk], tokens[chunk, None]
        scores = torch.addmm(bias, h, weight.T).to(whole).log_softmax(1)  # (rows, V)
        logprobs[chunk] = scores.gather(1, x)[:, 0]
        if g is not None:  # -d log p(x) / d logit(v) = p(v) - [v = x]
            push = scores.exp_().scatter_add_(1, x, -torch.ones_like(x, dtype=whole)).to(h.dtype)
            weighed = -g[chunk, None].to(h.dtype)
            to_hidden[chunk] = (push @ weight) * weighed
            to_weight += push.T @ (h * weighed)
            to_bias += (push.T @ weighed)[:, 0]
    return logprobs, [to_hidden, to_weight.to(weight.dtype), to_bias.to(bias.dtype)]
