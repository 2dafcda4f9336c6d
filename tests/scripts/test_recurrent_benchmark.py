"""The plain module of scripts/benchmarks/recurrent.py computes what the LSTM computes."""

import itertools
import runpy

import pytest
import torch
from command_line import ROOT

from lmzoo.protocol.perplexity import text_logprobs

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "benchmarks" / "recurrent.py"))
WORDS, STEPS = 30, 60


def test_from_the_same_weights_the_losses_of_both_fall_alike():
    torch.manual_seed(0)
    ours, plain = SCRIPT["our_model"](WORDS, 8, 2, None), SCRIPT["Plain"](WORDS, 8, 2)
    weights = ours.state_dict()
    plain.load_state_dict({name: weights[name] for name in plain.state_dict()})
    text = torch.randint(WORDS, (5 * 4 * 7 + 3,)) % (torch.arange(5 * 4 * 7 + 3) % 7 + 1)
    curves = [
        list(itertools.islice(SCRIPT[losses](model, text, 4, 7), STEPS))
        for losses, model in (("our_losses", ours), ("plain_losses", plain))
    ]
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)
    assert curves[0][-1] < 0.8 * curves[0][0]
    one_row = SCRIPT["plain_evaluation"](plain, text, 7)
    assert float(-text_logprobs(ours, text, "stream").mean()) == pytest.approx(one_row, rel=1e-4)
