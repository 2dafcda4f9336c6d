"""The results of each kind of run, checked and put in words."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, Probability, call, schema
from lmzoo.core.seals import SEAL, broken

Figure = Annotated[float, Bounds(low=0, high=sys.float_info.max)]


@dataclass(frozen=True, kw_only=True)
class _Results:
    """What ``results.json`` holds; later versions may add to it."""

    model: str
    corpus: str
    context: str
    parameters: int | None
    perplexity: dict[str, Figure | None]
    tokens: dict[str, int]
    seconds: Figure
    tokens_per_second: Figure
    device: str
    seed: int
    impossible_tokens: dict[str, int]
    true_perplexity: dict[str, Figure]
    precision: str
    train_perplexity: Figure | None
    best_epoch: Figure | None
    checks: list[dict[str, Figure]]
    bits_per_character: dict[str, Figure | None]
    perplexity_without_condition: dict[str, Figure | None]
    log_z: dict[str, float]
    perplexity_error: dict[str, Figure | None]
    warnings: list[str]


@dataclass(frozen=True, kw_only=True)
class _VectorResults:
    """What ``results.json`` of a run of word vectors holds."""

    method: str
    corpus: str
    context: str
    words: int
    dimensions: int
    loss: Annotated[float, Bounds(low=-sys.float_info.max, high=sys.float_info.max)] | None
    seconds: Figure
    tokens_per_second: Figure
    seed: int
    device: str
    warnings: list[str]


@dataclass(frozen=True, kw_only=True)
class _LabelResults:
    """What ``results.json`` of a run that labels words holds."""

    labeller: str
    task: str
    measure: str
    figures: dict[str, Probability]
    details: dict[str, dict]
    words: dict[str, int]
    seconds: Figure
    labelling_seconds: Figure
    seed: int
    device: str
    warnings: list[str]


_OPTIONAL = {
    "impossible_tokens": {},
    "true_perplexity": {},
    "precision": "",
    "train_perplexity": None,
    "best_epoch": None,
    "checks": [],
    "bits_per_character": {},
    "perplexity_without_condition": {},
    "log_z": {},
    "perplexity_error": {},
    "warnings": [],
}
"""What older results do not have, or only some."""


CHECK = {"epoch", "tokens", "seconds", "train", "valid"}
"""What is noted at every check of a descent."""


def require_curve(checks: Sequence[Mapping[str, float]]) -> None:
    """Raise a UserError unless each check has all of `CHECK`."""
    if not all(check.keys() >= CHECK for check in checks):
        raise UserError(f"checks: each must have {', '.join(sorted(CHECK))}")


def unsealed(results: Any) -> dict[str, Any]:
    """What was read from ``results.json``, without its checksum, which must be right.

    Raises: UserError for anything else.
    """
    if not isinstance(results, dict):
        raise UserError("damaged (no results of a run)")
    if broken(results):
        raise UserError("not as the run wrote it (its own checksum is another)")
    return {name: value for name, value in results.items() if name != SEAL}


def check_language_model(results: Mapping[str, Any]) -> None:
    """Raise a UserError unless these are the results of a language model."""
    entries = {**_OPTIONAL, **results}
    try:
        _check(_Results, entries)
        require_curve(entries["checks"])
    except UserError as error:
        raise UserError(f"damaged ({error})") from None
    for name in ("perplexity", "tokens", "true_perplexity"):
        if name in results and "valid" not in results[name]:
            raise UserError(f"damaged ({name} of valid is missing)")
    if not entries["impossible_tokens"].keys() <= results["tokens"].keys():
        raise UserError("damaged (impossible_tokens of another split than tokens)")


def check_vectors(results: Mapping[str, Any]) -> None:
    """Raise a UserError unless these are the results of word vectors."""
    _check(_VectorResults, {"warnings": [], "device": "cpu", **results})


def check_labels(results: Mapping[str, Any]) -> None:
    """Raise a UserError unless these are the results of a labeller."""
    _check(_LabelResults, {"warnings": [], "device": "cpu", **results})


def _check(form: type, results: Mapping[str, Any]) -> None:
    call(form, {name: results[name] for name in schema(form) if name in results}, "")


def finite(number: float) -> float | None:
    """None for infinity, which JSON cannot hold."""
    return number if math.isfinite(number) else None


def perplexities(results: Mapping[str, Any], name: str = "perplexity") -> dict[str, float]:
    """The perplexity of valid and, where there is one, of test; infinity where `finite` made it None."""
    return {split: math.inf if value is None else value for split, value in results[name].items()}


def losses(results: Mapping[str, Any]) -> dict[str, float]:
    """The last loss of word vectors, where their method has one."""
    return {} if results["loss"] is None else {"loss": results["loss"]}


def word_vectors(results: Mapping[str, Any]) -> str:
    """A finished run of word vectors in a few lines."""
    loss = "" if results["loss"] is None else f", loss {results['loss']:.4f}"
    return (
        f"{results['method']} on {results['corpus']} (context {results['context']}): {results['words']:,} words, "
        f"{results['dimensions']} dimensions{loss}\n"
        f"{results['seconds']:.1f} s at {results['tokens_per_second']:,.0f} tokens/s, seed {results['seed']}"
    )


def labels(results: Mapping[str, Any]) -> str:
    """A finished run of a labeller in a few lines."""
    figures = {split: 100 * value for split, value in results["figures"].items()}
    return (
        f"{results['labeller']} on {results['task']}: {_each(figures, results['measure'], 2)}\n"
        f"{results['seconds']:.1f} s of training, {results['labelling_seconds']:.1f} s of labelling, "
        f"seed {results['seed']}"
    )


def language_model(results: Mapping[str, Any]) -> str:
    """A finished run of a language model in a few lines."""
    perplexity = perplexities(results)
    device = " in ".join(results[name] for name in ("device", "precision") if name in results)
    parameters = f"{results['parameters']:,} parameters, " if results["parameters"] else ""
    lines = [
        f"{results['model']} on {results['corpus']} (context {results['context']}): "
        + _each(perplexity, "perplexity", 2),
        f"{parameters}{results['seconds']:.0f} s of training "
        f"at {results['tokens_per_second']:,.0f} tokens/s on {device}, seed {results['seed']}",
    ]
    if results.get("perplexity_without_condition"):
        without = perplexities(results, "perplexity_without_condition")
        lines.insert(1, f"without the labels of the lines: {_each(without, 'perplexity', 2)}")
    if results.get("bits_per_character"):
        bits = {split: math.log2(value) for split, value in perplexity.items()}
        lines.insert(1, _each(bits, "bits per character", 4))
    if log_z := results.get("log_z"):
        errors = ", ".join(
            f"{split} ± {value:.2f}" for split, value in perplexities(results, "perplexity_error").items()
        )
        lines.append(
            f"log Z {log_z['value']:.4f} ± {log_z['error']:.4f} from {log_z['samples']:,.0f} samples, "
            f"{log_z['effective']:,.0f} of them effective; so perplexity is uncertain by {errors}"
        )
    for split, number in results.get("impossible_tokens", {}).items():
        told = f"{number:,} of {results['tokens'][split]:,} {split} tokens have probability 0"
        lines.append(f"{told}: try smoothing, or <unk> where they are unknown words")
    if true := results.get("true_perplexity"):
        lines.append(f"the text's own model: {_each(true, 'perplexity', 2)}")
    return "\n".join(lines)


def _each(figures: Mapping[str, float], what: str, digits: int) -> str:
    """A figure of each split."""
    return ", ".join(f"{split} {what} {value:.{digits}f}" for split, value in figures.items())
