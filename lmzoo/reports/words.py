"""Pictures of words: gains of one model over another by frequency, and surprisal of several on a sentence."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmzoo.core.errors import printable, shortened
from lmzoo.protocol.difference import FrequencyBand
from lmzoo.reports.charts import charts, format_tick, legend, rendered
from lmzoo.reports.reading import Surprisal

WORDS = 18
"""The maximum number of words per row of the picture."""


def picture_of_bands(bands: Sequence[FrequencyBand], first: str, second: str, title: str, file: Path) -> bytes:
    """Plot the gain of one model over another by word frequency.

    Args:
        bands: frequency bands with gains in bits.
    """
    with charts("--plot") as pyplot:
        figure, axes = pyplot.subplots(figsize=(7.2, 3.8))
        total = sum(band.tokens for band in bands)
        better, worse, *_ = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
        for place, band in enumerate(bands):
            gain, low, high = band.gain, band.low, band.high
            axes.bar(place, gain, 0.72, color=better if gain > 0 else worse)
            axes.plot([place, place], [low, high], color="#333333", linewidth=1)
            share = f"{100 * band.tokens / total:.0f}%" if 200 * band.tokens >= total else "<1%"
            end = max(high, 0) if gain > 0 else min(low, 0)
            axes.annotate(share, (place, end), (0, 3 if gain > 0 else -3), textcoords="offset points", ha="center",
                          va="bottom" if gain > 0 else "top", fontsize=7)  # fmt: skip
        axes.axhline(0, color="#333333", linewidth=0.8)
        axes.margins(y=0.12)
        axes.set_xticks(range(len(bands)), [format_tick(band.least) for band in bands])
        axes.grid(visible=False, axis="x")
        axes.set_title(printable(title), pad=20, parse_math=False)
        axes.set_xlabel("occurrences of the word in train, at least; beside the bars the share of the tokens")
        axes.set_ylabel("bits a token")
        for name, colour in ((first, better), (second, worse)):
            axes.bar(0, 0, color=colour, label=f"{printable(shortened(name, 40))} is better")
        legend(axes, loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=2)
        return rendered(figure, file)


def picture_of_sentence(words: Sequence[str], models: Mapping[str, Surprisal], file: Path) -> bytes:
    """Plot the surprisal of each word of a sentence under several models, with rings for unknown words."""
    rows = math.ceil(len(words) / WORDS)
    across = math.ceil(len(words) / rows)
    with charts("--plot") as pyplot:
        figure, panels = pyplot.subplots(rows, 1, figsize=(7.6, 2.9 * rows), squeeze=False, sharey=True)
        finite = [bits for model in models.values() for bits in model.bits if math.isfinite(bits)]
        for row, (panel,) in enumerate(panels):
            here = slice(row * across, (row + 1) * across)
            shown = [printable(shortened(word, 16)) for word in words[here]]
            for name, model in models.items():
                bits = [value if math.isfinite(value) else math.nan for value in model.bits[here]]
                (line,) = panel.plot(bits, marker="o", markersize=4, linewidth=1.1, alpha=0.9, label=printable(name))
                unknown = [place for place, known in enumerate(model.known[here]) if not known]
                panel.plot(unknown, [bits[place] for place in unknown], "o", color=line.get_color(), markersize=4,
                           markerfacecolor="white", zorder=3)  # fmt: skip
            panel.set_xticks(
                range(len(shown)), shown, rotation=35, ha="right", rotation_mode="anchor", parse_math=False
            )
            panel.set(ylabel="surprisal, bits", xlim=(-0.5, across - 0.5))
            panel.set_ylim(0, max(finite, default=1) * 1.06)
        legend(panels[0][0], loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(models), 5))
        return rendered(figure, file)
