"""The options of the training loop."""

from dataclasses import dataclass
from typing import Annotated, Literal

from lmzoo.core.options import BelowOne, Bounds, Count, Idle, NonNegative, Size, Source

OfStream = Idle(("corpus.context", "sentence"))


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What ``configs/trainer`` sets.

    Args:
        from_: a trained run whose weights training starts from; optimizer and schedule begin anew. None: none.
        first_tokens: tokens of each split that are read, up to the end of a line, also when the run is measured again;
            None: all.
        batch_size: rows of a stream.
        bptt: tokens of a row in a window; the state goes on to the next window, the gradient does not.
        max_tokens: padded tokens in a window of sentences (corpus.context=sentence).
        epochs: how often train is read.
        checks_per_epoch: how often validation perplexity is measured in an epoch.
        patience: training stops after so many checks without improvement; None: never.
        clip: the largest norm of the gradient; None: no limit.
        random_bptt: whether windows of a stream have random lengths about bptt; the rate of a step is in proportion
            (Merity et al. 2018).
        average: the weights that are checked and kept. None: the last. ema: an exponential average of all steps. tail:
            the mean of all steps after some epochs (Polyak & Juditsky 1992). nt: the mean from the first check that is
            worse than the best of those more than average_after checks before it (NT-ASGD, Merity et al. 2018).
        average_decay: of the average of ema, from step to step.
        average_after: tail: epochs before the mean begins. nt: checks that valid has for getting better.
        precision: bfloat16 is autocast; auto: bfloat16 where model and device are faster in it.
        checkpoint_seconds: ``last.pt`` is written at every check, and when this time has passed since the last one.
    """

    from_: Source | None
    first_tokens: Size | None
    batch_size: Annotated[Size, OfStream]
    bptt: Annotated[Size, OfStream]
    max_tokens: Annotated[Size, Idle(("corpus.context", "stream"))]
    epochs: Size
    checks_per_epoch: Annotated[int, Bounds(low=1, high=10_000)]
    patience: Size | None
    clip: NonNegative | None
    random_bptt: Annotated[bool, OfStream]
    average: Literal["ema", "tail", "nt"] | None
    average_decay: Annotated[BelowOne, Idle(("trainer.average", None, "tail", "nt"))]
    average_after: Annotated[Count, Idle(("trainer.average", None, "ema"))]
    precision: Literal["auto", "float32", "bfloat16"]
    checkpoint_seconds: NonNegative
