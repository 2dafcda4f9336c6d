"""Which words follow which in a linear dynamical system, by the singular vectors of its dynamics."""

import torch
from torch import Tensor
from torch.nn import functional as F


def singular_words(
    A: Tensor, C: Tensor, spherical: Tensor, pairs: int, words: int
) -> list[tuple[float, Tensor, Tensor]]:
    """Words at either end of A's leading singular vectors, as Belanger & Kakade (2015) read them.

    In coordinates x̃ = Rx, R = SS_0^{-½}, where smoothed means vary alike in all directions, A is RAR⁻¹ = Σ σuvᵀ and
    C is C̃ = CR⁻¹: from a state along v follows one along u. The words now are those whose rows of C̃ have the largest
    cosine with v, the words to come those with the largest cosine with u, and with -v and -u for the other ends.

    Args:
        A, C, spherical: (h, h), (V, h), of all words or some, and R, (h, h) and symmetric.
        pairs: how many singular vectors.
        words: how many words for each end.

    Returns: for each of 2·``pairs`` ends σ, the (words,) words now and those to come.
    """
    back = torch.linalg.inv(spherical)
    U, S, Vh = torch.linalg.svd(spherical @ A @ back)
    C = F.normalize(C @ back)
    ends = []
    for sigma, u, v in zip(S[:pairs].tolist(), U.mT, Vh, strict=False):
        for sign in (1, -1):
            ends.append((sigma, (sign * C @ v).topk(words).indices, (sign * C @ u).topk(words).indices))
    return ends
