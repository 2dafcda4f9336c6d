"""What a cache gives by how long ago a word was last there: ``python docs/pictures/cache_gain.py CACHE_RUN PLOT``.

CACHE_RUN is a finished run of ``model=cache``. Every token of valid is scored by it and by the model within it. Tokens
are put together by the distance to the last occurrence of the same word, from a power of two to the next. Prints and
draws for each distance the mean gain log p_cache − log p_model in nats, and the share of the tokens. Needs matplotlib
(``pip install -e '.[dev]'``).
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.core.files import write_output
from lmzoo.models.combined.cache import Cache
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.reports.charts import charts, rendered
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load


def distances(tokens: Tensor) -> Tensor:
    """(N,) text -> (N,) how many tokens ago each word was last there; 0 where it was not."""
    order = tokens.argsort(stable=True)
    place = torch.arange(len(tokens))[order]
    again = torch.cat([torch.zeros(1, dtype=torch.bool), tokens[order].diff() == 0])
    return torch.zeros_like(tokens).index_copy(0, order, torch.where(again, place.diff(prepend=place[:1]), 0))


def gains(distance: Tensor, gain: Tensor) -> list[tuple[int, float, float]]:
    """(N,) distances and gains -> the first distance of each group, its mean gain, and its share of the tokens."""
    group = torch.where(distance > 0, distance.clamp(min=1).log2().floor().long() + 1, 0)
    return [
        (2 ** (g - 1) if g else 0, float(gain[group == g].mean()), float((group == g).float().mean()))
        for g in group.unique().tolist()
    ]


def draw(rows: list[tuple[int, float, float]], path: Path) -> None:
    with charts("this picture") as pyplot:
        figure, axes = pyplot.subplots(figsize=(7.2, 3.8))
        names = [f"{first:,}" if first else "new" for first, _, _ in rows]
        bars = axes.bar(names, [gain for _, gain, _ in rows])
        axes.bar_label(bars, [f"{share:.0%}" for _, _, share in rows], fontsize=7, padding=2)
        axes.axhline(0, color="#333333", linewidth=0.8)
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.12)
        axes.tick_params("x", rotation=40)
        axes.set_xlabel("tokens since the word was last there, at least; beside the bars the share of the tokens")
        axes.set_ylabel("gain of the cache, nats a token")
        write_output(path, rendered(figure, path))


def main() -> int:
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("plot", type=Path)
    arguments = parser.parse_args()
    model, _ = load(arguments.run)
    if not isinstance(model, Cache):
        raise UserError(f"{arguments.run}: no run of model=cache")
    corpus = Run(arguments.run).corpus()
    valid = corpus.splits["valid"]
    of_cache, alone = (text_logprobs(each, valid, corpus.context).cpu() for each in (model, model.inner))
    rows = gains(distances(valid), of_cache - alone)
    print("| distance | gain, nats | share |\n|---|---|---|")
    for first, gain, share in rows:
        print(f"| {f'{first:,}' if first else 'new'} | {gain:.3f} | {share:.1%} |")
    draw(rows, arguments.plot)
    return 0


if __name__ == "__main__":
    run_command(main)
