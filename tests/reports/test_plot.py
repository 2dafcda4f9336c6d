"""The picture of ``lmzoo compare --plot``: what is named, and what its axes show."""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lmzoo.core.errors import UserError
from lmzoo.reports import plot
from lmzoo.reports.charts import charts, rendered
from lmzoo.reports.comparison import Entry, Group, groups
from lmzoo.reports.plot import GREY, NAMED, PlottedRun, picture, plot_by_cost, plot_by_epoch

pytest.importorskip("matplotlib")


def entry(valid: float | None, checks: list[dict[str, float]] | None = None, **options: Any) -> Entry:
    """A finished run of a language model."""
    results = {
        "model": options["model"], "corpus": "ptb", "context": "stream", "parameters": 100, "seed": 0, "seconds": 10.0,
        "perplexity": {"valid": valid, "test": valid}, "tokens": {"valid": 9}, "tokens_per_second": 1.0,
        "device": "cpu", "train_perplexity": None, "best_epoch": None, "checks": checks or [],
    }  # fmt: skip
    flat = {"model.name": options.pop("model")} | {f"model.{key}": value for key, value in options.items()}
    return Entry(Path("run"), flat, results, "one text", 50, "")


def drawn(*entries: Entry) -> Mapping[str, PlottedRun]:
    (group,) = groups(entries)
    return {run.name: run for run in plot._drawn(group)}


def test_names_have_the_options_that_differ_among_runs_of_the_model():
    runs = [
        entry(140, model="ngram", order=5), entry(90, model="lstm", hidden=200), entry(80, model="lstm", hidden=400),
        entry(120, model="rnn", hidden=200),
    ]  # fmt: skip
    assert set(drawn(*runs)) == {"ngram", "lstm hidden=200", "lstm hidden=400", "rnn"}
    assert set(drawn(*runs[:2])) == {"ngram", "lstm"}


def test_runs_without_a_perplexity_are_left_out():
    assert set(drawn(entry(None, model="mle"), entry(9, model="ngram"))) == {"ngram"}
    assert set(drawn(entry(math.inf, model="mle"), entry(9, model="ngram"))) == {"ngram"}
    with pytest.raises(UserError, match="no finished runs of language models"):
        picture([Group("text", {}, groups([entry(None, model="mle")])[0].rows)], Path("a.png"))


def check(epoch: float, seconds: float, valid: float) -> dict[str, float]:
    return {"epoch": epoch, "seconds": seconds, "valid": valid}


def test_the_axes_show_whole_epochs_and_the_ends_of_curves(monkeypatch: pytest.MonkeyPatch):
    figures = []
    monkeypatch.setattr(plot, "rendered", lambda figure, file: (figures.append(figure), rendered(figure, file))[1])
    learnt = entry(90, [check(1, 3, 900), check(2, 6, 120), check(3, 9, 90)], model="lstm")
    (group,) = groups([learnt, entry(140, model="ngram")])
    with charts("a test"):
        assert picture([group], Path("a.png")).startswith(b"\x89PNG")
        learning, cost, size = figures[0].axes
        ticks = [tick for tick in learning.get_xticks() if 0 <= tick <= 3]
        assert all(tick == int(tick) for tick in ticks)
        low, high = learning.get_ylim()
        assert low < 90
        assert 140 < high < 300
        assert [len(panel.lines) for panel in (cost, size)] == [3, 3]
        assert [text.get_text() for text in size.get_legend().get_texts()] == ["lstm", "ngram"]
        texts = [label.get_text() for panel in figures[0].axes for label in panel.get_xticklabels(which="both")]
        assert not any("$" in text for text in texts)


def test_the_line_is_along_the_best_for_each_cost():
    runs = [
        PlottedRun("a", 100, 1, 1),
        PlottedRun("b", 120, 5, 1),
        PlottedRun("c", 60, 9, 1),
        PlottedRun("d", 70, 9, 1),
        PlottedRun("e", 5, None, 1),
    ]
    with charts("a test") as pyplot:
        _, panel = pyplot.subplots()
        plot_by_cost(panel, runs, ["red"] * 5, "seconds", lambda run: run.seconds)
        steps = list(zip(*panel.lines[0].get_data(), strict=True))
    assert steps == [(1, 100), (9, 100), (9, 60)]
    assert all(y >= later for (_, y), (_, later) in pairwise(steps))


def test_of_many_runs_the_best_are_named_and_the_others_grey():
    runs = [PlottedRun(f"run {number}", 100 + number, 1 + number, 1) for number in range(40)]
    with charts("a test") as pyplot:
        _, panel = pyplot.subplots()
        colours = plot._colours(pyplot, runs)
        plot_by_epoch(panel, runs, colours)
        names = [line.get_label() for line in panel.lines if not str(line.get_label()).startswith("_")]
        assert names[::-1] == [f"run {number}" for number in range(NAMED)]
    assert len(set(colours[:NAMED])) == NAMED
    assert set(colours[NAMED:]) == {GREY}


def test_a_run_without_steps_is_a_line_across():
    with charts("a test") as pyplot:
        _, panel = pyplot.subplots()
        plot_by_epoch(
            panel, [PlottedRun("a", 90, 1, 1, [[(1, 1, 95), (2, 2, 90)]]), PlottedRun("b", 140, 1, 1)], ["red", "blue"]
        )
        across, curve = panel.lines
        assert list(across.get_ydata()) == [140, 140]
        assert list(curve.get_ydata()) == [95, 90]
