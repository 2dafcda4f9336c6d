"""Splitting: a model starts from a trained one with fewer states or features, each of which becomes several.

The new states are copies of the old one with a little noise. Petrov, Barrett, Thibaux and Klein, "Learning accurate,
compact, and interpretable tree annotation", ACL 2006, https://aclanthology.org/P06-1055.
"""

from typing import TYPE_CHECKING

import torch

from lmzoo.core.errors import UserError, plain
from lmzoo.protocol.model import Trained

if TYPE_CHECKING:
    from lmzoo.models.hmm.block_hmm import BlockHMM

SPLIT_NOISE = 0.1
"""Length of the noise that is added to the vectors of new states, relative to their length."""


@torch.no_grad()
def split(model: "BlockHMM", parent: Trained) -> None:
    """Take the clusters of words and all weights from the parent.

    Raises: UserError for a run of another model, and for options that are not as `same_as_parent` and
        `multiples_of_parent` say.
    """
    run, smaller = f"model.parent={parent.folder}", parent.model
    if type(smaller) is not type(model):
        raise UserError(
            f"{run}: is a run of model={parent.options['name']}", "choose a run of the model that is trained"
        )
    for option in model.same_as_parent:
        there, here = (plain(getattr(each.options, option)) for each in (smaller, model))
        if there != here:
            raise UserError(f"{run}: has model.{option}={there}, not {here}", "set it to the same")
    for option in model.multiples_of_parent:
        there, here = (getattr(each.options, option) for each in (smaller, model))
        if here % there:
            problem = f"{run}: its {there} {option} cannot be split into {here}"
            raise UserError(problem, f"set model.{option} to a multiple of {there}")
    weights = smaller.state_dict()
    for name, weight in model.state_dict().items():
        if weight.shape != weights[name].shape:
            rows = weights[name].repeat_interleave(len(weight) // len(weights[name]), 0)
            length = SPLIT_NOISE * rows.norm(dim=1, keepdim=True) / rows.shape[1] ** 0.5
            weights[name] = rows + length * torch.randn_like(rows)
    model.load_state_dict(weights)
