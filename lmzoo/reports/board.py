"""TensorBoard logging, with the same tags for all runs, so that models share charts."""

import json
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

IMAGE_PIXELS = 512
"""The approximate minimum of the larger side of an image in pixels."""

LINE = 110
"""The maximum length of a line of text in characters."""

LAYOUT = {"all runs": {title: ["Multiline", [f"perplexity/{title}$"]] for title in ("valid", "train")}}
"""The page CUSTOM SCALARS: charts of these tags, with a line per run."""


class Board:
    """The event file of a run. ``step`` is always the number of tokens seen.

    It is created with the first point. An interrupted process may have written points at that step or later, which are
    recomputed, so TensorBoard is told to purge them.
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
        """Add points to curves."""
        for tag, value in metrics.items():
            self._writer(step).add_scalar(tag, value, step)

    def text(self, tag: str, value: str, step: int) -> None:
        """Add a text, unchanged except that long lines, which TensorBoard would cut, are wrapped."""
        wrapper = textwrap.TextWrapper(LINE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
        lines = [part for line in value.split("\n") for part in wrapper.wrap(line) or [""]]
        self._writer(step).add_text(tag, textwrap.indent("\n".join(lines), "    "), step)

    def image(self, tag: str, matrix: Tensor, step: int) -> None:
        """Add an (H, W) matrix with entries from 0 (black) to 1 (white) as an image, enlarged if small."""
        larger = max(1, IMAGE_PIXELS // max(matrix.shape))
        pixels = matrix.float().cpu().repeat_interleave(larger, 0).repeat_interleave(larger, 1)
        self._writer(step).add_image(tag, pixels, step, dataformats="HW")

    def hyperparameters(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the run's row in the HPARAMS tab, in the same event file.

        Without the experiment's summary, TensorBoard makes one of all runs, in which differing options come first by
        name; five of them are shown until the user ticks more.
        """
        spelled = {k: json.dumps(v) if v is None or isinstance(v, bool) else v for k, v in options.items()}
        plain = {k: v if isinstance(v, int | float) else str(v) for k, v in spelled.items()}
        _, start, end = hparams(plain, {})
        for summary in (start, end):
            self._writer(step + 1)._get_file_writer().add_summary(summary)  # keeps the point of the last validation
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
        """Suppress a full disk's error in TensorBoard's thread: the next point or `close` raises it."""
        if not isinstance(error.exc_value, OSError):
            self.excepthook(error)
