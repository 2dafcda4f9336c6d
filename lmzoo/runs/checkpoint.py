"""Checkpoints of tensors and plain values, which are read without running code."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, out_of_memory
from lmzoo.core.files import input_stream

PLAIN = (dict, OrderedDict, Counter, list, tuple, set, torch.Size, str, bytes, bool, int, float, complex, NoneType,
         torch.dtype, torch.device)  # fmt: skip
"""The types allowed in a checkpoint besides tensors."""


def read_checkpoint(path: Path) -> Any:
    """Read a checkpoint of `torch.save` to the CPU, so that a GPU error is not mistaken for a damaged file.

    Returns: its contents; None if it is no checkpoint. `Run.restore` compares sums.

    Raises: UserError as `input_stream` does.
    """
    with input_stream(path):
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:  # the unpickler raises all kinds of exceptions
            if out_of_memory(error):
                raise
            return None


def require_plain(checkpoint: Mapping[str, Any]) -> None:
    """Raise a UserError for anything in a checkpoint that `read_checkpoint` would refuse."""
    for part in parts(checkpoint):
        if not (part.layout == torch.strided if isinstance(part, Tensor) else type(part) in PLAIN):
            kind = f"a tensor of layout {part.layout}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            raise UserError(
                f"a checkpoint cannot contain {kind}", "let state_dict return dense tensors and plain values"
            )


def write_checkpoint(checkpoint: Mapping[str, Any], stream: BinaryIO) -> None:
    """Write tensors, tuples and plain dictionaries as `read_checkpoint` reads them, without a copy in memory.

    Raises: OSError if the stream does.
    """
    try:
        torch.save(dict(checkpoint), stream)
    except RuntimeError as error:
        raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def parts(tree: Any) -> Iterator[Any]:
    """Iterate over all objects in nested dictionaries, lists, tuples and sets, the same way in every process."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set):
            waiting += sorted(part, key=repr) if isinstance(part, set) else part
        yield part


def checkpoint_sha256(checkpoint: Mapping[str, Any]) -> str:
    """The SHA-256 of all `parts` of a checkpoint, independent of the file format."""
    digest = hashlib.sha256()
    for part in parts(checkpoint):
        if isinstance(part, Tensor):
            digest.update(f"{part.dtype} {list(part.shape)}\0".encode())
            flat = part.detach().cpu().contiguous().reshape(-1)
            flat = flat.as_strided(flat.shape, (1,))  # a single element may have any stride, which `view` rejects
            digest.update(flat.view(torch.uint8).numpy().data)
        elif isinstance(part, Mapping | list | tuple | set):
            digest.update(f"{'pairs' if isinstance(part, Mapping) else 'items'} {len(part)}\0".encode())
        else:
            digest.update(f"{part!r}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
