"""What the layers of a network are given and what they return, and whether dropout lies between two of them."""

import torch
from torch import Tensor, nn


def watched(model: nn.Module, *names: str) -> dict[str, tuple[Tensor, Tensor]]:
    """The first input and the first output of some layers, by name, in the last call of the model."""
    seen = {}

    def watch(name: str) -> None:
        def note(_, given, made) -> None:
            seen[name] = given[0], made if isinstance(made, Tensor) else made[0]

        model.get_submodule(name).register_forward_hook(note)

    for name in names:
        watch(name)
    return seen


def assert_dropped(before: Tensor, after: Tensor) -> None:
    """Some numbers are 0 afterwards and the others twice as large: dropout with a rate of 0.5."""
    lost = after == 0
    assert 0 < lost.sum() < lost.numel()
    torch.testing.assert_close(after, torch.where(lost, 0.0, 2 * before))
