"""The loop in C of scripts/benchmarks/glove.py does the steps of equation 8, one entry after the other."""

import runpy
import shutil

import numpy as np
import pytest
import torch
from command_line import ROOT

from lmzoo.words.vectors.cooccurrence import Cooccurrences

X_MAX, ALPHA, LR = 2.0, 0.75, 0.1


def test_an_epoch_is_a_step_of_adagrad_for_each_entry():
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    script = runpy.run_path(str(ROOT / "scripts" / "benchmarks" / "glove.py"))
    row, column = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([1, 2, 2, 0, 1])
    X = Cooccurrences(3, row, column, torch.tensor([1.0, 0.5, 3, 0.25, 2]))
    loop = script["Loop"](script["compiled"](["-O2"]), X, 4, 0)
    w, c = (torch.from_numpy(table.copy()).requires_grad_() for table in loop.tables)
    squares = [torch.ones(3, 5, dtype=torch.float64) for _ in range(2)]
    for i, j, x in zip(*(part.tolist() for part in loop.entries), strict=True):
        error = w[i, :4] @ c[j, :4] + w[i, 4] + c[j, 4] - np.log(x)
        loss = min(1, (x / X_MAX) ** ALPHA) * error**2 / 2
        gradients = torch.autograd.grad(loss, (w, c))
        with torch.no_grad():
            for table, square, gradient in zip((w, c), squares, gradients, strict=True):
                table -= LR * gradient / square.sqrt()
                square += (LR * gradient) ** 2
    loop.epoch(X_MAX, ALPHA, LR)
    assert loop.tables == pytest.approx(torch.stack([w, c]).detach().numpy(), rel=1e-9)
    assert loop.squares == pytest.approx(torch.stack(squares).numpy(), rel=1e-9)
