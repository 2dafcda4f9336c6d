"""The options of the training loop."""

from collections.abc import Sequence
from typing import Annotated, Literal

from lmzoo.core.options import BelowOne, Bounds, Count, Idle, NonNegative, Options, Size, Source
from lmzoo.core.registry import Registry

OfStream = Idle(("corpus.context", "sentence"))


trainers = Registry("trainer")


@trainers.register("default")
class TrainerOptions(Options):
    """The training loop."""

    from_: Source | Sequence[Source] | None = None
    """a trained run to initialize the weights, or [several] for their mean (Izmailov et al. 2018); optimizer and
    schedule start anew. None: none."""
    first_tokens: Size | None = None
    """number of tokens read from each split, up to the end of a line, also in later evaluations; None: all."""
    batch_size: Annotated[Size, OfStream] = 20
    """rows per batch of a stream."""
    bptt: Annotated[Size, OfStream] = 35
    """tokens per row in a window; the state carries over to the next window, the gradient does not."""
    max_tokens: Annotated[Size, Idle(("corpus.context", "stream"))] = 1024
    """tokens per batch of sentences, padding included (corpus.context=sentence)."""
    epochs: Count = 12
    """number of passes over the training text; 0: the weights of trainer.from are evaluated as they are."""
    checks_per_epoch: Annotated[int, Bounds(low=1, high=10000)] = 1
    """number of measurements of validation perplexity per epoch, at most one after each window."""
    patience: Size | None = None
    """number of checks without improvement after which training stops; None: never."""
    clip: Annotated[float, Bounds(low=1e-9, high=1e30)] | None = 1.0
    """maximum gradient norm; None: no limit."""
    random_bptt: Annotated[bool, OfStream] = False
    """whether window lengths of a stream vary randomly around bptt, with proportional learning rates (Merity et al.
    2018)."""
    average: Literal["ema", "tail", "nt"] | None = None
    """weights for evaluation and checkpoint. None: the current ones. ema: exponential moving average of all steps.
    tail: mean of all steps after some epochs (Polyak & Juditsky 1992). nt: mean from the first check that is worse than
    the best of those more than average_after checks before it (NT-ASGD, Merity et al. 2018)."""
    average_decay: Annotated[BelowOne, Idle(("trainer.average", None, "tail", "nt"))] = 0.999
    """decay of ema per step."""
    average_after: Annotated[Count, Idle(("trainer.average", None, "ema"))] = 5
    """tail: epochs before averaging starts. nt: number of checks in which valid must improve."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 is autocast; auto: bfloat16 where it is faster for the model and device."""
    checkpoint_seconds: NonNegative = 120
    """``last.pt`` is written at every check, and after this many seconds without one."""
