"""State splitting: a large model starts from a small one, each of whose states becomes several.

The new states are copies of the old one with a little noise. Petrov, Barrett, Thibaux and Klein, "Learning accurate,
compact, and interpretable tree annotation", ACL 2006, https://aclanthology.org/P06-1055.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError, plain
from lmzoo.protocol.model import LanguageModel, Trained

SPLIT_NOISE = 0.1
"""Length of the noise that is added to the vectors of new states, relative to their length."""


def check_parent(parent: Trained, child: LanguageModel, same: Sequence[str], multiples: Sequence[str]) -> None:
    """Raise a UserError where the states of a trained model cannot be split into those of another.

    Args:
        same: options whose values must be the same in both models.
        multiples: options whose values in the child must be multiples of the parent's.
    """
    run = f"model.parent={parent.folder}"
    if type(parent.model) is not type(child):
        raise UserError(
            f"{run}: is a run of model={parent.options['name']}", "choose a run of the model that is trained"
        )
    for option in same:
        there, here = (plain(getattr(model, option)) for model in (parent.model, child))
        if there != here:
            raise UserError(f"{run}: has model.{option}={there}, not {here}", "set it to the same")
    for option in multiples:
        there, here = getattr(parent.model, option), getattr(child, option)
        if here % there:
            problem = f"{run}: its {there} {option} cannot be split into {here}"
            raise UserError(problem, f"set model.{option} to a multiple of {there}")


def split_rows(vectors: Tensor, rows: int) -> Tensor:
    """(N, d) vectors -> (rows, d): rows / N noisy copies of each vector, one after another."""
    copies = vectors.repeat_interleave(rows // len(vectors), 0)
    return copies + SPLIT_NOISE * copies.norm(dim=1, keepdim=True) / copies.shape[1] ** 0.5 * torch.randn_like(copies)


@torch.no_grad()
def split_states(parent: nn.Module, child: nn.Module) -> None:
    """Copy all weights of a model to a larger one of its class; tensors with more rows there go by `split_rows`."""
    weights = parent.state_dict()
    for name, weight in child.state_dict().items():
        if weight.shape != weights[name].shape:
            weights[name] = split_rows(weights[name], len(weight))
    child.load_state_dict(weights)
