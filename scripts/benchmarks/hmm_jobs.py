"""What scripts/benchmarks/hmm.py measures: steps of toolkits, of lmzoo's models, and of matrix products alone."""

import math
from collections.abc import Callable

Job = Callable[[], float]
"""One step; its log-likelihood in nats."""

VOCABULARY = 10_000
CLUSTERS = 128
DIM = 256
GRADIENT, COUNTS = "gradient", "expected counts"


def dense_example(batch: int, length: int, states: int) -> tuple:
    """log p(z_1) (Z,), log p(z' | z) (Z, Z) and log p(x | z) (B, T, Z), as float32 arrays."""
    import numpy as np

    random = np.random.default_rng(0)

    def logprobs(*shape: int) -> np.ndarray:
        logits = random.standard_normal(shape, dtype=np.float32)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    emission = random.standard_normal((batch, length, states), dtype=np.float32) - np.float32(math.log(VOCABULARY))
    return logprobs(states), logprobs(states, states), emission


def lmzoo_dense(start, transition, emission) -> Job:
    import torch

    from lmzoo.core.memory import keep_freed_memory
    from lmzoo.models.hmm.inference import dense

    keep_freed_memory()  # as the commands do
    inputs = [torch.from_numpy(x).requires_grad_() for x in (start, transition, emission)]

    def step() -> float:
        logprobs, _ = dense.forward(inputs[0].expand(len(emission), -1), *inputs[1:])
        torch.autograd.grad(logprobs.sum(), inputs)
        return float(logprobs.detach().sum())

    return step


def matrix_products(start, transition, emission) -> Job:
    import torch

    A, E = torch.from_numpy(transition), torch.from_numpy(emission).transpose(0, 1).contiguous()
    out = torch.empty_like(E[0])

    def step() -> float:
        for rows in E:
            torch.mm(rows, A, out=out)
            torch.mm(rows, A.T, out=out)
        torch.mm(E.flatten(0, 1).T, E.flatten(0, 1))
        return math.nan

    return step


def plain_loop(start, transition, emission) -> Job:
    """The scaled recursion as one would write it, the gradient left to autograd."""
    import torch

    inputs = [torch.from_numpy(x).requires_grad_() for x in (start, transition, emission)]

    def step() -> float:
        pi, A, e = inputs
        A = A.exp()
        peak = e.detach().amax(2, keepdim=True)
        likelihood = (e - peak).exp()
        belief, total = pi.exp().expand(len(e), -1), peak.sum()
        for t in range(e.shape[1]):
            joint = (belief if t == 0 else belief @ A) * likelihood[:, t]
            scale = joint.sum(1, keepdim=True)
            belief, total = joint / scale, total + scale.log().sum()
        torch.autograd.grad(total, inputs)
        return float(total.detach())

    return step


def dynamax_gradient(start, transition, emission) -> Job:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_filter

    def loglikelihood(start, transition, emission):
        one = lambda e: hmm_filter(jnp.exp(start), jnp.exp(transition), e).marginal_loglik  # noqa: E731
        return jax.vmap(one)(emission).sum()

    both = jax.jit(jax.value_and_grad(loglikelihood, argnums=(0, 1, 2)))
    inputs = [jnp.asarray(x) for x in (start, transition, emission)]
    return lambda: float(jax.block_until_ready(both(*inputs))[0])


def dynamax_counts(start, transition, emission) -> Job:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_two_filter_smoother

    def counts(start, transition, emission):
        one = lambda e: hmm_two_filter_smoother(jnp.exp(start), jnp.exp(transition), e)  # noqa: E731
        posterior = jax.vmap(one)(emission)
        return posterior.marginal_loglik.sum(), posterior.trans_probs.sum(0), posterior.smoothed_probs

    both = jax.jit(counts)
    inputs = [jnp.asarray(x) for x in (start, transition, emission)]
    return lambda: float(jax.block_until_ready(both(*inputs))[0])


def hmmlearn_counts(start, transition, emission) -> Job:
    """What `fit` does for each sequence; emissions cannot be given but to the functions beneath it."""
    import numpy as np
    from hmmlearn import _hmmc

    pi, A = (np.exp(x.astype(np.float64)) for x in (start, transition))
    A /= A.sum(1, keepdims=True)

    def step() -> float:
        total = 0.0
        for e in emission.astype(np.float64):
            likelihood = np.exp(e)
            logprob, forward, scaling = _hmmc.forward_scaling(pi, A, likelihood)
            backward = _hmmc.backward_scaling(pi, A, likelihood, scaling)
            _hmmc.compute_scaling_xi_sum(forward, A, backward, likelihood)
            total += logprob
        return total

    return step


def pomegranate_counts(start, transition, emission) -> Job:
    import torch
    from pomegranate.distributions import Categorical
    from pomegranate.hmm import DenseHMM

    Z = len(start)
    pi, A = torch.from_numpy(start).exp(), torch.from_numpy(transition).exp()
    words = [Categorical([[0.5, 0.5]]) for _ in range(Z)]  # never asked
    model = DenseHMM(words, edges=A / A.sum(1, keepdim=True), starts=pi / pi.sum(), ends=torch.ones(Z))
    e = torch.from_numpy(emission)
    return lambda: float(model.forward_backward(emissions=e)[-1].sum())


def torch_struct_gradient(start, transition, emission) -> Job:
    import torch
    from torch_struct import LinearChainCRF

    inputs = [torch.from_numpy(x).requires_grad_() for x in (start, transition, emission)]

    def step() -> float:
        pi, A, e = inputs
        scores = (A.T[None, None] + e[:, 1:, :, None]).clone()  # (B, T - 1, to, from)
        scores[:, 0] += (pi + e[:, 0])[:, None]
        total = LinearChainCRF(scores).partition.sum()
        torch.autograd.grad(total, inputs)
        return float(total.detach())

    return step


TOOLKITS = {
    "lmzoo": (lmzoo_dense, GRADIENT),
    "matrix products": (matrix_products, "–"),
    "plain loop": (plain_loop, GRADIENT),
    "dynamax": (dynamax_gradient, GRADIENT),
    "dynamax, E-step": (dynamax_counts, COUNTS),
    "hmmlearn": (hmmlearn_counts, COUNTS),
    "pomegranate": (pomegranate_counts, COUNTS),
    "torch-struct": (torch_struct_gradient, GRADIENT),
}


FAMILIES = {
    "hmm": {"iterations": 0, "gradient": True},
    "neural_hmm": {"dim": DIM, "state_dropout": 0.5},
    "vlhmm": {"clusters": CLUSTERS, "dim": DIM, "state_dropout": 0.5},
    "lowrank_hmm": {"clusters": CLUSTERS, "dim": DIM, "state_dropout": 0.5, "features": 256},
    "twolevel_hmm": {"clusters": CLUSTERS, "dim": DIM, "state_dropout": 0.5},
}
"""Options unlike the defaults."""


def family_job(name: str, batch: int, length: int, states: int, precision: str = "float32") -> Job:
    """A step of a model in training, words drawn by Zipf's law. ``precision`` is that of autocast."""
    import torch

    import lmzoo.models  # noqa: F401
    from lmzoo.core.configs import defaults
    from lmzoo.core.memory import keep_freed_memory
    from lmzoo.protocol.model import models

    keep_freed_memory()  # as the commands do
    torch.manual_seed(0)
    options = defaults("model", name)
    model = models.build(options | FAMILIES[name] | {"states": states}, vocabulary_size=VOCABULARY)
    tokens = (VOCABULARY ** torch.rand(batch, length)).long() - 1

    def step() -> float:
        model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logprobs, _ = model(tokens, model.initial_state(batch))
        logprobs.sum().backward()
        return float(logprobs.detach().sum())

    return step


def products_job(name: str, batch: int, length: int, states: int, precision: str = "float32") -> Job:
    """The matrix products of a step of `family_job`, of the same shapes, strides and types, and nothing else."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    kinds = {aten.mm: torch.mm, aten.addmm: torch.mm, aten.bmm: torch.bmm, aten.baddbmm: torch.bmm}
    calls: list[tuple] = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if product := kinds.get(func.overloadpacket):
                calls.append((product, *((tuple(x.shape), x.stride(), x.dtype) for x in args[-2:])))
            return func(*args, **(kwargs or {}))

    job = family_job(name, batch, length, states, precision)
    with Recorder():
        job()

    def tensor(shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        return torch.randn(last + 1).to(dtype).as_strided(shape, stride)

    operands = {layout: tensor(*layout) for _, *both in calls for layout in both}
    results = {(*a[:-1], b[-1], dtype): torch.empty(*a[:-1], b[-1], dtype=dtype) for _, (a, _, dtype), (b, *_) in calls}

    def step() -> float:
        for product, a, b in calls:
            product(operands[a], operands[b], out=results[*a[0][:-1], b[0][-1], a[2]])
        return math.nan

    return step
