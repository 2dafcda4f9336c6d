"""Loading of checkpoints into models, with other sizes, and in little memory."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lmzoo.core.errors import UserError

Built = TypeVar("Built")


def sized_by_estimate(module: nn.Module, *names: str, constant: bool = False) -> None:
    """Register tensors of a module whose sizes are known only after `estimate`: they take the sizes of a checkpoint.

    All other tensors must have the saved size. So a checkpoint of another vocabulary is rejected.

    Args:
        constant: whether the tensors are never changed in place. Then those of the checkpoint are used without a copy.
    """

    def take_sizes(module: nn.Module, saved: Mapping[str, Any], prefix: str, *_: Any) -> None:
        for name in names:
            tensor = getattr(module, name)
            if isinstance(value := saved.get(prefix + name), Tensor) and value.ndim == tensor.ndim:
                same = constant and (value.dtype, value.device) == (tensor.dtype, tensor.device)
                tensor.data = value if same else tensor.new_empty(value.shape)

    module.register_load_state_dict_pre_hook(take_sizes)


def shaped(saved: Mapping[str, Tensor], name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of a checkpoint; raise a UserError if its dtype or shape differs, where -1 stands for any size."""
    tensor = saved[name]
    fits = tensor.ndim == len(shape) and all(size in (-1, own) for size, own in zip(shape, tensor.shape, strict=True))
    if not fits or tensor.dtype != dtype:
        found, asked = (" x ".join(map(str, sizes)) or "one number" for sizes in (tensor.shape, shape))
        raise UserError(f"{name} has the shape {found} of {tensor.dtype}, not {asked} of {dtype}")
    return tensor


def require_kinds(module: nn.Module, saved: Mapping[str, Any]) -> None:
    """Raise a UserError if a tensor of a checkpoint has another kind of numbers, such as complex ones."""
    for name, tensor in module.state_dict().items():
        if isinstance(value := saved.get(name, tensor), Tensor) and _kind(value) != _kind(tensor):
            raise UserError(f"not this model's weights ({name}: {value.dtype} in place of {tensor.dtype})")


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    """Whether a tensor is floating-point, complex, or Boolean."""
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool


class _Unfilled(TorchFunctionMode):
    """A context without initialization of tensors on ``meta``, for which PyTorch would import a compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def without_numbers() -> Iterator[None]:
    """A context in which models are built on the device ``meta``: they have shapes, but take no memory."""
    with torch.device("meta"), _Unfilled(), warnings.catch_warnings(action="ignore"):  # of copies to meta
        yield


def restored(build: Callable[[], Built], load: Callable[[Built], object]) -> Built:
    """Build a model and load a checkpoint into it, after comparing shapes on the device ``meta``.

    So options cannot allocate more memory than the checkpoint needs. If a custom constructor needs the values of its
    tensors, which fails there, shapes are compared after construction.
    """
    with without_numbers():
        try:
            shapes = build()
        except RuntimeError:
            pass
        else:
            load(shapes)
    built = build()
    load(built)
    return built
