"""The options of the training loop."""

from dataclasses import dataclass
from typing import Annotated, Literal

from lmzoo.core.options import BelowOne, Bounds, Count, NonNegative, Size, Source


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What ``configs/trainer`` sets; see the comments there."""

    from_: Source | None
    first_tokens: Size | None
    batch_size: Size
    bptt: Size
    max_tokens: Size
    epochs: Size
    checks_per_epoch: Annotated[int, Bounds(low=1, high=10_000)]
    patience: Size | None
    clip: NonNegative | None
    random_bptt: bool
    average: Literal["ema", "tail", "nt"] | None
    average_decay: BelowOne
    average_after: Count
    precision: Literal["auto", "float32", "bfloat16"]
    checkpoint_seconds: NonNegative
