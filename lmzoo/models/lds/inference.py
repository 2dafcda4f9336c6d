"""Filter and smoother in their steady state, as scans over batches of sentences, and embeddings of tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor


def word_gains(C: Tensor, W: Tensor, mu: Tensor) -> Tensor:
    """(V, h) rows k_w = K y for y the centred, whitened word w; since Km = 0 that is K's column divided by μ_w^½."""
    return C @ W / mu.sqrt()[:, None]


def scan(H: Tensor, inputs: Tensor, state: Tensor) -> Tensor:
    """f_t = H f_{t-1} + u_t over (B, T, h) inputs, from the (B, h) state before them; (B, T, h)."""
    states = []
    for u in inputs.unbind(1):
        state = torch.addmm(u, state, H.mT)
        states.append(state)
    return torch.stack(states, dim=1)


def smooth(J: Tensor, A: Tensor, filtered: Tensor, mask: Tensor | None = None) -> Tensor:
    """s_t = J s_{t+1} + (I - JA) f_t over (B, T, h) filtered means, from s_T = f_T at a row's last token.

    Args:
        mask: (B, T), False on padding, whose means are left as they are.
    """
    own = filtered - filtered @ (J @ A).mT
    s = filtered[:, -1]
    smoothed = [s]
    for t in reversed(range(filtered.shape[1] - 1)):
        s = torch.addmm(own[:, t], s, J.mT)
        if mask is not None:
            s = s.where(mask[:, t + 1, None], filtered[:, t])
        smoothed.append(s)
    return torch.stack(smoothed[::-1], dim=1)


def embed(smoothed: Tensor, spherical: Tensor) -> Tensor:
    """Token embeddings (…, h) of unit length from smoothed means: SS_0^{-½} s, whose covariance over the text is I.

    Belanger & Kakade (ICML 2015), section 6; ``spherical`` is SS_0^{-½}, (h, h) and symmetric.
    """
    return F.normalize(smoothed @ spherical, dim=-1)
