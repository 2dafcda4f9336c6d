"""Format ``results.json`` of each kind of run as text."""

import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """Replace infinity, which JSON cannot represent, by None, also in dictionaries."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def perplexities(results: Mapping[str, Any], name: str = "perplexity") -> dict[str, float]:
    """The perplexity of valid and, if present, of test, with infinity restored from None."""
    return {split: math.inf if value is None else value for split, value in results[name].items()}


def word_vectors(results: Mapping[str, Any]) -> str:
    """Format the results of word vectors in a few lines."""
    loss = "" if results["loss"] is None else f", loss {results['loss']:.4f}"
    return (
        f"{results['method']} on {results['corpus']} (context {results['context']}): {results['words']:,} words, "
        f"{results['dimensions']} dimensions{loss}\n"
        f"{results['seconds']:.1f} s at {results['tokens_per_second']:,.0f} tokens/s, seed {results['seed']}"
    )


def labels(results: Mapping[str, Any]) -> str:
    """Format the results of a labeller in a few lines."""
    figures = {split: 100 * value for split, value in results["figures"].items()}
    split = next(reversed(figures), "")
    types = results["details"].get(split, {}).get("types", {})
    width = max(map(len, types), default=0)
    return "\n".join([
        f"{results['labeller']} on {results['task']}: {_each(figures, results['measure'], 2)}",
        *(
            f"{split} {kind:>{width}}: precision {100 * of['precision']:6.2f}, recall {100 * of['recall']:6.2f}, "
            f"f1 {100 * of['f1']:6.2f}, {of['found']:,} found"
            for kind, of in types.items()
            if kind
        ),
        f"{results['seconds']:.1f} s of training, {results['labelling_seconds']:.1f} s of labelling, "
        f"seed {results['seed']}",
    ])  # fmt: skip


def language_model(results: Mapping[str, Any]) -> str:
    """Format the results of a language model in a few lines."""
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
    if results.get("perplexity_per_word"):
        of_pieces = ", of one segmentation" * ("bits_per_character" not in results)
        per_word = _each(perplexities(results, "perplexity_per_word"), "perplexity", 2)
        lines.insert(1, f"per word{of_pieces}: {per_word}")
    if log_z := results.get("log_z"):
        errors = ", ".join(
            f"{split} ± {value:.2f}" for split, value in perplexities(results, "perplexity_error").items()
        )
        lines.append(
            f"log Z {log_z['value']:.4f} ± {log_z['error']:.4f} from {log_z['samples']:,.0f} samples, "
            f"{log_z['effective']:,.0f} of them effective; so perplexity is uncertain by {errors}"
        )
    for split, number in results.get("impossible_tokens", {}).items():
        lines.append(
            f"{number:,} of {results['tokens'][split]:,} {split} tokens have probability 0: try smoothing, "
            "or <unk> where they are unknown words"
        )
    for split, number in results.get("unlisted_tokens", {}).items():
        lines.append(
            f"{number:,} of {results['tokens'][split]:,} {split} tokens are of words that the model lacks and reads as "
            "<unk>: do not compare the perplexity with that of models that know them"
        )
    if true := results.get("true_perplexity"):
        lines.append(f"the text's own model: {_each(true, 'perplexity', 2)}")
    return "\n".join(lines)


def _each(figures: Mapping[str, float], what: str, digits: int) -> str:
    """Format the figure of each split."""
    return ", ".join(f"{split} {what} {value:.{digits}f}" for split, value in figures.items())
