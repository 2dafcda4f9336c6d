"""What the tests of the HMMs compare them with: sums over plain tables, and properties that every HMM has.

Nothing here calls the inference that it checks. Tables are log p(z_1) (Z,), log p(z′ | z) (Z, Z) and log p(x | z)
(Z, V), in nats.
"""

import itertools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel

V = 8
"""Words."""
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draws from N(0, 1), the same for the same shape and seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def words(*shape: int) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(1))


def strings() -> Tensor:
    """(V³, 3) all strings of three words."""
    return torch.tensor(list(itertools.product(range(V), repeat=3)))


def all_paths(
    start: Tensor, transition: Tensor, emission: Tensor, text: Sequence[int]
) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every path z of states for a text of T words, Z^T in all, and the log p(z, x) of each."""
    paths = list(itertools.product(range(len(start)), repeat=len(text)))
    z = torch.tensor(paths)
    return paths, start[z[:, 0]] + transition[z[:, :-1], z[:, 1:]].sum(1) + emission[z, torch.tensor(text)].sum(1)


def recursion(prior: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion in log space from the (Z,) or (B, Z) log p(z_1 | past).

    Returns: (B, T) log p(x_t | x_<t) and the (B, Z) log-belief after the last token.
    """
    logprobs, belief = [], prior
    for t, word in enumerate(tokens.T):
        score = (prior if t == 0 else lse(belief[:, :, None] + transition, 1)) + emission.T[word]
        logprobs.append(lse(score, 1))
        belief = score - logprobs[-1][:, None]
    return torch.stack(logprobs, 1), belief


def residual(module, x: Tensor) -> Tensor:
    """Res(x) of Chiu & Rush (2020), or two after one another."""
    if isinstance(module, nn.Sequential):
        return residual(module[1], residual(module[0], x))
    h = F.relu(x @ module.inner.weight.T + module.inner.bias)
    y = F.relu(h @ module.outer.weight.T + module.outer.bias) + h
    centred = y - y.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * module.norm.weight + module.norm.bias


def lse(scores: Tensor, dim: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where every score is -inf."""
    return scores.clamp_min(-1e300).logsumexp(dim)


def gradients(outputs, upstream, inputs) -> tuple[Tensor, ...]:
    """The gradients of Σ output · upstream, 0 for inputs that have no part in it."""
    total = sum((o * g).sum() for o, g in zip(outputs, upstream, strict=True))
    return torch.autograd.grad(total, inputs, materialize_grads=True)


def gradient(model: nn.Module, loss: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(model.parameters()))


def assert_same_gradients(ours, theirs, upstream, inputs) -> None:
    """Two lists of functions of the same inputs have the same values and the same gradients."""
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)
    slopes = gradients(ours, upstream, inputs), gradients(theirs, upstream, inputs)
    for mine, expected in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)


def assert_exact_in_single_precision(ours, theirs, inputs: Sequence[Tensor], upstream: Tensor, scale: float) -> None:
    """Two functions agree, ours of float32 with theirs of the same numbers in float64, and so do their gradients.

    Log-probabilities of the size of ``scale`` have an absolute error of some scale / 2^24 in float32. Gradients are
    sums of shares of 0 to 1, nearly all 0 or 1 where the scale is large.
    """
    results = []
    for function, dtype in ((ours, torch.float32), (theirs, torch.float64)):
        given = [x.to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs]
        logprobs, belief = function(*given)
        leaves = [x for x in given if x.requires_grad]
        results.append((logprobs, belief, *gradients([logprobs], [upstream.to(dtype)], leaves)))
    for place, (mine, expected) in enumerate(zip(*results, strict=True)):
        atol = max(1e-5, 1e-6 * scale) if place < 2 else 1e-4
        torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=atol)


def assert_same_with_gradients(model: nn.Module, logprobs: Tensor, expected: Tensor, weights: Tensor) -> None:
    assert_same_gradients([logprobs], [expected], [weights], list(model.parameters()))


def assert_likelihood_is_a_sum_over_all_paths(model: HiddenMarkovModel, tables: Sequence[Tensor]) -> None:
    tokens = words(2, 3)
    logprobs, _ = model(tokens, model.initial_state(2))
    for row, ours in zip(tokens.tolist(), logprobs.sum(1), strict=True):
        _, scores = all_paths(*tables, row)
        torch.testing.assert_close(ours.exp(), scores.exp().sum(), **EXACT)


def assert_what_is_visible_is_in_the_tables(model: HiddenMarkovModel, tables: Sequence[Tensor], z: int) -> None:
    _, transition, emission = tables
    torch.testing.assert_close(model.successors(z), transition[z], **EXACT)
    torch.testing.assert_close(model.words(z), emission[z], **EXACT)
    torch.testing.assert_close(model.next_words(z).exp(), transition[z].exp() @ emission.exp(), **EXACT)


def assert_tokens_have_the_roots_of_posteriors(model: HiddenMarkovModel, tables: Sequence[Tensor]) -> None:
    tokens, lengths = words(2, 3), [3, 2]
    found = model.embed(tokens, torch.arange(3) < torch.tensor(lengths)[:, None])
    for row, vectors, length in zip(tokens.tolist(), found, lengths, strict=True):
        paths, scores = all_paths(*tables, row[:length])
        expected = torch.zeros_like(vectors)
        for path, share in zip(paths, scores.softmax(0), strict=True):
            expected[range(length), path] += share
        torch.testing.assert_close(vectors, expected.sqrt(), **EXACT)
    torch.testing.assert_close(model.embed(tokens[:1])[0], found[0], **EXACT)


def assert_window_cuts_do_not_matter(model: HiddenMarkovModel, cuts: list[int]) -> None:
    tokens = words(3, sum(cuts))
    with model.frozen():  # one draw of states for all windows
        whole, last = model(tokens, model.initial_state(3))
        state, parts = model.initial_state(3), []
        for window in tokens.split(cuts, dim=1):
            following = model.predict(state)
            torch.testing.assert_close(following.exp().sum(1), torch.ones(3).double(), **EXACT)
            logprobs, state = model(window, state)
            torch.testing.assert_close(logprobs[:, :1], following.gather(1, window[:, :1]), **EXACT)
            parts.append(logprobs)
    torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)
    torch.testing.assert_close(state, last, **EXACT)


def assert_rows_at_a_start_and_rows_going_on_share_a_batch(model: HiddenMarkovModel) -> None:
    tokens = words(2, 6)
    whole, _ = model(tokens, model.initial_state(2))
    _, going = model(tokens[:1, :3], model.initial_state(1))
    state = tuple(torch.cat(parts) for parts in zip(going, model.initial_state(1), strict=True))
    mixed, _ = model(torch.stack([tokens[0, 3:], tokens[1, :3]]), state)
    torch.testing.assert_close(mixed, torch.stack([whole[0, 3:], whole[1, :3]]), **EXACT)


def assert_finite_in_single_precision(model: HiddenMarkovModel, scale: float, length: int) -> None:
    """With parameters ``scale`` times larger, for a repeated word and for random words."""
    model = model.float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= scale
    tokens = torch.cat([torch.full((1, length), 3), words(3, length)])
    logprobs, state = model(tokens, model.initial_state(4))
    further, _ = model(tokens, state)
    assert logprobs.isfinite().all()
    assert further.isfinite().all()
    assert all(part.isfinite().all() for part in gradient(model, logprobs.sum() + further.sum()))


def assert_dropout_of_vectors_acts_in_training_alone(build: Callable[[float], HiddenMarkovModel]) -> None:
    dropped, whole = build(0.5), build(0.0)
    state = dropped.initial_state(V**3)
    first, second = (dropped(strings(), state)[0] for _ in range(2))
    assert not first.eq(second).any()
    for logprobs in (first, second):
        torch.testing.assert_close(logprobs.sum(1).exp().sum(), torch.ones(()).double(), **EXACT)
    torch.testing.assert_close(dropped.eval()(strings(), state)[0], whole.eval()(strings(), state)[0], **EXACT)
