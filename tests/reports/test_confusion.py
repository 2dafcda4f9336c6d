"""Which labels are taken for which, beside counts by hand, and as ``lmzoo tag --plot`` draws it."""

from pathlib import Path

import numpy as np
import pytest
from command_line import command

from lmzoo.commands import label, tag
from lmzoo.reports import confusion
from lmzoo.reports.charts import rendered
from lmzoo.reports.confusion import picture_of_confusion, shares


def test_shares_are_of_the_words_of_a_label():
    labels, percent = shares(["N", "N", "V", "N", "N"], ["N", "V", "V", "N", "X"])
    assert labels == ["N", "V"]
    assert np.allclose(percent, [[50, 25], [0, 100]])


def test_what_is_right_has_no_colour(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    panels = []
    monkeypatch.setattr(
        confusion, "rendered", lambda figure, file: (panels.extend(figure.axes), rendered(figure, file))[1]
    )
    picture_of_confusion(["N", "V"], np.array([[60.0, 25.25], [0.25, 99.75]]), "a run", Path("a.png"))
    (image,) = panels[0].images
    assert image.get_array().tolist() == [[0, 25.25], [0.25, 0]]
    assert [text.get_text() for text in panels[0].texts] == ["60", "25", "100"]


def test_a_labelled_text_is_drawn(folder: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    Path("train.txt").write_text("they PRP B-NP\nwalk VBP B-VP\n\n")
    Path("new.txt").write_text("they PRP B-NP\nwalk NN B-NP\n\n")
    line = ["task=chunk", "labeller=majority", "task.train=train.txt", "task.valid=train.txt", "task.test=train.txt"]
    assert command(*line, "run_dir=r", main=label.main).code == 0
    drawn, draw = [], tag.picture_of_confusion
    monkeypatch.setattr(tag, "picture_of_confusion", lambda *given: (drawn.append(given), draw(*given))[1])
    without = command("r", "new.txt", main=tag.main).out
    assert command("r", "new.txt", "--plot", "a.png", main=tag.main).out == without
    ((labels, percent, title, _),) = drawn
    assert (labels, percent.tolist(), title) == (["B-NP"], [[50]], "r on new.txt")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    Path("bare.txt").write_text("they PRP\n\n")
    assert command("r", "bare.txt", "--plot", "a.png", main=tag.main).code == 2
