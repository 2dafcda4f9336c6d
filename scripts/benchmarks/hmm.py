"""Hidden Markov models side by side: one training step, the likelihood of a batch and its gradient or expected counts.

    python scripts/benchmarks/hmm.py compare    lmzoo's dense HMM, other toolkits and a plain loop, the emissions given
    python scripts/benchmarks/hmm.py grow       lmzoo's models, emissions and all, from 2^10 to 2^18 states

Everything that is measured has a process of its own, which may fail, run out of memory or out of time: that is
then its row. Those of `compare` take turns in every round; figures are medians. Peak memory is that of the
process above what it had before its first step, a compiler's work included. "matrix products" are those that a
step of the dense HMM cannot do without, 2 MFLOP a token forward and 4 backward at 1,024 states, and nothing else.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

Job = Callable[[], float]
"""One step; its log-likelihood in nats."""

VOCABULARY = 10_000
CLUSTERS = 128
TURN = 0.5
"""Seconds of a turn, about."""
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

    from lmzoo.models.hmm.inference import dense

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
"""What is not as configs/model has it."""


def family_job(name: str, batch: int, length: int, states: int) -> Job:
    """A step of a model in training, words drawn by Zipf's law."""
    import torch
    from omegaconf import OmegaConf

    import lmzoo.models  # noqa: F401
    from lmzoo.core.configs import CONFIGS
    from lmzoo.core.registry import models

    torch.manual_seed(0)
    options: dict = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / f"{name}.yaml"))  # pyright: ignore
    model = models.build(options | FAMILIES[name] | {"states": states}, vocabulary_size=VOCABULARY)
    tokens = (VOCABULARY ** torch.rand(batch, length)).long() - 1

    def step() -> float:
        model.zero_grad(set_to_none=True)
        logprobs, _ = model(tokens, model.initial_state(batch))
        logprobs.sum().backward()
        return float(logprobs.detach().sum())

    return step


def serve(what: str, batch: int, length: int, states: int, gib: float, seconds: int) -> None:
    """Take as many steps as a line says; answer with log-likelihood, seconds, CPU seconds of one, and peak GiB."""
    import torch  # before memory is limited and measured

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    if what in TOOLKITS:
        job = TOOLKITS[what][0](*dense_example(batch, length, states))
    else:
        job = family_job(what, batch, length, states)
    with open("/proc/self/statm") as status:  # noqa: PTH123 - what is there already does not count
        there = int(status.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (there + int(gib * 2**30), -1))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, -1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in sys.stdin:
        steps = int(line)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            loglikelihood = job()
        wall, cpu = (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        print(json.dumps([loglikelihood, wall, cpu, peak]), flush=True)


class Worker:
    """A process that measures one thing, and what came of it."""

    def __init__(self, what: str, batch: int, length: int, states: int, gib: float, seconds: int):
        options = {"batch": batch, "length": length, "states": states, "gib": gib, "seconds": seconds}
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, __file__, "serve", "--what", what, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.what, self.seconds, self.tokens = what, seconds, batch * length
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.steps = 0
        self.peak = self.loglikelihood = math.nan
        self.failure = ""

    def warm_up(self) -> None:
        """The first two steps: one that may compile, one that says how long a step takes, unless the first did."""
        self._ask(1)
        if not self.failure and self.cpu[0] < self.seconds / 10:
            self.wall.clear()
            self.cpu.clear()
            self._ask(1)
            if not self.failure:
                self.steps = math.ceil(TURN / max(self.cpu.pop(), 0.002))  # clocks may be coarse
                self.wall.clear()

    def turn(self) -> None:
        """As many steps as a turn has, unless one has failed or is so long that the first must do."""
        if not self.failure and self.steps:
            self._ask(self.steps)

    def _ask(self, steps: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(steps, file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.failure = self._why()
            return
        self.loglikelihood, wall, cpu, self.peak = json.loads(answer)
        self.wall.append(wall)
        self.cpu.append(cpu)

    def _why(self) -> str:
        _, errors = self.process.communicate()
        if self.process.returncode == -24:  # SIGXCPU
            return f"more than {self.seconds:,} s"
        if self.process.returncode == -9 or "emory" in errors or "alloc" in errors:
            return "out of memory"
        return errors.strip().splitlines()[-1] if errors.strip() else f"exit status {self.process.returncode}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.communicate()

    def figures(self, clock: str) -> str:
        """Tokens a second and GiB, for a table."""
        if self.failure:
            return f"{self.failure} | "
        return f"{self.tokens / statistics.median(getattr(self, clock)):,.0f} | {self.peak:.2f}"


def compare(toolkits: list[str], all_states: list[int], options: argparse.Namespace) -> None:
    print("| states | batch | toolkit | computes | tokens/s | peak GiB |\n|---|---|---|---|---|---|")
    for states in all_states:
        workers = [
            Worker(what, options.batch, options.length, states, options.gib, options.seconds) for what in toolkits
        ]
        for what in workers:
            what.warm_up()
        for _ in range(options.rounds):
            for what in workers:
                what.turn()
        expected = workers[0].loglikelihood
        for worker in workers:
            worker.close()
            right = math.isnan(worker.loglikelihood) or math.isclose(worker.loglikelihood, expected, rel_tol=1e-4)
            remark = "" if right else f" (log-likelihood {worker.loglikelihood:.2f}, not {expected:.2f})"
            computes = TOOLKITS[worker.what][1]
            shape = f"{states:,} | {options.batch} × {options.length}"
            print(f"| {shape} | {worker.what} | {computes} | {worker.figures(options.clock)}{remark} |", flush=True)


def grow(families: list[str], all_states: list[int], options: argparse.Namespace) -> None:
    """One after the other, as a step may fill the memory there is."""
    print("| family | states | tokens/s | peak GiB |\n|---|---|---|---|")
    for family in families:
        for states in all_states:
            worker = Worker(family, options.batch, options.length, states, options.gib, options.seconds)
            worker.warm_up()
            for _ in range(options.rounds):
                worker.turn()
            worker.close()
            print(f"| {family} | 2^{states.bit_length() - 1} | {worker.figures(options.clock)} |", flush=True)
            if worker.failure:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["compare", "grow", "serve"])
    parser.add_argument("--what", nargs="+", help="toolkits or families; all of them if not given")
    parser.add_argument("--states", type=int, nargs="+", help="powers of two")
    parser.add_argument("--batch", type=int, default=16, help="rows")
    parser.add_argument("--length", type=int, default=32, help="tokens of each row")
    parser.add_argument("--rounds", type=int, default=7, help="after a first step that does not count")
    parser.add_argument("--gib", type=float, default=8, help="address space that a process may have")
    parser.add_argument("--seconds", type=int, default=300, help="CPU time that a process may have")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a machine that others use")
    options = parser.parse_args()
    if options.command == "serve":
        serve(options.what[0], options.batch, options.length, options.states[0], options.gib, options.seconds)
    elif options.command == "compare":
        compare(options.what or list(TOOLKITS), options.states or [128, 256, 512, 1024], options)
    else:
        grow(options.what or list(FAMILIES), options.states or [2**n for n in range(10, 20, 2)], options)


if __name__ == "__main__":
    main()
