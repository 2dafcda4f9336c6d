"""The options of each command that makes runs: of the whole run, and its groups.

Defaults are in ``configs/COMMAND.yaml``.
"""

from collections.abc import Sequence

from lmzoo.core.options import NonNegative, Options, Seed
from lmzoo.core.registry import Registry

commands = Registry("command")


class RunOptions(Options):
    seed: Seed
    """random seed: of initial weights and vectors, dropout, noise, the order of sentences."""
    device: str
    """auto, cpu, cuda, cuda:1, mps. auto: a GPU if there is one that the model can use."""
    run_dir: str
    """run folder; None: one under outputs, named by the text, the model, and options unlike the defaults. The run in an
    existing folder is resumed."""
    plugins: Sequence[str]
    """modules that register your own models, labellers or methods, such as [my.module]."""


@commands.register("train")
class TrainOptions(RunOptions):
    deterministic: bool
    """whether only deterministic algorithms are used, which are slower on a GPU."""
    corpus: dict
    model: dict
    optimizer: dict
    schedule: dict
    trainer: dict


class SteppedOptions(RunOptions):
    checkpoint_seconds: NonNegative
    """seconds between writes of ``last.pt``, which is also written at the end."""


@commands.register("vectors")
class VectorsOptions(SteppedOptions):
    corpus: dict
    method: dict


@commands.register("label")
class LabelOptions(SteppedOptions):
    task: dict
    labeller: dict
