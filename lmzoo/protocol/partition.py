"""Models of whole sentences, which are normalised by an estimate."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from lmzoo.corpus import EOS_ID


class LogZ(NamedTuple):
    """The estimate of a normaliser's logarithm.

    Attributes:
        value: in nats.
        error: its standard error.
        effective: the effective size of the sample.
        samples: the size of the sample.
    """

    value: float
    error: float
    effective: float
    samples: int


@runtime_checkable
class HasLogZ(Protocol):
    """p(x) = p*(x) / Z of a sentence x, with log Z estimated from samples."""

    @property
    def log_z(self) -> LogZ: ...


def uncertainty(model: HasLogZ, tokens: Tensor, perplexity: float) -> float:
    """The standard error that log Z gives the perplexity of a (N,) text: perplexity · error · sentences / N."""
    return perplexity * model.log_z.error * int((tokens == EOS_ID).sum()) / len(tokens)


def estimated(model: HasLogZ, texts: Mapping[str, Tensor], perplexity: Mapping[str, float]) -> dict[str, Any]:
    """What ``results.json`` holds of the estimate: log Z, and the standard error of each perplexity by its text."""
    errors = {name: uncertainty(model, texts[name], value) for name, value in perplexity.items()}
    finite = {name: error if math.isfinite(error) else None for name, error in errors.items()}
    return {"log_z": model.log_z._asdict(), "perplexity_error": finite}
