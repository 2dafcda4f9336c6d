"""States split into several, so that a large model starts from a small one.

Petrov, Barrett, Thibaux and Klein, "Learning accurate, compact, and interpretable tree annotation", ACL 2006.
"""

import torch
from torch import Tensor, nn

SPLIT_NOISE = 0.1
"""Length of the noise that parts the vectors of a split state, relative to theirs."""


def split_rows(vectors: Tensor, rows: int) -> Tensor:
    """(N, d) vectors -> (rows, d), rows a multiple of N: each several times in turn, parted by noise."""
    copies = vectors.repeat_interleave(rows // len(vectors), 0)
    return copies + SPLIT_NOISE * copies.norm(dim=1, keepdim=True) / copies.shape[1] ** 0.5 * torch.randn_like(copies)


@torch.no_grad()
def split_weights(parent: nn.Module, child: nn.Module) -> None:
    """Give a model the weights of a smaller one of its kind, the rows of what is larger here being split."""
    weights = parent.state_dict()
    for name, own in child.state_dict().items():
        if own.shape != weights[name].shape:
            weights[name] = split_rows(weights[name], len(own))
    child.load_state_dict(weights)
