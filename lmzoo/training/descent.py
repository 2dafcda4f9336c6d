"""Gradient descent over the windows of a text."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lmzoo.core import ranks
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import SentenceWindows, StreamWindows, Window
from lmzoo.numerics.averaging import Average
from lmzoo.protocol.condition import initial_state
from lmzoo.protocol.model import LanguageModel, State, number_kind, numbers_outside
from lmzoo.runs.checkpoint import same_form
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.options import TrainerOptions


class NotFinite(Exception):  # noqa: N818 - the trainer makes it a user's error
    """A loss or a gradient is infinite or no number. The weights are as they were before the step."""


class Descent:
    """The part of training that only a model with parameters needs: windows, optimizer, schedule, carried state.

    Args:
        optimizer, schedule: the options of the groups of these names.
        seed: of the order of sentences.

    Raises: UserError for a bad option.
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
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.precision = options.precision
        self.clip = math.inf if options.clip is None else options.clip
        self.windows = _windows(corpus, options, seed)
        self.bptt = options.bptt if options.random_bptt and corpus.context == "stream" else None
        self.average_decay = options.average_decay if options.average == "ema" else None
        self.steps = len(self.windows) * options.epochs
        self.options = optimizer, schedule
        self.state: State = ()
        self.scored: LanguageModel | DistributedDataParallel = model
        self.begin()

    def begin(self) -> None:
        """Build optimizer and schedule. After estimation this is done again, since it may resize parameters."""
        optimizer, schedule = self.options
        self.average = Average(self.parameters, self.average_decay)
        self.optimizer = optimizers.build(optimizer, parameters=self.parameters)
        self.schedule = schedules.build(
            schedule, optimizer=self.optimizer, steps_per_epoch=len(self.windows), steps=self.steps
        )

    def share(self) -> None:
        """Let all ranks begin with the weights of rank 0, and follow the mean of their gradients."""
        if ranks.world_size() > 1:
            self.scored = DistributedDataParallel(self.model)

    def step(self, window: Window) -> dict[str, float]:
        """Score a window, take a step down the gradient, and carry the state on. Ranks share the rows of the window.

        Returns: perplexity, learning rate and gradient norm, by their tags in TensorBoard.

        Raises: NotFinite, before any weight has changed.
        """
        device = self.model.device
        part = window.part(ranks.rank(), ranks.world_size())
        share = ranks.world_size() * part.count / window.count
        if not share:
            part = window.part(0, len(window.tokens))  # every rank takes every step
        tokens = part.tokens.to(device)
        if window.starts:
            self.state = initial_state(self.model, len(tokens), part.conditions)
        half = self.precision == "bfloat16"
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
            logprobs, state = self.scored(tokens, self.state)
        if part.mask is not None:
            logprobs = logprobs[part.mask.to(device)]
        own = -logprobs.mean() * share
        loss = ranks.all_reduce(own.detach() / ranks.world_size())
        _require_finite(loss, "the loss")
        self.optimizer.zero_grad(set_to_none=True)
        with ranks.waiting():
            (own + self.model.penalty()).backward()
        norm = get_total_norm([parameter.grad for parameter in self.parameters if parameter.grad is not None])
        _require_finite(norm, "the gradient")
        if norm > self.clip:
            clip_grads_with_norm_(self.parameters, self.clip, norm)
        rate = self.optimizer.param_groups[0]["lr"]
        with self._scaled_rates(tokens.shape[1]):
            self.optimizer.step()
        if not isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step()
        # contiguous, as it comes back from a checkpoint: the layout decides the order in which sums are rounded;
        # and a clone, as a view would be saved together with the tensor that it is a view of
        self.state = tuple(part.detach().clone(memory_format=torch.contiguous_format) for part in state)
        return {
            "perplexity/train": math.exp(min(float(loss), 700)),
            "train/learning_rate": rate,
            "train/gradient_norm": float(norm),
        }

    @contextmanager
    def _scaled_rates(self, length: int) -> Iterator[None]:
        """Rates in proportion to the length of a window where lengths are random: Merity et al. (2018), section 5.1."""
        groups = self.optimizer.param_groups if self.bptt else []
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * length / self.bptt
        try:
            yield
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate

    def note_validation(self, perplexity: float) -> None:
        """Let the schedule know of a check."""
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(perplexity)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it. All ranks have to call it."""
        return {
            "state": self._whole_state(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, saved: Mapping[str, Any], begun: bool) -> None:
        """Go on from `state_dict`.

        Args:
            begun: whether an epoch has begun, so that a stream needs the state.

        Raises: UserError where ``saved`` is not what such a descent has.
        """
        state, optimizer = saved["state"], saved.get("optimizer")
        if not self._is_state(state, begun):
            raise UserError("has no state of this model")
        kept = optimizer if isinstance(optimizer, dict) else {}
        options = _replaced(self.optimizer.state_dict()["param_groups"], kept.get("param_groups"))
        if options is None or not self._are_sums(kept.get("state")):
            raise UserError("has nothing of this optimizer")
        times = _replaced([self.schedule.state_dict()], [saved.get("schedule")])
        if times is None or not 0 <= times[0]["last_epoch"] <= self.steps:
            raise UserError("has nothing of this schedule")
        average = saved.get("average", {"steps": 0, "values": []})
        if not self._is_average(average):
            raise UserError("has no average of these weights")
        self.average.load_state_dict(average)
        self.state = tuple(part[ranks.rank() :: ranks.world_size()].to(self.model.device) for part in state)
        self.optimizer.load_state_dict({"state": kept["state"], "param_groups": options})
        self.schedule.load_state_dict(times[0])

    def _is_average(self, saved: Any) -> bool:
        """Whether it is one of these weights."""
        steps = saved.get("steps") if isinstance(saved, Mapping) else None
        example = {"steps": 0, "values": self.parameters if steps else []}
        return isinstance(steps, int) and steps >= 0 and same_form(saved, example)

    def _whole_state(self) -> State:
        """The state of all rows of a stream."""
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

    def _is_state(self, state: Any, begun: bool) -> bool:
        """Whether the next window of a stream can be read with a state, where it needs one."""
        if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
            return False
        if not begun or isinstance(self.windows, SentenceWindows):
            return True
        example = self.model.initial_state(len(self.windows.rows))
        if not same_form(state, example):
            return False
        for part, first in zip(state, example, strict=True):
            if part.numel() and number_kind(part) == "whole":  # words; or clusters, and the boundary is the last one
                last = int(first.max()) or self.model.vocabulary_size - 1
                if numbers_outside(part, last + 1):
                    return False
        return True

    def _are_sums(self, saved: Any) -> bool:
        """Whether these are what the optimizer keeps of the parameters, by their numbers."""
        options, _ = self.options
        parameter = torch.nn.Parameter(torch.zeros(2, 3))
        parameter.grad = torch.zeros(2, 3)
        optimizer = optimizers.build(options, parameters=[parameter])
        optimizer.step()
        example = optimizer.state[parameter]

        def fits(number: Any, sums: Any) -> bool:
            known = isinstance(sums, dict) and sums.keys() == example.keys() and number in range(len(self.parameters))
            if not known:
                return False
            own = self.parameters[number]
            return all(same_form(sums[name], own if part.ndim else part) for name, part in example.items())

        return isinstance(saved, dict) and all(fits(number, sums) for number, sums in saved.items())


def _replaced(own: list[dict[str, Any]], saved: Any) -> list[dict[str, Any]] | None:
    """Options with their saved values; None for values of another form.

    PyTorch's versions differ in their options, and devices in whether they fuse a step.
    """
    if not isinstance(saved, list) or len(saved) != len(own) or not all(isinstance(part, dict) for part in saved):
        return None
    common = [
        {name: old[name] for name in now if name in old and name != "fused"}
        for now, old in zip(own, saved, strict=True)
    ]
    fit = all(same_form(old[name], now[name]) for now, old in zip(own, common, strict=True) for name in old)
    return [now | old for now, old in zip(own, common, strict=True)] if fit else None


def _windows(corpus: Corpus, options: TrainerOptions, seed: int) -> StreamWindows | SentenceWindows:
    train = corpus.splits["train"]
    if corpus.context == "sentence":
        return SentenceWindows(train, options.max_tokens, seed, corpus.conditions.get("train"))
    if options.batch_size > len(train):
        raise UserError(
            f"trainer.batch_size={options.batch_size}: train has only {len(train)} tokens, and each row needs one"
        )
    if options.batch_size < ranks.world_size():
        raise UserError(
            f"trainer.batch_size={options.batch_size}: each of {ranks.world_size()} ranks needs a row", "raise it"
        )
    return StreamWindows(train, options.batch_size, options.bptt, seed if options.random_bptt else None)


def _require_finite(value: Tensor, what: str) -> None:
    if not bool(torch.isfinite(value)):
        raise NotFinite(f"{what} is {float(value.detach())}")
