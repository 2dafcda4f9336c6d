"""Gradient descent over the windows of a text."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from lmzoo.core import ranks
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import SentenceWindows, StreamWindows, Window
from lmzoo.numerics.gpu_sync import DeferredChecks, defer_checks, own_copy, to_device_async
from lmzoo.protocol.condition import initial_state
from lmzoo.protocol.model import LanguageModel, State
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.optimization import Optimization
from lmzoo.training.progress import random_state, set_random_state

CAUTIOUS = 100
"""The number of steps without deferred checks after one has failed."""


class Descent:
    """Gradient descent of a language model: windows of the text, the state carried from each to the next, and steps.

    Args:
        optimizer, schedule: the options of these groups.
        seed: the seed for the order of sentences.

    Raises: UserError if an option is invalid.
    """

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        options: TrainerOptions,
        *,
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any],
        seed: int,
    ):
        self.model = model
        self.precision, self.clip = options.precision, options.clip
        train, rows = corpus.splits["train"], options.batch_size
        self.windows: StreamWindows | SentenceWindows
        if corpus.context == "sentence":
            self.windows = SentenceWindows(train, options.max_tokens, seed, corpus.conditions.get("train"))
        elif rows > len(train):
            problem = f"trainer.batch_size={rows}: train has only {len(train)} tokens"
            raise UserError(problem, "lower it, as each row needs one")
        elif rows < ranks.world_size():
            raise UserError(f"trainer.batch_size={rows}: each of {ranks.world_size()} ranks needs a row", "raise it")
        else:
            self.windows = StreamWindows(train, rows, options.bptt, seed if options.random_bptt else None)
        self.bptt = options.bptt if options.random_bptt and corpus.context == "stream" else None
        self.average_decay = options.average_decay if options.average == "ema" else None
        self.steps = len(self.windows) * options.epochs
        self.options = optimizer, schedule
        self.state: State = ()
        self.cautious = 0
        self.scored: LanguageModel | DistributedDataParallel = model
        self.begin()

    def begin(self) -> None:
        """Build optimizer and schedule; done again after estimation, which may resize parameters."""
        self.optimization = Optimization(
            [parameter for parameter in self.model.parameters() if parameter.requires_grad], *self.options,
            steps_per_epoch=len(self.windows), steps=self.steps, clip=self.clip, average_decay=self.average_decay,
        )  # fmt: skip

    def share(self) -> None:
        """Synchronize the weights of all ranks with rank 0, and average their gradients from now on."""
        if ranks.world_size() > 1:
            self.scored = DistributedDataParallel(self.model)

    def step(self, window: Window) -> dict[str, float]:
        """Score a window, update the parameters, and carry the state on. Ranks share the rows of the window.

        Returns: perplexity, learning rate and gradient norm, by TensorBoard tag.

        Raises: NotFinite, before any parameter has changed.
        """
        part = window.part(ranks.rank(), ranks.world_size())
        share = ranks.world_size() * part.count / window.count
        if not share:
            part = window.part(0, len(window.tokens))  # every rank must take every step
        tokens = to_device_async(part.tokens, self.model.device)
        if window.starts:
            self.state = initial_state(self.model, len(tokens), part.conditions)
        loss, length, norm, state = self._checked_gradient(part, tokens, share)
        # Merity et al. (2018), section 5.1: scale the rate by the random length of the window
        of_rate = (tokens.shape[1], self.bptt) if self.bptt else (1, 1)
        metrics = self.optimization.step(loss, norm, length, of_rate)
        # contiguous, as when restored from a checkpoint, since the layout determines the rounding of sums;
        # and a copy, since a view is saved with its whole base tensor
        self.state = tuple(own_copy(part) for part in state)
        return {"perplexity/train": math.exp(min(loss, 700)), **metrics}

    def _checked_gradient(self, part: Window, tokens: Tensor, share: float) -> tuple[float, float, Tensor, State]:
        """`_gradient` with loss and norm as floats. A step synchronizes with a GPU only here, also for deferred checks.

        If such a check fails, the gradient is computed again with the same random numbers, and `CAUTIOUS` steps check
        immediately. All ranks do the same.
        """
        trusts = tokens.is_cuda and not self.cautious
        self.cautious = max(0, self.cautious - 1)
        if trusts:
            trust = DeferredChecks(None if part.mask is None else to_device_async(part.mask.flatten(), tokens.device))
            random = random_state(tokens.device)
            with defer_checks(trust):
                loss, norm, state = self._gradient(part, tokens, share)
            doubts = torch.stack([torch.zeros_like(loss), *(~fact for fact in trust.facts)]).sum()
            *numbers, doubts = torch.stack([loss, norm, ranks.all_reduce(doubts)]).tolist()
            if not doubts:
                return *numbers, norm, state
            set_random_state(random, tokens.device)
            self.cautious = CAUTIOUS
        loss, norm, state = self._gradient(part, tokens, share)
        return *torch.stack([loss, norm]).tolist(), norm, state

    def _gradient(self, part: Window, tokens: Tensor, share: float) -> tuple[Tensor, Tensor, State]:
        """The loss of the window over all ranks, the norm of its gradient, and the state of this rank's rows."""
        with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=self.precision == "bfloat16"):
            logprobs, state = self.scored(tokens, self.state)
        if part.mask is not None:
            logprobs = part.unpadded(logprobs)
        own = -logprobs.mean() * share
        loss = ranks.all_reduce(own.detach() / ranks.world_size())
        return loss, self.optimization.backward(own + self.model.penalty()), state

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint; all ranks have to call it."""
        return {"state": self._whole_state(), **self.optimization.state_dict()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""
        self.state = tuple(part[ranks.rank() :: ranks.world_size()].to(self.model.device) for part in saved["state"])
        self.optimization.load_state_dict(saved)

    def _whole_state(self) -> State:
        """The state of all rows of the stream, gathered from the ranks."""
        if ranks.world_size() == 1:
            return self.state
        if isinstance(self.windows, SentenceWindows):
            return ()
        whole = []
        for parts in zip(*ranks.all_gather(tuple(part.cpu() for part in self.state)), strict=True):
            rows = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
            for number, part in enumerate(parts):
                rows[number :: len(parts)] = part
            whole.append(rows)
        return tuple(whole)
