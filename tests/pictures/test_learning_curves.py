"""docs/pictures/learning_curves.py: means over seeds, and when a curve reaches another's best."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from command_line import ROOT

SEEN = {"slow-0": [300, 100, 104], "slow-1": [320, 220, 96], "fast-0": [150, 100, 80], "never-0": [400, 300, 200]}
"""Validation perplexity of each run's checks."""

REST = {"model": "rnn", "corpus": "markov", "context": "stream", "parameters": 9, "tokens": {"valid": 9, "test": 9},
        "seconds": 1.0, "tokens_per_second": 9.0, "device": "cpu", "seed": 0}  # fmt: skip
"""What ``results.json`` has beside perplexities."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, perplexities in SEEN.items():
        (tmp_path / name).mkdir()
        checks = [
            {"epoch": float(n), "tokens": 9 * n, "seconds": 60.0 * n, "train": 9.0, "valid": perplexity}
            for n, perplexity in enumerate(perplexities, 1)
        ]
        figures = {"valid": min(perplexities), "test": min(perplexities) - 4}
        (tmp_path / name / "results.json").write_text(json.dumps(REST | {"perplexity": figures, "checks": checks}))
    return tmp_path


def test_curves_are_means_over_seeds(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    curves = ["--hours", "slow=slow-0,slow-1", "fast=fast-0", "never=never-0"]
    monkeypatch.chdir(runs)
    monkeypatch.setattr(sys, "argv", ["learning_curves.py", "curves.png", *curves])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(ROOT / "docs" / "pictures" / "learning_curves.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| slow | 98.00 | 94.00 | 3 of 3 |",
        "| fast | 80.00 | 76.00 | 2 of 3 |",
        "| never | 200.00 | 196.00 | never |",
    ]
    assert (runs / "curves.png").stat().st_size > 1000


def test_a_run_that_goes_on_begins_where_the_other_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learning = runpy.run_path(str(ROOT / "docs" / "pictures" / "learning_curves.py"))
    names = ["lstm_2x512", "lstm_2x512_again", "lstm_2x512_end", "gru_400"]
    curves = {name: learning["Curve"].of([ROOT / "docs" / "results" / name]) for name in names}
    assert [learning["before"](curve, curves) for curve in curves.values()] == [[], names[:1], names[:2], []]
    axes, drawn = pytest.importorskip("matplotlib.axes").Axes, []
    plot = axes.plot
    monkeypatch.setattr(axes, "plot", lambda *given, **style: (drawn.append((given, style)), plot(*given, **style))[1])
    learning["draw"](curves, tmp_path / "curves.png", True)
    ends = [(given[1][0], given[1][-1], style["color"]) for given, style in drawn if len(given[1]) > 2]
    (_, first, _), (second, again, _), (third, _, _), (other, _, _) = ends
    assert first < second < first + 0.1
    assert again < third < again + 0.1
    assert other < 0.1
    assert [colour for *_, colour in ends] == ["C0", "C0", "C0", "C1"]
