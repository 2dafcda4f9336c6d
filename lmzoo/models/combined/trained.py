"""What models made of trained models share: how they take them over, and how a checkpoint keeps them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.protocol.model import LanguageModel, Trained, models


class CompositeModel(LanguageModel):
    """A model composed of trained models, which are in the checkpoint of its own run, with their options."""

    takes_steps = False
    components: Iterable[LanguageModel]
    of_sentences: bool = False
    """Whether the models may assign probabilities only to whole sentences."""

    def __init__(self, vocabulary_size: int):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.component_options: list[Mapping[str, Any]] = []
        self.components = nn.ModuleList()  # pyright: ignore[reportAttributeAccessIssue]

    def set_components(self, options: Sequence[Mapping[str, Any]], components: Iterable[LanguageModel]) -> None:
        """Set the models, which are not trained any further, and the ``options`` from which each is built."""
        device = self.device
        self.component_options = list(options)
        self.components = nn.ModuleList(components)  # pyright: ignore[reportAttributeAccessIssue]
        self.requires_grad_(False).to(device).train(self.training)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with ExitStack() as stack:
            for model in self.components:
                stack.enter_context(model.frozen())
            yield

    def unlisted(self) -> Tensor:
        """Those that one of the models, or several, do not have."""
        return torch.stack([super().unlisted(), *(model.unlisted() for model in self.components)]).any(0)

    def get_extra_state(self) -> list[Mapping[str, Any]]:
        """What a checkpoint has beside tensors: the options of the models, to build them again without their runs."""
        return self.component_options

    def set_extra_state(self, state: list[Mapping[str, Any]]) -> None:
        """Build the models of a checkpoint; PyTorch then loads their tensors."""
        self.set_components(state, [models.build(options, vocabulary_size=self.vocabulary_size) for options in state])

    def inherit(self, trained: Sequence[Trained]) -> None:
        for run in trained:
            if run.model.whole_sentences and not self.of_sentences:
                name = run.options["name"]
                raise UserError(f"{run.folder}: {name} assigns probabilities only to whole sentences",
                                "name a run that predicts words, or mix with model.per=sentence")  # fmt: skip
        self.set_components([run.options for run in trained], [run.model for run in trained])


class WrapperModel(CompositeModel):
    """A model around the model of one run."""

    def __init__(self, vocabulary_size: int, run: str | None):
        super().__init__(vocabulary_size)
        self.starts_from = "model.run", [] if run is None else [run]

    @property
    def inner(self) -> LanguageModel:
        """The model of the run; a UserError where none is named."""
        if not self.component_options:
            raise UserError("model.run=null: a trained run is needed", "set model.run=FOLDER")
        return next(iter(self.components))
