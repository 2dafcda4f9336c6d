"""How the recurrent weights of a network begin."""

from typing import Literal

import torch
from torch import Tensor, nn

Start = Literal["orthogonal", "identity", "graded"]
"""Beginnings of U, by which h_{t-1} enters h_t.

- ``orthogonal``: Saxe, McClelland & Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear
  neural networks", ICLR 2014, https://arxiv.org/abs/1312.6120; each gate has a matrix of its own.
- ``identity``: Le, Jaitly & Hinton, "A simple way to initialize recurrent networks of rectified linear units", 2015,
  https://arxiv.org/abs/1504.00941.
- ``graded``: unit i keeps a share d_i of itself, from none to `KEPT`, so that memories are of all lengths from the
  beginning, and a little of all others. Units that keep 0.95 of themselves for good are those of Mikolov, Joulin,
  Chopra, Mathieu & Ranzato, "Learning longer memory in recurrent neural networks", 2015,
  https://arxiv.org/abs/1412.7753.
"""

KEPT = 0.95
"""The largest share, of which half is left after 13 steps."""

NOISE = 0.3
"""The spectral radius of the random part of a graded matrix."""


@torch.no_grad()
def initialise(weight: Tensor, start: Start) -> None:
    """Fill (gates · d, d) recurrent weights."""
    size = weight.shape[1]
    for gate in weight.split(size):
        if start == "orthogonal":
            nn.init.orthogonal_(gate)
        elif start == "identity":
            nn.init.eye_(gate)
        else:
            gate.normal_(0, NOISE / size**0.5).add_(torch.linspace(0, KEPT, size).diag())
