"""TensorBoard: the same tags in every run, so that all models share one chart."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

IMAGE_PIXELS = 512
"""About how many pixels the larger side of an image has at least."""


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
        return self.writer

    def scalars(self, metrics: Mapping[str, float], step: int) -> None:
        """Points of curves."""
        for tag, value in metrics.items():
            self._writer(step).add_scalar(tag, value, step)

    def text(self, tag: str, value: str, step: int) -> None:
        """A text, shown as it is."""
        self._writer(step).add_text(tag, "    " + value.replace("\n", "\n    "), step)

    def image(self, tag: str, matrix: Tensor, step: int) -> None:
        """An (H, W) matrix with entries from 0 (black) to 1 (white), enlarged where it is small."""
        larger = max(1, IMAGE_PIXELS // max(matrix.shape))
        pixels = matrix.float().cpu().repeat_interleave(larger, 0).repeat_interleave(larger, 1)
        self._writer(step).add_image(tag, pixels, step, dataformats="HW")

    def hyperparameters(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The run's row in the HPARAMS tab, written into the same event file."""
        plain = {k: v if isinstance(v, bool | int | float | str) else str(v) for k, v in options.items()}
        for summary in hparams(plain, dict(metrics)):
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
