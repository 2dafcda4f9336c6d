"""An Elman network that begins as a Kalman filter (Belanger & Kakade, ICML 2015, section 7).

https://arxiv.org/abs/1502.04081
"""

from typing import Literal

import torch
from torch import Tensor, nn
from tqdm import trange

from lmzoo.core.options import Count, Dropout, NonNegative, Size
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import StreamWindows
from lmzoo.models.lds.inference import word_gains
from lmzoo.models.lds.lds import fit_text, state_whitener
from lmzoo.models.neural.recurrent import Recurrent

RMS = 0.5
"""Of the state's components at the start, where tanh still resembles the identity."""
OPEN = 2.0
"""Bias of a gate that is to begin open, its negative of one that is to begin closed."""
CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
GATES = {"rnn": (None,), "lstm": (OPEN, -OPEN, None, OPEN), "gru": (OPEN, -OPEN, None)}
"""Biases of the gates as PyTorch orders a cell's blocks of weights, None for the block that takes the dynamics."""
HEAD_RATE, HEAD_ROWS, HEAD_BPTT = 1e-2, 20, 35
"""Adam's rate and the windows on which the head is fitted."""


@models.register("lds_rnn")
class LDSRNN(Recurrent):
    """A recurrent network (words and states of one size, untied) whose weights start from a linear dynamical system.

    The filter f_t = H f_{t-1} + k_{w_t}, in coordinates f′ = S f with S = ½ E[f fᵀ]^{-½}, is an Elman network but for
    tanh: recurrent weights S H S⁻¹, embeddings S k_w with norms cut at √h, the identity from embeddings to states, and
    output biases log μ. With none of ``dynamics``, ``input`` and ``head`` it is an `rnn`, and no system is fitted.
    A cell with gates is an Elman network, its output through one more tanh in the LSTM, while it forgets all of its
    memory and lets all else pass: so the weights go to the new memory's block, and biases let gates begin that way.

    Args:
        cell: ``rnn``, ``lstm`` or ``gru``.
        hidden: h, of words, states and the linear system.
        dynamics: whether the first layer's recurrent weights are the filter's.
        input: whether the embeddings are.
        head: for how many steps the output weights are fitted first, all else being frozen.
        blocks, lags, pseudocount, iterations: of the linear system, see `LinearDynamicalSystem`.
        layers, dropout, classes, init: see `Recurrent`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        cell: Literal["rnn", "lstm", "gru"],
        hidden: Size,
        layers: Size,
        dropout: Dropout,
        classes: Size | None,
        init: NonNegative,
        dynamics: bool,
        input: bool,
        head: Count,
        blocks: Size,
        lags: Size,
        pseudocount: NonNegative,
        iterations: Count,
    ):
        self.cell, self.gates = CELLS[cell], GATES[cell]
        super().__init__(
            vocabulary_size=vocabulary_size, embedding=hidden, hidden=hidden, layers=layers, dropout=dropout,
            tied=False, classes=classes, init=init,
        )  # fmt: skip
        self.dynamics, self.input, self.head = dynamics, input, head
        self.options = {"blocks": blocks, "lags": lags, "pseudocount": pseudocount, "iterations": iterations}

    @torch.no_grad()
    def estimate(self, corpus: Corpus) -> None:
        super().estimate(corpus)
        if not (self.dynamics or self.input or self.head):
            return
        fitted = fit_text(self, corpus, self.recurrent.hidden_size, self.options)
        S = RMS * state_whitener(fitted)
        memory = self.gates.index(None)
        own = slice(memory * len(S), (memory + 1) * len(S))
        if self.dynamics:
            self.recurrent.get_parameter("weight_hh_l0")[own] = torch.linalg.solve(S, S @ fitted.steady.H, left=False)
        if self.input:
            words = word_gains(fitted.lds.C, fitted.steady.W, fitted.mu) @ S
            norms = words.norm(dim=1, keepdim=True)
            self.embedding.weight.copy_(words * (len(S) ** 0.5 / norms).clamp(max=1))
            nn.init.eye_(self.recurrent.get_parameter("weight_ih_l0")[own])
        for gate, bias in zip(
            self.recurrent.get_parameter("bias_ih_l0").chunk(len(self.gates)), self.gates, strict=True
        ):
            gate.fill_(bias or 0.0)
        self.output.expect(fitted.mu)
        self._fit_head(corpus.train)

    @torch.enable_grad()
    def _fit_head(self, text: Tensor) -> None:
        """Fit the output layer to the first ``head`` windows of a text in rows, begun again where it ends."""
        windows = StreamWindows(text, min(HEAD_ROWS, len(text)), HEAD_BPTT)
        optimizer = torch.optim.Adam(self.output.parameters(), lr=HEAD_RATE)
        self.requires_grad_(False)
        self.output.requires_grad_(True)
        state = self.initial_state(len(windows.rows))
        for step in trange(self.head, unit="step", desc="head", disable=None, leave=False):
            epoch, index = divmod(step, len(windows))
            window = next(windows.epoch(epoch, skip=index))
            if window.starts:
                state = self.initial_state(len(windows.rows))
            logprobs, state = self(window.tokens.to(self.device), state)
            optimizer.zero_grad()
            (-logprobs.mean()).backward()
            optimizer.step()
        self.requires_grad_(True)
