"""Which words follow which in a linear dynamical system, by the singular vectors of its dynamics."""

import torch
from torch import Tensor
from torch.nn import functional as F


def singular_words(
    A: Tensor, C: Tensor, spherical: Tensor, pairs: int, words: int
) -> list[tuple[float, Tensor, Tensor]]:
    """The words now and the words next that belong to the leading singular vectors of A.

    In coordinates x̃ = Rx with R = SS_0^{-½}, smoothed means vary equally in all directions. There A is
    RAR⁻¹ = Σ σuvᵀ, and C is C̃ = CR⁻¹. After a state along v comes a state along u. So the words now are those whose
    rows of C̃ have the largest cosine with v, and the words next have the largest cosine with u. The other end of the
    same pair has -v and -u. Belanger & Kakade (ICML 2015).

    Args:
        A, C: (h, h), and (V, h) or only the rows of some words.
        spherical: R, (h, h) and symmetric.
        pairs, words: how many pairs of singular vectors, and how many words for each end.

    Returns: for each of the 2·``pairs`` ends σ, the (words,) rows of C of the words now, and those of the words next.
    """
    back = torch.linalg.inv(spherical)
    U, S, Vh = torch.linalg.svd(spherical @ A @ back)
    C = F.normalize(C @ back)
    ends = []
    for sigma, u, v in zip(S[:pairs].tolist(), U.mT, Vh, strict=False):
        for sign in (1, -1):
            ends.append((sigma, (sign * C @ v).topk(words).indices, (sign * C @ u).topk(words).indices))
    return ends
