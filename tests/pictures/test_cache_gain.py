"""docs/pictures/cache_gain.py: distances to a word's last occurrence, by hand."""

import runpy

import pytest
import torch
from command_line import ROOT


@pytest.fixture(scope="module")
def script() -> dict:
    pytest.importorskip("matplotlib")
    return runpy.run_path(str(ROOT / "docs" / "pictures" / "cache_gain.py"))


def test_distances_are_those_to_the_same_word_before(script: dict):
    text = torch.tensor([5, 2, 5, 5, 0, 2, 7, 0])
    assert script["distances"](text).tolist() == [0, 0, 2, 1, 0, 4, 0, 3]


def test_gains_are_means_between_powers_of_two(script: dict):
    found = script["gains"](torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([-1.0, 4.0, 1.0, 2.0, 7.0, -2.0]))
    assert found == [(0, -1.5, pytest.approx(2 / 6)), (1, 4, pytest.approx(1 / 6)), (2, 1.5, pytest.approx(2 / 6)),
                     (4, 7, pytest.approx(1 / 6))]  # fmt: skip
