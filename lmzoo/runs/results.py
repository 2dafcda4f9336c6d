"""The results of a run, checked and put in words. ``training/session.py`` measures and writes them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmzoo.core.options import call, schema


@dataclass(frozen=True, kw_only=True)
class _Results:
    """What ``results.json`` holds; later versions may add to it."""

    model: str
    corpus: str
    context: str
    parameters: int
    perplexity: dict[str, float | None]
    tokens: dict[str, int]
    seconds: float
    tokens_per_second: float
    device: str
    seed: int
    impossible_tokens: dict[str, int]
    true_perplexity: dict[str, float]
    precision: str
    train_perplexity: float | None
    best_epoch: float | None
    checks: list[dict[str, float]]


_OPTIONAL = {
    "impossible_tokens": {},
    "true_perplexity": {},
    "precision": "",
    "train_perplexity": None,
    "best_epoch": None,
    "checks": [],
}
"""What older results do not have, or only some."""


def checked(results: Any) -> dict[str, Any]:
    """What was read from ``results.json``, if it is what a run writes there.

    Raises: ValueError naming the first entry that is missing or of another type.
    """
    if not isinstance(results, dict):
        raise ValueError("no results of a run")
    entries = _OPTIONAL | results
    call(_Results, {name: entries[name] for name in schema(_Results) if name in entries}, "")
    for name in ("perplexity", "tokens"):
        if not {"valid", "test"} <= results[name].keys():
            raise ValueError(f"{name} of valid and test is missing")
    return results


def finite(number: float) -> float | None:
    """None for infinity, which JSON cannot hold."""
    return number if math.isfinite(number) else None


def perplexities(results: Mapping[str, Any]) -> dict[str, float]:
    """The perplexity of valid and of test, infinity where `finite` made it None."""
    return {split: math.inf if value is None else value for split, value in results["perplexity"].items()}


def summary(results: Mapping[str, Any]) -> str:
    """A finished run in a few lines."""
    perplexity = perplexities(results)
    device = " in ".join(results[name] for name in ("device", "precision") if name in results)
    parameters = f"{results['parameters']:,} parameters, " if results["parameters"] else ""
    lines = [
        f"{results['model']} on {results['corpus']} (context {results['context']}): "
        f"valid perplexity {perplexity['valid']:.2f}, test perplexity {perplexity['test']:.2f}",
        f"{parameters}{results['seconds']:.0f} s of training "
        f"at {results['tokens_per_second']:,.0f} tokens/s on {device}, seed {results['seed']}",
    ]
    for split, number in results.get("impossible_tokens", {}).items():
        lines.append(f"{number:,} of {results['tokens'][split]:,} {split} tokens have probability 0: try smoothing")
    if true := results.get("true_perplexity"):
        lines.append(f"the text's own model: valid perplexity {true['valid']:.2f}, test perplexity {true['test']:.2f}")
    return "\n".join(lines)
