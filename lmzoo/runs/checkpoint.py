"""Files of tensors and plain values. Nothing in one can run code, or takes much more memory than the file."""

import hashlib
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, out_of_memory
from lmzoo.core.files import input_stream
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.state_dict import require_kinds

MOST_PARTS = 1 << 20
"""The most things and characters beside tensors; what is at several places counts at each."""


PLAIN = (dict, OrderedDict, Counter, list, tuple, set, torch.Size, str, bytes, bool, int, float, complex, NoneType,
         torch.dtype, torch.device)  # fmt: skip
"""What a checkpoint may hold beside tensors."""


class DamagedError(ValueError):
    """A file is no checkpoint, or not as it was written."""


def read_checkpoint(path: Path) -> Any:
    """What `torch.save` has written, on the CPU: so a GPU in trouble is not taken for a damaged file.

    Raises: UserError as `input_stream` does, DamagedError for a file that is damaged or no checkpoint. Numbers may
        still differ: `Run.restore` compares the checksum.
    """
    with input_stream(path) as stream:
        try:
            begin, entries = stream.read(4), zipfile.ZipFile(stream).infolist()
            if begin != b"PK\3\4" or sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise DamagedError  # PyTorch would inflate what it never writes compressed
            checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)  # never beyond the file
        except Exception as error:  # the unpickler fails in every way there is
            if isinstance(error, OSError) or out_of_memory(error):
                raise
            raise DamagedError from None
    if not all(_is_dense(part) for part in parts(checkpoint) if isinstance(part, Tensor)):
        raise DamagedError
    return checkpoint


def require_plain(checkpoint: Mapping[str, Any]) -> None:
    """Raise a UserError for anything in a checkpoint that `read_checkpoint` would refuse."""
    for part in parts(checkpoint):
        if not (_is_dense(part) if isinstance(part, Tensor) else type(part) in PLAIN):
            kind = f"a tensor of layout {part.layout}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            raise UserError(f"a checkpoint cannot hold {kind}", "let state_dict return dense tensors and plain values")


def write_checkpoint(checkpoint: Mapping[str, Any], stream: BinaryIO) -> None:
    """Write tensors, tuples and plain dictionaries as `read_checkpoint` reads them, without a copy in memory.

    Raises: OSError where the stream does.
    """
    try:
        torch.save(dict(checkpoint), stream)
    except RuntimeError as error:
        raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def parts(tree: Any) -> Iterator[Any]:
    """Everything in dictionaries, lists and tuples within each other.

    Raises: DamagedError where there is more of it than a checkpoint has: a few things that contain each other would
        fill the memory when they are compared or written out.
    """
    waiting, met = [tree], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set):
            waiting += part
        met += len(part) if isinstance(part, str | bytes) else 1
        if met + len(waiting) > MOST_PARTS:
            raise DamagedError
        yield part


def _is_dense(tensor: Tensor) -> bool:
    """Whether each of its numbers is in the file."""
    plain = tensor.layout == torch.strided and not tensor.is_quantized and tensor.device.type != "meta"
    return plain and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def checkpoint_sha256(checkpoint: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a checkpoint holds, however it is written; see `parts`."""
    digest = hashlib.sha256()
    for part in parts(checkpoint):
        if isinstance(part, Tensor):
            digest.update(f"{part.dtype} {list(part.shape)}\0".encode())
            flat = part.detach().cpu().contiguous().reshape(-1)
            flat = flat.as_strided(flat.shape, (1,))  # one number may have any stride, with which it has no bytes
            digest.update(flat.view(torch.uint8).numpy().data)
        elif isinstance(part, Mapping | list | tuple | set):
            digest.update(f"{'pairs' if isinstance(part, Mapping) else 'items'} {len(part)}\0".encode())
        else:
            digest.update(f"{part!r}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def require_numbers(saved: Mapping[str, Any]) -> None:
    """Raise a UserError for a tensor in which there is NaN."""
    for name, value in saved.items():
        if isinstance(value, Tensor) and bool(value.isnan().any()):
            raise UserError(f"weights of {name} are no numbers (NaN)")


def take_weights(model: LanguageModel, saved: Mapping[str, Any]) -> None:
    """Put the weights of a checkpoint into a model; a UserError where they are not weights of this model."""
    if model.device.type != "meta":  # else its shapes are compared, and this follows
        require_numbers(saved)
    require_kinds(model, saved)
    try:
        model.load_state_dict(saved)
    except RuntimeError as error:
        if out_of_memory(error) or not str(error).startswith("Error(s) in loading"):
            raise
        raise UserError(f"not this model's weights ({' '.join(str(error).split())[:200]})") from None
