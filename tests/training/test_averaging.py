"""Averaged weights against means written out, when averages begin, and random lengths of windows."""

import math
from typing import Any

import pytest
import torch
from toy_model import Unigram, corpus_of, trainer_of

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import StreamWindows
from lmzoo.numerics.averaging import Average
from lmzoo.protocol.perplexity import score
from lmzoo.training.descent import Descent
from lmzoo.training.trainer import Trainer, has_stalled

TOKENS = [1, 2, 3, 1, 0] * 4
"""Five windows of four tokens."""


def trained(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[list[torch.Tensor], Trainer]:
    """The weights after each step, and the trainer."""
    steps, step = [], Descent.step

    def noted(self: Descent, window: Any) -> dict[str, float]:
        metrics = step(self, window)
        steps.append(self.optimization.parameters[0].detach().clone())
        return metrics

    monkeypatch.setattr(Descent, "step", noted)
    trainer = trainer_of(Unigram(4), corpus_of(TOKENS), epochs=4, **options)
    trainer.fit()
    return steps, trainer


def best(trainer: Trainer) -> list[torch.Tensor]:
    return [saved["model"]["w"] for name, saved in trainer.run.saved if name == "best.pt"]  # pyright: ignore


def assert_kept(trainer: Trainer, checked: list[torch.Tensor], last: torch.Tensor) -> None:
    """These weights were checked, the best of them were kept, and training went on from its own."""
    model, expected, lowest = Unigram(4), [], math.inf
    perplexities = []
    for weights in checked:
        model.load_state_dict({"w": weights})
        perplexities.append(score(model, torch.tensor(TOKENS), "stream").perplexity)
        if perplexities[-1] < lowest:
            lowest = perplexities[-1]
            expected.append(weights)
    torch.testing.assert_close(best(trainer), expected)
    assert [check["valid"] for check in trainer.progress.checks] == pytest.approx(perplexities)
    assert torch.equal(trainer.model.get_parameter("w"), last)


def test_the_mean_of_all_steps_from_an_epoch_on_is_kept(monkeypatch: pytest.MonkeyPatch):
    steps, trainer = trained(monkeypatch, average="tail", average_after=1)
    means = [torch.stack(steps[5 : 5 * epoch]).mean(0) for epoch in (2, 3, 4)]
    assert_kept(trainer, [steps[4], *means], steps[-1])


def test_a_mean_of_no_step_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match=r"trainer\.average_after=4: 4 epochs leave none to average"):
        trained(monkeypatch, average="tail", average_after=4)
    trained(monkeypatch, average="tail", average_after=3)


def test_the_exponential_average_is_kept(monkeypatch: pytest.MonkeyPatch):
    """Of twenty steps the first thirteen have a shorter memory than the others."""
    steps, trainer = trained(monkeypatch, average="ema", average_decay=0.6)
    average, checked = steps[0], []
    for number, weights in enumerate(steps, 1):
        decay = min(0.6, number / (number + 9))
        average = decay * average + (1 - decay) * weights
        if number % 5 == 0:
            checked.append(average)
    assert_kept(trainer, checked, steps[-1])


def test_nt_asgd_averages_once_valid_has_stalled(monkeypatch: pytest.MonkeyPatch):
    begun, update = [], Average.update
    monkeypatch.setattr(Average, "update", lambda self: (begun.append(trainer.progress.epoch), update(self)))
    perplexities = iter([9.0, 8.0, 8.5, 8.1, 7.0, 6.0])
    monkeypatch.setattr("lmzoo.training.trainer.score", lambda *_: type("", (), {"perplexity": next(perplexities)}))
    trainer = trainer_of(Unigram(4), corpus_of(TOKENS), epochs=6, average="nt", average_after=1)
    trainer.fit()
    assert begun == [4] * 5 + [5] * 5  # the fourth check is worse than the second; the third may be worse than it


@pytest.mark.parametrize(
    ("perplexities", "stalled"),
    [([], False), ([5.0, 6.0, 6.0], False), ([5.0, 6.0, 6.0, 5.5], True), ([6.0, 5.0, 5.0, 5.5], False)],
)
def test_valid_has_stalled_where_it_is_worse_than_before_the_last_checks(perplexities: list[float], stalled: bool):
    assert has_stalled(perplexities, 2) == stalled


def test_random_windows_are_the_whole_text_in_order(corpus: Corpus):
    windows = StreamWindows(corpus.splits["train"], 4, 20, seed=3)
    lengths = []
    for epoch in range(40):
        cut = list(windows.epoch(epoch))
        assert torch.equal(torch.cat([window.tokens for window in cut], 1), windows.rows)
        assert torch.equal(corpus.splits["train"][cut[5].positions], cut[5].tokens)
        assert [window.starts for window in cut] == [True] + [False] * (len(windows) - 1)
        lengths.append([window.tokens.shape[1] for window in cut])
    assert lengths[0] != lengths[1]
    drawn = torch.tensor(lengths).flatten().double()
    assert 4 < drawn.std() < 7
    assert 0.02 < (drawn < 11).double().mean() < 0.15
    again = [window.tokens.shape[1] for window in StreamWindows(corpus.splits["train"], 4, 20, seed=3).epoch(7, skip=2)]
    assert again == lengths[7][2:]
    short = StreamWindows(torch.arange(7), 1, 1, seed=0)
    assert [window.tokens.shape[1] for window in short.epoch(0)] == [1] * 7


def test_random_windows_leave_out_no_token_of_a_very_long_row():
    windows = StreamWindows(torch.zeros(1, dtype=torch.int8).expand(60_000_001), 1, 3500, seed=1)
    *_, last = windows.epoch(0, skip=len(windows) - 1)
    assert int(last.positions[0, -1]) == 60_000_000


def test_the_rate_is_in_proportion_to_a_random_length(monkeypatch: pytest.MonkeyPatch):
    model = Unigram(4)
    descent = trainer_of(model, corpus_of(TOKENS), random_bptt=True).descent
    assert descent is not None
    (window,) = StreamWindows(torch.tensor([1, 1]), 1, 2).epoch(0)
    metrics = descent.step(window)
    gradient = torch.full((4,), 0.25) - torch.tensor([0, 1.0, 0, 0])
    torch.testing.assert_close(model.w.detach(), -gradient * 2 / 4)
    assert metrics["train/learning_rate"] == descent.optimization.optimizer.param_groups[0]["lr"] == 1.0
