"""Loading of checkpoints into models of other sizes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


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
