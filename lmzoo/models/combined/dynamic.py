"""Dynamic evaluation: a trained model goes on learning from the text that it has scored.

Krause, Kahembwe, Murray & Renals, "Dynamic evaluation of neural sequence models", ICML 2018,
https://arxiv.org/abs/1709.07432.
"""

from typing import Annotated, Any

import torch
from torch import Tensor
from torch.func import functional_call

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, NonNegative, Options, Probability, Size, Source, configured
from lmzoo.core.progress import tracked
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import StreamWindows
from lmzoo.models.combined.trained import WrapperModel
from lmzoo.numerics.gpu_sync import to_device_async
from lmzoo.protocol.model import LanguageModel, State, models
from lmzoo.protocol.state_dict import sized_by_estimate

WINDOW = 100
"""Tokens scored at once, or n if that is more. A window in which a step is taken copies the weights for each row."""
ROWS = 100
"""Rows of train in a segment of which the mean squares of gradients are measured."""


class DynamicOptions(Options):
    run: Source | None = None
    """folder of a trained run, whose model is loaded when training starts. It must have weights."""
    rate: NonNegative = 0.0001
    """η, the learning rate."""
    decay: Probability = 0.005
    """λ, the decay towards the trained weights per step, of a weight whose root mean square is the mean of all, and
    proportionally of others, at most 1."""
    segment: Size = 20
    """n, the number of tokens per step. Fewer may be better, with a smaller `rate` and a larger `epsilon`, and take
    longer."""
    epsilon: Annotated[float, Bounds(low=1e-12, high=1e30)] = 0.00001
    """ε, which is added to the root mean squares. It limits the steps for words that are rare in train. A larger rate
    needs more, such as 0.00005 for 0.0004."""


@models.register("dynamic")
class Dynamic(WrapperModel):
    """Dynamic evaluation: the weights w of a trained model are updated after every segment of n tokens is scored,

        w ← w − η g / (r + ε) + min(1, λ r / r̄) (w_0 − w).

    g is the gradient of the segment's mean −log p, and r² the mean of its squares over train, with r̄ the mean of r.
    The gradient goes back to the start of the segment. w_0 are the trained weights, from which every state starts;
    with corpus.context=sentence, every line. Krause et al. (2018), equations 3 to 6; as in their program, r is of the
    gradients of segments of 100 rows.

    The state is the (B, n − 1) tokens scored since the last step, -1 where there is none, the (B, P) weights, and then
    the state of the model where the segment began. While it is `frozen`, its inner model is not: the weights change.
    """

    frozen = LanguageModel.frozen

    @configured(DynamicOptions)
    def __init__(self, vocabulary_size: int, options: DynamicOptions):
        super().__init__(vocabulary_size, options.run)
        self.rate, self.decay = options.rate, options.decay
        self.segment, self.epsilon = options.segment, options.epsilon
        self.rms = torch.nn.Buffer(torch.empty(0))
        """(P,) r, and none before `estimate`."""
        sized_by_estimate(self, "rms")

    def estimate(self, corpus: Corpus) -> None:
        inner, name = self.inner, self.component_options[0]["name"]
        if not list(inner.parameters()):
            raise UserError(f"model.run: {name} has no trainable weights", "choose another run")
        if any(isinstance(part, Dynamic) for part in inner.modules()):
            raise UserError(f"model.run: {name} learns from the text already", "choose a run without dynamic")
        text = corpus.splits["train"]
        windows = StreamWindows(text, min(ROWS, len(text)), self.segment)
        weights = self._trained()
        sums = torch.zeros_like(weights)
        state = inner.eval().initial_state(len(windows.rows))
        for segment in tracked(windows.epoch(0), len(windows), "segment", "gradients"):
            named = self._named(weights)
            with torch.enable_grad():
                logprobs, state = _call(inner, named, to_device_async(segment.tokens, self.device), state)
            for part, gradient in zip(self._split(sums), _gradients(logprobs, named), strict=True):
                part.add_(gradient.square())
            state = tuple(part.detach() for part in state)
        self.rms = (sums / len(windows)).sqrt()  # over the segments of train

    def initial_state(self, batch_size: int) -> State:
        pending = torch.full((batch_size, self.segment - 1), -1, device=self.device)
        return pending, self.current_tables()[0].expand(batch_size, -1), *self.inner.initial_state(batch_size)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        pending, weights, *start = state
        if not len(tokens):
            return weights.new_zeros(tokens.shape), state
        if bool(((pending >= 0).sum(1) + tokens.shape[1] >= self.segment).any()):
            weights = weights.clone()  # for the steps to come
        rows = [
            self._row_(tokens[row], pending[row], weights[row], tuple(part[row : row + 1] for part in start))
            for row in range(len(tokens))
        ]
        logprobs, pending, states = zip(*rows, strict=True)
        start = [torch.cat(parts) for parts in zip(*states, strict=True)]
        return torch.stack(logprobs), (torch.stack(pending), weights, *start)

    def _row_(self, tokens: Tensor, pending: Tensor, weights: Tensor, start: State) -> tuple[Tensor, Tensor, State]:
        """The (T,) scores of a row, the tokens pending after it, and the model's state; changes its (P,) weights."""
        pending, scores = pending[pending >= 0], []
        while len(tokens):
            part, tokens = tokens.tensor_split([self.segment - len(pending)])
            read = torch.cat([pending, part])
            named = self._named(weights)
            with torch.enable_grad():
                logprobs, after = _call(self.inner, named, read[None], start)
            scores.append(_checked(logprobs[0, -len(part) :].detach()))
            if len(read) == self.segment:
                parts = zip(*map(self._split, (weights, *self.current_tables())), strict=True)
                for (w, trained, back, divisor), gradient in zip(parts, _gradients(logprobs, named), strict=True):
                    w.lerp_(trained, back).addcdiv_(gradient, divisor, value=-self.rate)
                start, read = tuple(part.detach() for part in after), read[:0]
            pending = read
        kept = torch.nn.functional.pad(pending, (0, self.segment - 1 - len(pending)), value=-1)
        return torch.cat(scores), kept, start

    def predict(self, state: State) -> Tensor:
        predictions = []
        for row in range(len(state[0])):
            pending, weights, *start = (part[row : row + 1] for part in state)
            named, read, now = self._named(weights[0]), pending[pending >= 0][None], tuple(start)
            with torch.no_grad():
                if read.numel():
                    _, now = _call(self.inner, named, read, now)
                below = {f"model.{name}": weight for name, weight in named.items()}
                predictions.append(_checked(_call(_Predicting(self.inner), below, now)))
        return torch.cat(predictions) if predictions else state[1].new_zeros(0, self.vocabulary_size)

    def _trained(self) -> Tensor:
        """(P,) w_0, one parameter after another, not all of which are contiguous."""
        return torch.cat([parameter.detach().flatten() for parameter in self.inner.parameters()])

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """(P,) w_0, the part of the way back to it, (P,), and (P,) r + ε."""
        back = (self.decay * self.rms / self.rms.mean()).clamp(max=1)
        return self._trained(), back, self.rms + self.epsilon

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        """(P,) weights as the parameters of the model, ready for a gradient."""
        names = [name for name, _ in self.inner.named_parameters()]
        return {name: part.detach().requires_grad_() for name, part in zip(names, self._split(weights), strict=True)}

    def _split(self, weights: Tensor) -> list[Tensor]:
        """(P,) numbers in the shapes of the model's parameters."""
        parameters = list(self.inner.parameters())
        parts = weights.split([parameter.numel() for parameter in parameters])
        return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]

    @property
    def window_tokens(self) -> int:
        return max(WINDOW, self.segment)


class _Predicting(torch.nn.Module):
    """``predict`` as a call, which `functional_call` makes."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, state: State) -> Tensor:
        return self.model.predict(state)  # pyright: ignore[reportCallIssue]


@torch.enable_grad()
def _gradients(logprobs: Tensor, named: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """The gradient of the mean −log p with respect to each parameter."""
    return torch.autograd.grad(-logprobs.mean(), list(named.values()), allow_unused=True, materialize_grads=True)


def _call(module: torch.nn.Module, named: dict[str, Tensor], *arguments: Tensor | State) -> Any:
    """Call a module with other weights; without cuDNN, whose recurrent networks have a gradient in training alone."""
    with torch.backends.cudnn.flags(enabled=False):
        return functional_call(module, named, arguments)


def _checked(logprobs: Tensor) -> Tensor:
    """The same log-probabilities; a UserError where one is not a number."""
    if bool(logprobs.isnan().any()):
        raise UserError("model=dynamic: steps are so large that a probability is not a number any more",
                        "set a smaller model.rate, or a larger model.epsilon")  # fmt: skip
    return logprobs
