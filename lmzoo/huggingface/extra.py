"""The packages of the extra ``hf``."""

from typing import Any

from lmzoo.core.extras import import_optional


def imported(module: str) -> Any:
    """Import a module of transformers, tokenizers or safetensors; raise a UserError if its package is missing."""
    return import_optional(module, "Hugging Face", module.partition(".")[0], "'lmzoo-torch[hf]'")
