"""The losses of word2vec with their gradients, for blocks of words. B blocks, T words, S draws of noise, d dimensions.

Σ over a block in nats; every function returns the loss and its gradient with respect to its vectors. The gradient does
not need the loss, whose logarithms take long: it is 0 unless ``measured``.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.words.vectors.band import Band


def skipgram(
    w: Tensor, c: Tensor, n: Tensor, near: Tensor, k: float, measured: bool = True
) -> tuple[float, Tensor, Tensor, Tensor]:
    """-Σ_ij P_ij log σ(w_i · c_{i+j}) - (k/S) Σ_i P_i Σ_s log σ(-w_i · n_s), P_i = Σ_j P_ij.

    Args:
        w: (B, T, d) vectors of the words.
        c: (B, T + 2L, d) of the words and those on either side.
        n: (B, S, d) of the noise.
        near: (B, T, 2L + 1) P, 1 for the contexts of a word or 0.
        k: negative samples of a pair.
    """
    band = Band.of(*w.shape[:2], near.shape[2] // 2, w.device)
    positive, negative = band.dots(w, c), w @ n.mT  # (B, T, 2L + 1), (B, T, S)
    weight = near.sum(2, keepdim=True) * (k / n.shape[1])
    loss = measured and -(near * F.logsigmoid(positive)).sum() - (weight * F.logsigmoid(-negative)).sum()
    push = positive.sigmoid_().sub_(1).mul_(near)  # d loss / d positive
    pull = negative.sigmoid_().mul_(weight)
    return float(loss), torch.baddbmm(band.to_words(push, c), pull, n), band.to_places(push, w), pull.mT @ w


def cbow(h: Tensor, c: Tensor, counted: Tensor, k: float, measured: bool = True) -> tuple[float, Tensor, Tensor]:
    """-Σ_i K_i [log σ(h_i · w_i) + (k/S) Σ_s log σ(-h_i · n_s)].

    Args:
        h: (B, T, d) means of the contexts' vectors.
        c: (B T + B S, d) the vectors w of the words of all blocks, and then those n of their noise.
        counted: (B, T) K, 1, or 0 for a word without contexts.
        k: negative samples of a word.
    """
    B, T, d = h.shape
    words, noise = c[: B * T].view(B, T, d), c[B * T :].view(B, -1, d)
    positive, negative = (h * words).sum(2), h @ noise.mT  # (B, T), (B, T, S)
    weight = counted[:, :, None] * (k / noise.shape[1])
    loss = measured and -(counted * F.logsigmoid(positive)).sum() - (weight * F.logsigmoid(-negative)).sum()
    push = positive.sigmoid_().sub_(1).mul_(counted)[:, :, None]
    pull = negative.sigmoid_().mul_(weight)
    to_c = torch.empty_like(c)
    torch.mul(push, h, out=to_c[: B * T].view(B, T, d))
    torch.bmm(pull.mT, h, out=to_c[B * T :].view(B, -1, d))
    return float(loss), torch.baddbmm(push * words, pull, noise), to_c


def hierarchical(
    h: Tensor, nodes: Tensor, signs: Tensor, counted: Tensor, measured: bool = True
) -> tuple[float, Tensor, Tensor]:
    """-Σ_im K_im log p(x_i | h_im), log p(x | h) = Σ_l log σ(±_l h · u_l) along x's path (NIPS 2013, equation 3).

    Args:
        h: (N, M, d) vectors that tell a word.
        nodes: (N, D, d) u of the nodes on the word's path.
        signs: (N, D) which way the path goes there: 1 or -1, and 0 behind its end.
        counted: (N, M) K, 1 or 0.
    """
    scores = h @ nodes.mT * signs[:, None]  # (N, M, D)
    weight = counted[:, :, None] * signs.abs()[:, None]
    loss = measured and -(weight * F.logsigmoid(scores)).sum()
    push = scores.sigmoid_().sub_(1).mul_(weight).mul_(signs[:, None])
    return float(loss), push @ nodes, push.mT @ h
