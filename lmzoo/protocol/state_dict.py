"""How a model takes over the tensors of a checkpoint: in other sizes, in little memory."""

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
    """Name the tensors of a module whose sizes are known only after `estimate`: they take the size in a checkpoint.

    Every other tensor must have the saved size already. So a checkpoint of another vocabulary is refused.

    Args:
        constant: whether the tensors are never changed in place. Then those of the checkpoint itself are taken, so that
            a large table is in memory once.
    """

    def take_sizes(module: nn.Module, saved: Mapping[str, Any], prefix: str, *_: Any) -> None:
        for name in names:
            tensor = getattr(module, name)
            if isinstance(value := saved.get(prefix + name), Tensor) and value.ndim == tensor.ndim:
                same = constant and (value.dtype, value.device) == (tensor.dtype, tensor.device)
                tensor.data = value if same else tensor.new_empty(value.shape)

    module.register_load_state_dict_pre_hook(take_sizes)


def shaped(saved: Mapping[str, Tensor], name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of a checkpoint; a UserError for another shape, in which -1 stands for any size, or another dtype."""
    tensor = saved[name]
    fits = tensor.ndim == len(shape) and all(size in (-1, own) for size, own in zip(shape, tensor.shape, strict=True))
    if not fits or tensor.dtype != dtype:
        found, asked = (" x ".join(map(str, sizes)) or "one number" for sizes in (tensor.shape, shape))
        raise UserError(f"{name} has the shape {found} of {tensor.dtype}, not {asked} of {dtype}")
    return tensor


def require_kinds(module: nn.Module, saved: Mapping[str, Any]) -> None:
    """Raise a UserError for a tensor of a checkpoint whose numbers are of another kind, such as complex ones."""
    for name, tensor in module.state_dict().items():
        if isinstance(value := saved.get(name, tensor), Tensor) and _kind(value) != _kind(tensor):
            raise UserError(f"not this model's weights ({name}: {value.dtype} in place of {tensor.dtype})")


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    """What numbers it holds, in whatever size."""
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool


class _Unfilled(TorchFunctionMode):
    """A context in which tensors on ``meta`` are not filled: they have no numbers, and PyTorch imports a compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def without_numbers() -> Iterator[None]:
    """A context in which models are built on the device ``meta``: they have shapes, and take no memory."""
    with torch.device("meta"), _Unfilled(), warnings.catch_warnings(action="ignore"):  # that nothing is copied there
        yield


def restored(build: Callable[[], Built], load: Callable[[Built], object]) -> Built:
    """Build a model and load a checkpoint into it. Before that takes memory, they are compared on the device ``meta``.

    So a few options cannot ask for more numbers than the checkpoint has. A constructor of one's own that needs the
    numbers of its tensors does not work there; then it is compared once it is built.
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
