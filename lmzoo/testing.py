"""The rules of the protocol, checked on one model: `check_model` for pytest, and ``lmzoo check model=NAME``.

A rule is a function in `RULES`. Its docstring is what a model promises.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, error_location
from lmzoo.corpus import EOS_ID, Corpus, load_corpus
from lmzoo.protocol.model import LanguageModel, State, num_parameters
from lmzoo.protocol.perplexity import check_predictions, largest_difference
from lmzoo.runs.loading import load_sources

ROWS, COLUMNS = 3, 20
"""The batch of valid on which a model is checked."""

FIRST_WORDS, DRAWN = 1000, 6
"""After so many words of the vocabulary, up to so many words in all are drawn from a model that forgets at `<eos>`."""


class Subject(NamedTuple):
    """A model under test."""

    model: LanguageModel
    """Estimated, in evaluation mode, on the CPU."""
    tokens: Tensor
    """(`ROWS`, `COLUMNS`) of a text."""
    build: Callable[[], LanguageModel]
    """Makes a new model of the same options."""

    def scores(self, tokens: Tensor | None = None, state: State | None = None) -> Tensor:
        """(B, T) log p of tokens; where nothing is given, of all from the beginning."""
        tokens = self.tokens if tokens is None else tokens
        return self.model(tokens, self.model.initial_state(len(tokens)) if state is None else state)[0]


class Outcome(NamedTuple):
    """What has become of a rule. It is kept where both reasons are None."""

    rule: str
    broken: str | None
    """What was found, and what to do; one line."""
    left_out: str | None
    """Why it does not apply to the model."""


Rule = Callable[[Subject], str | None]
"""Raises a `UserError` where the rule is broken, or returns why the rule does not apply."""


def check_model(build: Callable[..., LanguageModel], corpus: Corpus | None = None) -> None:
    """Check every rule of the protocol on a new model, as scikit-learn's ``check_estimator`` does on an estimator.

    Args:
        build: makes the model from ``vocabulary_size``, such as ``partial(Mine, hidden=8)``.
        corpus: the model is estimated on it; None: the language reference of the running Python.

    Raises: AssertionError with a line for each broken rule.
    """
    corpus = corpus or load_corpus({"name": "pydoc", "context": "stream", "vocabulary": None})
    size = len(corpus.vocabulary)
    found = outcomes(subject(lambda: build(vocabulary_size=size), corpus))
    if broken := [f"{outcome.rule}: {outcome.broken}" for outcome in found if outcome.broken]:
        raise AssertionError("\n".join(broken))


def subject(build: Callable[[], LanguageModel], corpus: Corpus, seed: int = 0) -> Subject:
    """A new model, estimated on train.

    Raises: UserError where the corpus has no valid, or a short one; and what the model raises.
    """
    valid = corpus.splits["valid"][: ROWS * COLUMNS].long()
    if len(valid) < ROWS * COLUMNS:
        raise UserError(f"valid of {corpus.name} has {len(valid)} tokens", f"take one of {ROWS * COLUMNS} or more")
    torch.manual_seed(seed)
    model = build()
    load_sources(model, corpus)
    model.estimate(corpus)
    return Subject(model.eval(), valid.view(ROWS, COLUMNS), build)


@torch.no_grad()
def outcomes(subject: Subject) -> Iterator[Outcome]:
    """Each rule in turn. An error of the model's own breaks the rule, too."""
    for rule in RULES.values():
        broken = left_out = None
        try:
            left_out = rule(subject)
        except UserError as error:
            broken = str(error)
        except Exception as error:
            broken = f"{' '.join(error_location(error).split())}; fix the code that raises this"
        yield Outcome(str(rule.__doc__), broken, left_out)


def log_probabilities(subject: Subject) -> None:
    """forward gives each token a log p of at most 0"""
    if not (highest := float(subject.scores().max())) <= 1e-6:  # or no number
        found = f"the highest is {highest:.3g}"
        raise UserError(found, "return logarithms of probabilities, such as log_softmax gives")


def states(subject: Subject) -> None:
    """initial_state takes any batch size, and a state is a tuple of tensors with the batch first"""
    for rows in (0, 1, ROWS):
        begun = subject.model.initial_state(rows)
        after = subject.model(subject.tokens[:rows], begun)[1] if rows else begun
        for where, state in (("initial_state", begun), ("forward", after)):
            if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
                raise UserError(f"{where} returns a {type(state).__name__}", "return (tensor, …), or ()")
            if wrong := [tuple(part.shape) for part in state if part.shape[:1] != (rows,)]:
                raise UserError(f"{where} has a tensor of {wrong[0]} for {rows} rows", "put the batch first")


def predictions(subject: Subject) -> str | None:
    """predict gives the next word a distribution over all words, (B, V), in which it has forward's log p, (B, T)"""
    model, V = subject.model, subject.model.vocabulary_size
    if model.whole_sentences:
        try:
            model.predict(model.initial_state(1))
        except UserError:
            return WHOLE
        raise UserError("predicts, though it has whole_sentences", "raise a UserError in predict")
    if (shape := tuple(model.predict(model.initial_state(0)).shape)) != (0, V):
        raise UserError(f"shape {shape} for no rows", f"return (B, {V}) also where B is 0")
    check_predictions(model, subject.tokens, 1e-4)
    return None


def steps(subject: Subject) -> str | None:
    """begin_step and end_step do what predict and forward do, also for some of the rows"""
    if subject.model.whole_sentences:
        return WHOLE
    model = subject.model
    state = halves = model.initial_state(ROWS)
    advice = "leave both to LanguageModel, or let them do what predict and forward do"
    for tokens in subject.tokens.split(1, dim=1):
        logprobs, begun = model.begin_step(halves)
        _same(logprobs, model.predict(state), "begin_step and predict", advice)
        halves = model.end_step(tokens[:, 0], begun)
        whole = model(tokens, state)[1]
        if [part.shape for part in halves] != [part.shape for part in whole]:
            raise UserError("end_step and forward return states of different shapes", advice)
        rows = torch.tensor([2, 0])
        chosen = model.end_step(tokens[rows, 0], tuple(part[rows] for part in begun))
        expected = model.predict(tuple(part[rows] for part in whole))
        _same(model.predict(chosen), expected, "end_step of two rows and forward", advice)
        state = whole
    return None


def pieces(subject: Subject) -> None:
    """a text has the same log p wherever it is cut into windows"""
    state, parts = subject.model.initial_state(ROWS), []
    for window in subject.tokens.split([1, 7, 2, 10], dim=1):
        scores, state = subject.model(window, state)
        parts.append(scores)
    advice = "return in the state all that later tokens depend on"
    _same(torch.cat(parts, 1), subject.scores(), "in pieces and whole, scores", advice, 1e-4)


def rows(subject: Subject) -> None:
    """a row of a batch has the log p that it has alone"""
    together, alone = subject.scores(), [subject.scores(row[None]) for row in subject.tokens]
    _same(torch.cat(alone), together, "alone and in a batch, scores", "compute nothing over the batch", 1e-4)


def future(subject: Subject) -> None:
    """the log p of a token depends on no later token"""
    kept, tokens = 12, subject.tokens
    others = (tokens[:, kept:].flip(1) + 1) % subject.model.vocabulary_size
    changed = torch.cat([tokens[:, :kept], others], 1)
    advice = "let a position read only the tokens before it"
    _same(subject.scores(changed)[:, :kept], subject.scores()[:, :kept], "before other words, scores", advice)


def repetition(subject: Subject) -> None:
    """a text has the same log p each time, and a state can be gone on from twice"""
    state = subject.model(subject.tokens, subject.model.initial_state(ROWS))[1]
    first = subject.scores(state=state)
    advice = "change no argument in place, store nothing between calls, and use dropout only in training"
    _same(subject.scores(state=state), first, "a second time, scores", advice, 0)


def forgetting(subject: Subject) -> str | None:
    """with forgets_at_eos, the state after `<eos>` predicts as initial_state does"""
    if not subject.model.forgets_at_eos:
        return "remembers across `<eos>`"
    model, random = subject.model, torch.Generator().manual_seed(0)
    closed = torch.cat([subject.tokens, torch.full((ROWS, 1), EOS_ID)], 1)
    state = model(closed, model.initial_state(ROWS))[1]
    advice = "begin anew after `<eos>`, or leave forgets_at_eos False"
    _same(subject.scores(state=state), subject.scores(), "after `<eos>` and at the beginning, scores", advice)
    if model.whole_sentences:
        return None
    # The model's own n-grams are the likeliest to have parameters of their own before `<eos>`.
    for words in torch.arange(min(model.vocabulary_size, FIRST_WORDS))[:, None].split(100):
        state, closing = model.initial_state(len(words)), torch.full_like(words, EOS_ID)
        begun = model.predict(state)
        for _ in range(DRAWN):
            state = model(words, state)[1]
            after = model.predict(model(closing, state)[1])
            _same(after, begun, "after drawn words and `<eos>`, and at the beginning, predictions", advice)
            words = model.predict(state).exp().multinomial(1, generator=random)
    return None


def frozen(subject: Subject) -> None:
    """within frozen() a text has the log p that it has outside"""
    with subject.model.frozen():
        inside = subject.scores()
    _same(inside, subject.scores(), "within and outside, scores", "derive tables from the present parameters")


def wrong_input(subject: Subject) -> None:
    """tokens that are no (B, T) numbers of words, and a state of other rows, are a ValueError"""
    V, one = subject.model.vocabulary_size, torch.tensor([[0, 1]])
    wrong = {"one dimension": (one[0], 2), "floats": (one.float(), 1), "no columns": (one[:, :0], 1),
             "a number below 0": (one - 1, 1), "the number V": (one + V - 1, 1)}  # fmt: skip
    if subject.model.initial_state(1):
        wrong["more rows than the state"] = (subject.tokens, 1)
    for what, (tokens, rows) in wrong.items():
        try:
            subject.model(tokens, subject.model.initial_state(rows))
        except ValueError:
            continue
        raise UserError(f"takes tokens of {what}", "call super().__init__(), which has them checked")


def size(subject: Subject) -> None:
    """parameters, and the tables that `estimated_tensors` names, are what it has learnt"""
    if num_parameters(subject.model) is None:
        raise UserError("there are none", "name in `estimated_tensors` the tensors that estimate fills")


def saving(subject: Subject) -> None:
    """a new model that loads the saved state_dict has the same log p"""
    buffer = io.BytesIO()
    torch.save(subject.model.state_dict(), buffer)
    buffer.seek(0)
    fresh = subject._replace(model=subject.build().eval())
    fresh.model.load_state_dict(torch.load(buffer, weights_only=True))
    advice = "register all that estimate sets, as a parameter or a buffer"
    _same(fresh.scores(), subject.scores(), "loaded and saved, scores", advice, 0)


@torch.enable_grad()
def gradients(subject: Subject) -> str | None:
    """every parameter has a gradient, which is finite and not 0"""
    model = subject.model
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if not parameters:
        return "has no parameters"
    model.train()
    try:
        (-subject.scores().mean() + model.penalty()).backward()
        for name, value in parameters.items():
            if value.grad is None or not value.grad.any():
                raise UserError(f"{name} has none", "let forward use it without detach(), or make it a buffer")
            if not value.grad.isfinite().all():
                raise UserError(f"that of {name} is not finite", "take no logarithm and no root of 0")
    finally:
        model.eval()
        model.zero_grad()
    return None


WHOLE = "is a model of whole sentences"
RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (log_probabilities, states, predictions, steps, pieces, rows, future, repetition, forgetting, frozen,
                 wrong_input, size, saving, gradients)
}  # fmt: skip


def _same(found: Tensor, expected: Tensor, what: str, advice: str, atol: float = 1e-5) -> None:
    """Raise a `UserError` where log-probabilities differ by more than ``atol`` nats."""
    if found.shape != expected.shape:
        raise UserError(f"{what} have shapes {tuple(found.shape)} and {tuple(expected.shape)}", advice)
    if not torch.allclose(found, expected, atol=atol, rtol=0):
        raise UserError(f"{what} differ by up to {largest_difference(found, expected):.3g} nats", advice)
