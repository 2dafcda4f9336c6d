"""Lines of the log off a terminal."""

import logging
import sys
from pathlib import Path

import pytest
import torch
from command_line import SMALL, command

import lmzoo
from lmzoo.core import progress
from lmzoo.core.files import read_pieces
from lmzoo.core.progress import Bar, reading, tracked
from lmzoo.corpus import Context
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.protocol.perplexity import text_logprobs


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.now = 100.0
        patch.setattr(progress.time, "monotonic", lambda: self.now)


def test_a_line_comes_every_thirty_seconds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    clock = Clock(monkeypatch)
    with caplog.at_level(logging.INFO, logger="lmzoo"):
        for step in tracked(range(1000), 1000, "iteration", "EM"):
            clock.now += 10 if step < 3 else 30
            if step == 4:
                break
    assert caplog.messages == [
        "EM, iteration 3 of 1,000, 2:46:10 left",
        "EM, iteration 4 of 1,000, 4:09:00 left",  # by all steps, so that a pause for a check does not triple it
    ]


def test_work_that_goes_on_is_judged_by_its_new_steps(monkeypatch, caplog: pytest.LogCaptureFixture):
    clock = Clock(monkeypatch)
    with caplog.at_level(logging.INFO, logger="lmzoo"), Bar(100, "step", done=90) as bar:
        for _ in range(2):
            clock.now += 16
            bar.update("rate 0.1")
    assert caplog.messages == ["step 92 of 100, rate 0.1, 02:08 left"]


def test_a_terminal_has_a_bar_and_no_lines(monkeypatch, caplog: pytest.LogCaptureFixture, capsys):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with caplog.at_level(logging.INFO, logger="lmzoo"):
        for _ in tracked(range(3), 3, "sweep", "Brown clusters"):
            clock.now += 40
    assert not caplog.messages
    assert "Brown clusters" in capsys.readouterr().err


def test_training_tells_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
    done = command(*SMALL, "run_dir=run")
    told = [line for line in done.out.splitlines() if line.startswith("step ")]
    assert len(told) == 12
    assert told[2].startswith("step 3 of 12, train perplexity ")
    assert ", rate 0.00" in told[2]
    assert told[2].endswith(" left")
    assert told[2].count("tokens/s") == 1
    assert told[0] in (folder / "run/train.log").read_text()


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_scoring_tells_where_it_is(context: Context, folder: Path, monkeypatch, caplog: pytest.LogCaptureFixture):
    command(*SMALL, "run_dir=run")
    model = lmzoo.load("run").model
    monkeypatch.setattr(type(model), "window_tokens", 4)
    monkeypatch.setattr(progress, "SECONDS", 0)
    with caplog.at_level(logging.INFO, logger="lmzoo"):
        text_logprobs(model, torch.tensor([1, 2, 3, EOS_ID] * 2), context)
    assert caplog.messages == ["scoring, window 1 of 2, 00:00 left", "scoring, window 2 of 2, 00:00 left"]


def test_reading_a_large_file_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    text, told = tmp_path / "book.txt", []
    text.write_bytes(b"one two\n" * 400_000)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    update = Bar.update
    monkeypatch.setattr(Bar, "update", lambda bar, steps: told.append(bar.done + steps) or update(bar, steps=steps))
    hidden = list(reading(text, shown=False))
    assert (told, capsys.readouterr().err) == ([], "")
    shown = list(reading(text))
    assert told == [1, 2, 3, 3]
    assert "book.txt:" in capsys.readouterr().err
    assert shown == hidden == list(read_pieces(text))
