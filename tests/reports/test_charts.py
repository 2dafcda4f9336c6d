"""What all charts share: ticks, names beside points, formats."""

from itertools import combinations, pairwise
from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.reports.charts import (
    CONTRAST,
    LINES,
    WIDTH,
    Name,
    charts,
    contrast,
    format_tick,
    legible,
    logarithmic,
    place,
    rendered,
    round_numbers,
)

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.colors")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (75, 110, [80, 90, 100, 110]),
        (40, 300, [50, 70, 100, 150, 200, 300]),
        (1e3, 1e8, [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]),
        (80.1, 80.45, [80.1, 80.2, 80.3, 80.4]),
        (0.6, 7200, [1, 10, 100, 1000]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, ticks: list[float]):
    assert round_numbers(low, high, 7) == ticks


@pytest.mark.parametrize("low", [0.003, 0.9, 17, 99, 4_321_000])
@pytest.mark.parametrize("ratio", [1.02, 1.3, 2.4, 2.6, 9, 1e3, 1e14])
def test_there_are_always_two_to_seven_ticks(low: float, ratio: float):
    ticks = round_numbers(low, low * ratio, 7)
    assert 2 <= len(ticks) <= 7
    assert low <= ticks[0] < ticks[-1] <= low * ratio
    assert all(a < b for a, b in pairwise(ticks))


def test_numbers_are_told_shortly():
    values = (0.05, 1.5, 80, 2000, 50_000, 3e6, 2.5e9)
    assert [format_tick(value) for value in values] == ["0.05", "1.5", "80", "2,000", "50k", "3M", "2.5bn"]


def test_an_axis_has_no_powers_and_no_other_ticks():
    with charts("a test") as pyplot:
        figure, axes = pyplot.subplots()
        axes.plot([1e3, 1e7], [80, 900])
        logarithmic(axes, "x")
        logarithmic(axes, "y")
        figure.draw_without_rendering()
        labels = [label.get_text() for label in axes.get_yticklabels(which="both")]
    assert labels == ["100", "150", "200", "300", "500", "700", "1,000"]


def test_names_stand_apart_near_their_points_and_inside():
    points = [(1.0, 1.0), (1.02, 1.0), (1.0, 1.02), (1.04, 1.01), (2.0, 2.0)]
    with charts("a test") as pyplot:
        _, axes = pyplot.subplots(figsize=(4, 3))
        axes.plot(*zip(*points, strict=True), "o")
        place(axes, [Name(f"the point {number}", [point]) for number, point in enumerate(points)])
        boxes = [text.get_window_extent().extents for text in axes.texts]
        frame = axes.get_window_extent().extents
        at = axes.transData.transform(points)
    for a, b in combinations(boxes, 2):
        assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1])
    for box, point in zip(boxes, at, strict=True):
        assert (box[:2] >= frame[:2] - 1).all()
        assert (box[2:] <= frame[2:] + 1).all()
        nearest = point.clip(box[:2], box[2:])
        assert ((nearest - point) ** 2).sum() ** 0.5 < 100
        assert not ((box[:2] < at) & (at < box[2:])).all(1).any(), "it covers a point"


def test_a_long_name_is_whole_in_several_lines():
    options = "lstm lr=0.003 weight_decay=0.1 hidden=200 dropout=0.5"
    with charts("a test") as pyplot:
        _, axes = pyplot.subplots()
        axes.plot([1], [1], "o")
        place(axes, [Name(options, [(1, 1)]), Name("x" * 999, [(1, 1)])])
        long, endless = (text.get_text().split("\n") for text in axes.texts)
    assert " ".join(long) == options
    assert len(long) == 2
    assert len(endless) == LINES
    assert endless[-1].endswith("…")
    assert max(map(len, long + endless)) == WIDTH


def test_a_picture_is_the_same_each_time_and_its_format_is_known():
    def drawn(file: str) -> bytes:
        with charts("a test") as pyplot:
            figure, axes = pyplot.subplots()
            axes.plot([1, 2], [3, 4])
            return rendered(figure, Path(file))

    assert drawn("a.svg") == drawn("a.svg")
    assert drawn("a").startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"--plot a\.doc: \.doc is no format of a picture; there are: .*png"):
        drawn("a.doc")


def test_figures_and_the_style_do_not_outlive_a_chart():
    from matplotlib import pyplot as global_pyplot

    before = dict(global_pyplot.rcParams), global_pyplot.get_fignums()
    with charts("a test", {"font.size": 20}) as pyplot:
        pyplot.subplots()
        assert pyplot.rcParams["font.size"] == 20
    assert (dict(global_pyplot.rcParams), global_pyplot.get_fignums()) == before


@pytest.mark.parametrize(
    ("colour", "ground", "ratio"),
    [("#000000", "#ffffff", 21), ("#767676", "#ffffff", 4.54), ("#ff0000", "#ffffff", 4.0)],
)
def test_contrast_is_that_of_the_guidelines(colour: str, ground: str, ratio: float):
    rgb = matplotlib.colors.to_rgb
    assert contrast(rgb(colour), rgb(ground)) == contrast(rgb(ground), rgb(colour)) == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize("ground", ["white", "#0d1117", "#808080"])
@pytest.mark.parametrize("colour", ["#0072B2", "#E69F00", "#9c9ede", "white", "black"])
def test_letters_can_be_read_on_their_ground_and_keep_their_colour_where_it_is_legible(colour: str, ground: str):
    rgb = matplotlib.colors.to_rgb
    found = legible(colour, ground)
    assert contrast(found, rgb(ground)) >= CONTRAST
    assert (found == rgb(colour)) == (contrast(rgb(colour), rgb(ground)) >= CONTRAST)


def test_a_name_beside_a_light_point_is_legible():
    with charts("a test") as pyplot:
        _, axes = pyplot.subplots()
        axes.plot(1, 1, "o", color="#E69F00")
        place(axes, [Name("yellow", [(1, 1)], "#E69F00")])
        assert contrast(axes.texts[0].get_color(), (1, 1, 1)) >= CONTRAST
