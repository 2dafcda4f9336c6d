"""The options of the training loop."""

from typing import Annotated, Literal

from lmzoo.core.options import BelowOne, Bounds, Count, Idle, NonNegative, Options, Size, Source
from lmzoo.core.registry import Registry

OfStream = Idle(("corpus.context", "sentence"))


trainers = Registry("trainer")


@trainers.register("default")
class TrainerOptions(Options):
    """The training loop."""

    from_: Source | None = None
    """a trained run whose weights training starts from; optimizer and schedule begin anew. None: none."""
    first_tokens: Size | None = None
    """tokens of each split that are read, up to the end of a line, also when the run is measured again; None:
    all."""
    batch_size: Annotated[Size, OfStream] = 20
    """rows of a stream."""
    bptt: Annotated[Size, OfStream] = 35
    """tokens of a row in a window; the state goes on to the next window, the gradient does not."""
    max_tokens: Annotated[Size, Idle(("corpus.context", "stream"))] = 1024
    """padded tokens in a window of sentences (corpus.context=sentence)."""
    epochs: Size = 12
    """how often train is read."""
    checks_per_epoch: Annotated[int, Bounds(low=1, high=10000)] = 1
    """how often validation perplexity is measured in an epoch."""
    patience: Size | None = None
    """training stops after so many checks without improvement; None: never."""
    clip: NonNegative | None = 1.0
    """the largest norm of the gradient; None: no limit."""
    random_bptt: Annotated[bool, OfStream] = False
    """whether windows of a stream have random lengths about bptt; the rate of a step is in proportion (Merity et
    al. 2018)."""
    average: Literal["ema", "tail", "nt"] | None = None
    """the weights that are checked and kept. None: the last. ema: an exponential average of all steps. tail: the
    mean of all steps after some epochs (Polyak & Juditsky 1992). nt: the mean from the first check that is worse
    than the best of those more than average_after checks before it (NT-ASGD, Merity et al. 2018)."""
    average_decay: Annotated[BelowOne, Idle(("trainer.average", None, "tail", "nt"))] = 0.999
    """of the average of ema, from step to step."""
    average_after: Annotated[Count, Idle(("trainer.average", None, "ema"))] = 5
    """tail: epochs before the mean begins. nt: checks that valid has for getting better."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 is autocast; auto: bfloat16 where model and device are faster in it."""
    checkpoint_seconds: NonNegative = 120
    """``last.pt`` is written at every check, and when this time has passed since the last one."""
