"""The first picture, and the tables of models in README and docs/results.md, from ``penn_treebank.csv``:
``python docs/pictures/penn_treebank.py``.

A line of the CSV is a perplexity of Penn Treebank's test: published, of a model that is comparable with ours or the
best of its kind, or ours. ``source`` is a key of the list in docs/results.md, or for ours what docs/ has of the run.
A line is in the picture, in the table or in both; in the picture lines with one name are joined. ``year`` is that of
the model, not of the measurement. Needs matplotlib (``pip install -e '.[dev]'``).
"""

import csv
import hashlib
import importlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo.core.files import write_output
from lmzoo.reports.charts import charts, logarithmic, rendered

HERE = Path(__file__).parent
README, RESULTS = HERE.parent.parent / "README.md", HERE.parent / "results.md"
FIGURES = HERE / "penn_treebank.csv"

MODELS = {
    "ngram": "n-grams, modified Kneser–Ney and other smoothings (Chen & Goodman 1998; Heafield et al. 2013)",
    "arpa": "an n-gram model from an ARPA file of SRILM or KenLM, `model.path=FILE` (Stolcke 2002)",
    "infinigram": "the ∞-gram, for mixtures: counts after [the longest context that train has](docs/ngram.md) "
    "(Liu et al. 2024)",
    "loglinear": "maximum-entropy n-grams, exactly normalised (Rosenfeld 1996; Wu & Khudanpur 2000)",
    "model_m": "the next word's class, then the word, each by an exponential model (Chen 2009)",
    "whole_sentence": "a model and [features of whole sentences](docs/whole_sentence.md) (Rosenfeld et al. 2001)",
    "nnlm": "the neural model of 2003 and modern forms of it (Bengio et al. 2003)",
    "logbilinear": "log-bilinear (Mnih & Hinton 2007)",
    "rnn": "recurrent network (Elman 1990)",
    "gru": "gated recurrent units (Cho et al. 2014)",
    "lstm": "long short-term memory (Hochreiter & Schmidhuber 1997)",
    "lds": "linear dynamical system with a softmax head (Belanger & Kakade 2015)",
    "lds_rnn": "an RNN that starts from it (Belanger & Kakade 2015)",
    "hmm": "hidden Markov model with plain tables, by EM or gradient (Baum et al. 1970; Rabiner 1989)",
    "neural_hmm": "HMM with neural tables, in which every state emits every word (Chiu & Rush 2020)",
    "vlhmm": "the very large neural HMM (Chiu & Rush 2020)",
    "lowrank_hmm": "the same with transitions of low rank (Chiu, Deng & Rush 2021)",
    "twolevel_hmm": "the same with transitions to a cluster, then to a state (after Goodman 2001)",
    "cache": "a trained run with [a cache of its last words](docs/recurrent.md) (Grave et al. 2017)",
    "dynamic": "a trained run that [learns on from what it has scored](docs/recurrent.md) (Krause et al. 2018)",
    "mixture": "trained runs mixed by the token or by the sentence (Jelinek & Mercer 1980; Iyer & Ostendorf 1999)",
}
"""What each model is, in the order of the table."""

IN_README = ("ngram", "model_m", "nnlm", "rnn", "lstm", "lds", "hmm", "vlhmm", "twolevel_hmm", "mixture")
"""The models in README's table."""

FAMILIES = {
    "n-gram": ("#5d5d5d", "#c4c4c4"),
    "exponential": ("#a56a00", "#f0b445"),
    "feed-forward": ("#007f5c", "#2fcf9f"),
    "recurrent": ("#0068a8", "#62b5ee"),
    "linear": ("#a8437f", "#e79ac6"),
    "hidden Markov": ("#c24a00", "#ff8a4a"),
}
"""The colour of each family on light and on dark paper."""

BESIDE = {"GRU": 0.55, "small LSTM": -0.55, "LSTM": 0, "two-level HMM": 0.55, "RNN from the linear": 0.0}
"""Years by which models of one year stand apart."""

RIGHT = (7, -4.2)
OFFSETS = {
    "AWD-LSTM": (5.2, 2.1), "RNN": (-39.5, 4.2), "RNN from the linear": (-49.6, 9), "VL-HMM": (7, -8.4),
    "fading context": (5, 6), "log-bilinear": (-68.6, 2), "low-rank HMM": (-4, -14.5),
    "maximum entropy": (-101, 4), "modified Kneser–Ney": (-10, 5.2), "neural network": (-72.3, -13.5),
    "rewired LSTM": (-73.3, -4.2), "two-level HMM": (-6.6, -13.5), "whole sentences": (-91.7, -4.2),
}  # fmt: skip
"""Where a name begins, in points of 1/72 inch from its model; those of other models stand `RIGHT` of them."""

PAPER = {"light": "#ffffff", "dark": "#0d1117"}
INK = {"light": "#24292f", "dark": "#d5dbe1"}
LINES = {"light": "#e7eaed", "dark": "#262c34"}
HEADING = "| `model=` | what it is | published: comparable | published: best of the kind | ours | ours, WikiText-2 |"
SHORT = "| `model=` | what it is | published: comparable | published: best of the kind | lmzoo |"


@dataclass(frozen=True)
class Figure:
    """A line of the CSV."""

    model: str
    place: str
    year: str
    family: str
    name: str
    standing: str
    perplexity: str
    about: str
    source: str

    @property
    def ours(self) -> bool:
        return self.standing in ("ours", "wikitext2")


def figures(file: Path = FIGURES) -> list[Figure]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [Figure(**line) for line in csv.DictReader(lines)]


def table(lines: Iterable[Figure]) -> str:
    """The table of all models, as docs/results.md has it."""
    rows = [HEADING, "|---|---|---|---|---|---|"]
    for model, (comparable, best, ours, wikitext) in _cells(lines).items():
        if comparable or best or ours or wikitext:
            best = best or ("the same" if comparable else "none found")
            comparable = comparable or "none found"
        about = MODELS[model].replace("](docs/", "](")
        rows.append(f"| `{model}` | {about} | {comparable} | {best} | {ours} | {wikitext} |")
    return "\n".join(rows) + "\n"


def short_table(lines: Iterable[Figure]) -> str:
    """README's table, of `IN_README`."""
    cells, rows = _cells(lines), []
    for model in IN_README:
        comparable, best, ours, _ = cells[model]
        best = best or ("the same" if comparable else "none found")
        rows.append(f"| `{model}` | {MODELS[model]} | {comparable or 'none found'} | {best} | {ours} |")
    return "\n".join([SHORT, "|---|---|---|---|---|", *rows]) + "\n"


def _cells(lines: Iterable[Figure]) -> dict[str, list[str]]:
    """The figures of each model, by how they stand: comparable, best of the kind, ours, ours of WikiText-2."""
    own = [line for line in lines if line.place != "picture"]
    standings = ("comparable", "best", "ours", "wikitext2")
    return {
        model: [
            _cell([line for line in own if (line.model, line.standing) == (model, standing)]) for standing in standings
        ]
        for model in MODELS
    }


def _cell(lines: list[Figure]) -> str:
    shown = []
    for line in lines:
        about, key = f" ({line.about})" if line.about else "", "" if line.ours else f" [{line.source}]"
        shown.append(f"{line.perplexity}{about}{key}")
    return ", ".join(shown)


def written(page: str, table: str) -> str:
    """A page with the table in the place of the one with its heading."""
    heading = table.partition("\n")[0]
    return re.sub(rf"^{re.escape(heading)}\n(\|.*\n)+", lambda _: table, page, count=1, flags=re.MULTILINE)


def fingerprint() -> str:
    """What the pictures are drawn from; each holds it, so that an old one is noticed."""
    sources = (FIGURES, Path(__file__))
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()


def draw(lines: Iterable[Figure], theme: str, file: Path) -> bytes:
    """Perplexity by the year of the model, on paper of a theme: light or dark."""
    ink, dark = INK[theme], theme == "dark"
    colours = {family: styles[dark] for family, styles in FAMILIES.items()}
    changes = {
        "figure.figsize": (8, 5.2), "figure.dpi": 100, "savefig.dpi": 100,
        "figure.facecolor": PAPER[theme], "axes.facecolor": PAPER[theme], "savefig.facecolor": PAPER[theme],
        "text.color": ink, "xtick.labelcolor": ink, "ytick.labelcolor": ink, "grid.color": LINES[theme],
    }  # fmt: skip
    with charts("this picture", changes) as pyplot:
        figure, axes = pyplot.subplots()
        shown = sorted((line for line in lines if line.place != "table"), key=lambda line: line.name)
        for name, together in itertools.groupby(shown, key=lambda line: line.name):
            pair = list(together)
            colour = colours[pair[0].family]
            pair.sort(key=lambda line: not line.ours)
            points = [(float(line.year) + BESIDE.get(name, 0), float(line.perplexity)) for line in pair]
            axes.plot(*zip(*points, strict=True), color=colour, zorder=2)
            for line, point in zip(pair, points, strict=True):
                axes.plot(*point, **_mark(line.ours, colour, PAPER[theme]))
            label, offset = f"{name} {float(pair[0].perplexity):.0f}", OFFSETS.get(name, RIGHT)
            axes.annotate(label, points[0], offset, textcoords="offset points", color=colour, fontsize=7.6)
        axes.set(xlim=(1978.5, 2027.5), ylim=(43, 225))
        axes.set_title("Language models before the transformer", fontsize=10, x=-0.035, pad=20)
        axes.text(-0.035, 1.02, "perplexity of Penn Treebank’s test, lower is better, by the year of the model",
                  transform=axes.transAxes, fontsize=8)  # fmt: skip
        axes.set_xticks(range(1980, 2021, 5))
        logarithmic(axes, "y")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        _legend(axes, colours, ink, PAPER[theme])
        return rendered(figure, file, about=fingerprint())


def _mark(ours: bool, colour: str, paper: str) -> dict[str, Any]:
    """A ring for what is published, a dot for ours, which fits into it."""
    size = {"markersize": 4.6, "markerfacecolor": colour} if ours else {"markersize": 7.4, "markerfacecolor": paper}
    return {"marker": "o", "color": colour, "markeredgewidth": 1.2, "linestyle": "", "zorder": 4 if ours else 3, **size}


def _legend(axes: Any, colours: Mapping[str, str], ink: str, paper: str) -> None:
    """What signs and colours mean, in the corner where no model is."""
    lines = importlib.import_module("matplotlib.lines")
    signs = [lines.Line2D([], [], **_mark(ours, ink, paper), label=label)
             for ours, label in ((False, "published"), (True, "lmzoo"))]  # fmt: skip
    families = [lines.Line2D([], [], **_mark(True, colour, paper), label=family) for family, colour in colours.items()]
    style = {"loc": "lower left", "fontsize": 8, "handletextpad": 0.2, "labelspacing": 0.45}
    axes.add_artist(axes.legend(handles=signs, bbox_to_anchor=(0.015, 0.19), **style))
    axes.text(0.027, 0.12, "The number is lmzoo’s,\nor else the published one.",
              transform=axes.transAxes, fontsize=7.5, va="bottom", linespacing=1.3)  # fmt: skip
    drawn = axes.legend(handles=families, bbox_to_anchor=(0.33, 0.08), labelcolor="linecolor", **style)
    drawn.set_zorder(1)


def main() -> None:
    lines = figures()
    for theme in PAPER:
        file = HERE / f"penn-treebank-{theme}.svg"
        write_output(file, draw(lines, theme, file))
    for page, rows in ((README, short_table(lines)), (RESULTS, table(lines))):
        write_output(page, written(page.read_text(encoding="utf-8"), rows).encode())


if __name__ == "__main__":
    main()
