"""Pictures of single words."""

import math
from pathlib import Path

import numpy as np
import pytest

from lmzoo.protocol.difference import FrequencyBand
from lmzoo.reports import words
from lmzoo.reports.charts import rendered
from lmzoo.reports.reading import Surprisal
from lmzoo.reports.words import WORDS, picture_of_bands, picture_of_sentence

pytest.importorskip("matplotlib")


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list:
    """The panels of the last picture."""
    found = []
    monkeypatch.setattr(words, "rendered", lambda figure, file: (found.extend(figure.axes), rendered(figure, file))[1])
    return found


def test_bars_are_bits_with_their_intervals_and_shares(panels: list):
    bands = [
        FrequencyBand(
            1,
            3,
            1,
            -0.5,
            -0.75,
            -0.25,
        ),
        FrequencyBand(1000, 3000, 299, 0.25, 0.125, 0.5),
    ]
    assert picture_of_bands(bands, "a/$lstm", "b_ngram", "ptb, test", Path("a.png")).startswith(b"\x89PNG")
    (panel,) = panels
    heights = [bar.get_height() for bar in panel.patches if bar.get_width() < 0.8]
    assert heights == pytest.approx([-0.5, 0.25])
    ends = [list(line.get_ydata()) for line in panel.lines[:2]]
    assert ends == [pytest.approx([-0.75, -0.25]), pytest.approx([0.125, 0.5])]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["1", "1,000"]
    assert [text.get_text() for text in panel.texts] == ["<1%", "100%"]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["a/$lstm is better", "b_ngram is better"]


def test_a_long_sentence_stands_in_rows_of_about_the_same_length(panels: list):
    sentence = [f"w{number}" for number in range(WORDS + 5)]
    models = {
        "one": Surprisal(np.arange(WORDS + 5.0), np.arange(WORDS + 5) != 2),
        "two": Surprisal(np.full(WORDS + 5, math.inf), np.ones(WORDS + 5, bool)),
    }
    assert picture_of_sentence(sentence, models, Path("a.png")).startswith(b"\x89PNG")
    shown = [[label.get_text() for label in panel.get_xticklabels()] for panel in panels]
    assert shown == [sentence[: len(shown[0])], sentence[len(shown[0]) :]]
    assert abs(len(shown[0]) - len(shown[1])) <= 1
    rings = [line.get_xydata().tolist() for line in panels[0].lines if line.get_markerfacecolor() == "white"]
    assert rings == [[[2, 2]], []]
    assert panels[0].get_ylim()[0] == 0


def test_names_with_dollars_are_no_formulas(panels: list):
    bands = [FrequencyBand(1, 3, 1, -0.5, -0.75, -0.25)]
    assert picture_of_bands(bands, r"$\a$", r"$\b$", "title", Path("a.svg"))
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == [r"$\a$ is better", r"$\b$ is better"]
    assert picture_of_sentence(["$\\c$"], {r"$\d$": Surprisal(np.ones(1), np.ones(1, bool))}, Path("a.svg"))
