"""The colours of the page: letters can be read on what is behind them, in both modes (WCAG 2.2, 1.4.3)."""

import colorsys
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lmzoo.page import app

STYLE = (Path(app.__file__).parent / "style.css").read_text(encoding="utf-8")
LETTERS = [
    ("ink", "card"), ("ink", "ground"), ("quiet", "card"), ("quiet", "ground"), ("warn", "card"), ("warn", "ground"),
    ("ink", "hot"), ("bar", "ground"), ("bar", "card"), ("ink", "track"),
]  # fmt: skip
"""The colour of letters, and what is behind them where that is strongest."""

CONTRAST = 4.5
"""Of letters with what is behind them, at least."""


def contrast(colour: Sequence[float], other: Sequence[float]) -> float:
    """The contrast ratio of two sRGB colours, each of parts from 0 to 1: from 1 to 21."""
    linear = np.array([colour, other])
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    low, high = sorted((linear @ [0.2126, 0.7152, 0.0722]).tolist())
    return (high + 0.05) / (low + 0.05)


def colours(mode: str) -> dict[str, str]:
    """The variables of the style in a mode, ``:root`` or ``.dark``."""
    (block,) = re.findall(rf"^{re.escape(mode)} \{{(.*?)\}}", STYLE, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r"--([\w-]+): ([^;]+);", block))


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))


@pytest.mark.parametrize(("colour", "ground", "ratio"), [("#000000", "#ffffff", 21), ("#767676", "#ffffff", 4.54)])
def test_contrast_is_that_of_the_guidelines(colour: str, ground: str, ratio: float):
    assert contrast(rgb(colour), rgb(ground)) == contrast(rgb(ground), rgb(colour)) == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize("mode", [":root", ".dark"])
@pytest.mark.parametrize(("letters", "behind"), LETTERS)
def test_letters_can_be_read(letters: str, behind: str, mode: str):
    own = colours(mode)
    assert contrast(rgb(own[letters]), rgb(own[behind])) >= CONTRAST


@pytest.mark.parametrize("mode", [":root", ".dark"])
def test_numbers_of_states_can_be_read_in_each_hue(mode: str):
    own = colours(mode)
    lightness = float(own["state"].removesuffix("%")) / 100
    assert "hsl(var(--hue) 55% var(--state))" in STYLE
    ratios = [contrast(rgb(own["ink"]), colorsys.hls_to_rgb(hue / 360, lightness, 0.55)) for hue in range(360)]
    assert min(ratios) >= CONTRAST
