"""TensorBoard: the same tags in every run, so that all models share one chart."""

import json
import textwrap
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from lmzoo.core.errors import printable

IMAGE_PIXELS = 512
"""About how many pixels the larger side of an image has at least."""

LABELLED = 128
"""An image has labels where no side has more entries."""

FONT_PIXELS, LABEL_SIGNS = 11, 14
"""The height of a label's font, and the most signs of a label."""

LINE = 110
"""How many signs a line of a text has at most."""

LAYOUT = {"all runs": {title: ["Multiline", [f"perplexity/{title}$"]] for title in ("valid", "train")}}
"""The page CUSTOM SCALARS: charts of these tags, with a line for each run."""


class Board:
    """The event file of a run. ``step`` is everywhere the number of tokens seen.

    Nothing is written before the first point. An earlier process that was interrupted may have written points at that
    step or later. That work is done again, so TensorBoard is told to drop those points.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.writer: SummaryWriter | None = None
        self.excepthook = threading.excepthook

    def _writer(self, step: int) -> SummaryWriter:
        if self.writer is None:
            threading.excepthook = self._raised_later
            self.writer = SummaryWriter(str(self.folder), purge_step=step)
            self.writer.add_custom_scalars(LAYOUT)
        return self.writer

    def scalars(self, metrics: Mapping[str, float], step: int) -> None:
        """Points of curves."""
        for tag, value in metrics.items():
            self._writer(step).add_scalar(tag, value, step)

    def text(self, tag: str, value: str, step: int) -> None:
        """A text, shown as it is, but that lines are broken which TensorBoard would cut."""
        wrapper = textwrap.TextWrapper(LINE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
        lines = [part for line in value.split("\n") for part in wrapper.wrap(line) or [""]]
        self._writer(step).add_text(tag, textwrap.indent("\n".join(lines), "    "), step)

    def image(self, tag: str, matrix: Tensor, step: int, labels: Sequence[str] = ()) -> None:
        """An (H, W) matrix with entries from 0 (black) to 1 (white), enlarged where it is small.

        Args:
            labels: of the rows of an (H, H) matrix, and of its columns.
        """
        labels = labels if len(labels) <= LABELLED else ()
        larger = max(1, IMAGE_PIXELS // max(matrix.shape), FONT_PIXELS + 2 if labels else 0)
        pixels = matrix.float().cpu().repeat_interleave(larger, 0).repeat_interleave(larger, 1)
        if labels:
            left, above = _names(labels, larger, right=True), _names(labels, larger, right=False).rot90()
            corner = pixels.new_zeros(len(above), left.shape[1])
            pixels = torch.cat([torch.cat([corner, left]), torch.cat([above, pixels])], 1)
        self._writer(step).add_image(tag, pixels, step, dataformats="HW")

    def hyperparameters(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The run's row in the HPARAMS tab, written into the same event file.

        The summary of the experiment is not written. So TensorBoard makes one of all runs, in which the options that
        differ come first, by their names; five of them are shown until a reader ticks more.
        """
        spelled = {k: json.dumps(v) if v is None or isinstance(v, bool) else v for k, v in options.items()}
        plain = {k: v if isinstance(v, int | float) else str(v) for k, v in spelled.items()}
        _, start, end = hparams(plain, {})
        for summary in (start, end):
            self._writer(step + 1)._get_file_writer().add_summary(summary)  # the last check's point at step stays
        self.scalars(metrics, step)

    def close(self) -> None:
        """Flush and close the event file."""
        if self.writer is not None:
            writer, self.writer = self.writer, None
            try:
                writer.close()
            finally:
                threading.excepthook = self.excepthook

    def _raised_later(self, error: threading.ExceptHookArgs) -> None:
        """Keep TensorBoard's thread from printing that a disk is full: the next point or `close` raises it."""
        if not isinstance(error.exc_value, OSError):
            self.excepthook(error)


def _names(labels: Sequence[str], height: int, right: bool) -> Tensor:
    """Labels -> (H · height, L) pixels, each label at the right or left end of a row."""
    font = ImageFont.load_default(FONT_PIXELS)
    texts = [printable(label)[:LABEL_SIGNS] for label in labels]
    width = round(max(font.getlength(text) for text in texts)) + 6
    picture = Image.new("L", (width, height * len(texts)))
    for row, text in enumerate(texts):
        place = (width - 3 if right else 3, (row + 0.5) * height)
        ImageDraw.Draw(picture).text(place, text, fill=255, font=font, anchor="rm" if right else "lm")
    return torch.from_numpy(numpy.asarray(picture).copy()) / 255
