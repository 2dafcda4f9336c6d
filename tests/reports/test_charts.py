"""What all charts share: ticks, legends, formats."""

from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.reports.charts import charts, format_tick, legend, logarithmic, rendered

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("low", [0.003, 0.9, 17, 99, 4_321_000])
@pytest.mark.parametrize("ratio", [1.02, 1.3, 2.4, 2.6, 9, 1e3, 1e14])
def test_there_are_always_two_to_eleven_ticks(low: float, ratio: float):
    with charts("a test") as pyplot:
        _, axes = pyplot.subplots()
        axes.plot([low, low * ratio], [1, 1])
        axes.margins(0)
        logarithmic(axes, "x")
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= low * ratio]
    assert 2 <= len(ticks) <= 11


def test_numbers_are_written_briefly():
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
    assert {"100", "200", "500"} <= set(labels)
    assert not {"300", "$10^2$"} & set(labels)


def test_a_long_name_of_a_legend_is_in_several_lines_and_no_formula():
    options = r"lstm lr=0.003 $\weight$ weight_decay=0.1 hidden=200 dropout=0.5"
    with charts("a test") as pyplot:
        _, axes = pyplot.subplots()
        axes.plot([1], [1], "o", label=options)
        legend(axes)
        (text,) = axes.get_legend().get_texts()
    assert text.get_text().split("\n") == [r"lstm lr=0.003 $\weight$", "weight_decay=0.1 hidden=200", "dropout=0.5"]
    assert not text.get_parse_math()


def test_a_picture_is_the_same_each_time_and_its_format_is_known():
    def drawn(file: str) -> bytes:
        with charts("a test") as pyplot:
            figure, axes = pyplot.subplots()
            axes.plot([1, 2], [3, 4])
            return rendered(figure, Path(file))

    assert drawn("a.svg") == drawn("a.svg")
    assert drawn("a").startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"--plot a\.doc: \.doc is not a supported image format; choose from: .*png"):
        drawn("a.doc")


def test_figures_and_the_style_do_not_outlive_a_chart():
    from matplotlib import pyplot as global_pyplot

    before = dict(global_pyplot.rcParams), global_pyplot.get_fignums()
    with charts("a test", {"font.size": 20}) as pyplot:
        pyplot.subplots()
        assert pyplot.rcParams["font.size"] == 20
    assert (dict(global_pyplot.rcParams), global_pyplot.get_fignums()) == before
