"""Filter and smoother in their steady state, step by step over batches of sentences."""

import torch
from torch import Tensor


def scan(H: Tensor, inputs: Tensor, state: Tensor) -> Tensor:
    """(B, T, h) inputs u_1 … u_T and the (B, h) state f_0 -> (B, T, h) states f_t = H f_{t-1} + u_t."""
    states = []
    for u in inputs.unbind(1):
        state = torch.addmm(u, state, H.mT)
        states.append(state)
    return torch.stack(states, dim=1)


def smooth(J: Tensor, A: Tensor, filtered: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, T, h) filtered means f_t -> (B, T, h) smoothed means s_t = J s_{t+1} + (I - JA) f_t, from s_T = f_T.

    Args:
        mask: (B, T), False on padding. A row ends with its last token; the means of padding stay as they are.
    """
    rest = filtered - filtered @ (J @ A).mT  # (I - JA) f_t
    s = filtered[:, -1]
    smoothed = [s]
    for t in reversed(range(filtered.shape[1] - 1)):
        s = torch.addmm(rest[:, t], s, J.mT)
        if mask is not None:
            s = s.where(mask[:, t + 1, None], filtered[:, t])
        smoothed.append(s)
    return torch.stack(smoothed[::-1], dim=1)
