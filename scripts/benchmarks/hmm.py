"""Hidden Markov models side by side: one training step, the likelihood of a batch and its gradient or expected counts.

    python scripts/benchmarks/hmm.py compare    lmzoo's dense HMM, other toolkits and a plain loop, the emissions given
    python scripts/benchmarks/hmm.py grow       lmzoo's models, emissions and all, from 2^10 to 2^18 states
    python scripts/benchmarks/hmm.py products   lmzoo's models beside their matrix products alone

Everything that is measured has a process of its own, which may fail, run out of memory or out of time: that is
then its row. Those of `compare` and `products` take turns in every round; figures are medians. Peak memory is that of
the process above what it had before its first step, a compiler's work included. "matrix products" are those that a
step of the dense HMM cannot do without, 2 MFLOP a token forward and 4 backward at 1,024 states, and nothing else. In
`products` they are those that PyTorch was seen to do in a step of the model, repeated with other numbers.
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

from hmm_jobs import FAMILIES, TOOLKITS, dense_example, family_job, products_job

TURN = 0.5
"""Seconds of a turn, about."""
PRODUCTS = "products of "
"""Before the name of a family: its matrix products alone."""


def serve(what: str, batch: int, length: int, states: int, gib: float, seconds: int) -> None:
    """Take as many steps as a line says; answer with log-likelihood, seconds, CPU seconds of one, and peak GiB."""
    import torch  # before memory is limited and measured

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    if what in TOOLKITS:
        job = TOOLKITS[what][0](*dense_example(batch, length, states))
    elif what.startswith(PRODUCTS):
        job = products_job(what.removeprefix(PRODUCTS), batch, length, states)
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
        return f"{self.failure} | " if self.failure else f"{self.rate(clock):,.0f} | {self.peak:.2f}"

    def rate(self, clock: str) -> float:
        """Tokens a second, NaN after a failure."""
        return math.nan if self.failure else self.tokens / statistics.median(getattr(self, clock))


def in_turns(names: list[str], states: int, options: argparse.Namespace) -> list[Worker]:
    """Measure all of them in every round."""
    workers = [Worker(name, options.batch, options.length, states, options.gib, options.seconds) for name in names]
    for worker in workers:
        worker.warm_up()
    for _ in range(options.rounds):
        for worker in workers:
            worker.turn()
    for worker in workers:
        worker.close()
    return workers


def compare(toolkits: list[str], all_states: list[int], options: argparse.Namespace) -> None:
    print("| states | batch | toolkit | computes | tokens/s | peak GiB |\n|---|---|---|---|---|---|")
    for states in all_states:
        workers = in_turns(toolkits, states, options)
        expected = workers[0].loglikelihood
        for worker in workers:
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
            (worker,) = in_turns([family], states, options)
            print(f"| {family} | 2^{states.bit_length() - 1} | {worker.figures(options.clock)} |", flush=True)
            if worker.failure:
                break


def products(families: list[str], all_states: list[int], options: argparse.Namespace) -> None:
    print("| family | states | tokens/s | peak GiB | products alone, tokens/s | share |\n|---|---|---|---|---|---|")
    for family in families:
        for states in all_states:
            model, alone = in_turns([family, PRODUCTS + family], states, options)
            most = alone.rate(options.clock)
            share = model.rate(options.clock) / most
            size = f"{family} | 2^{states.bit_length() - 1}"
            print(f"| {size} | {model.figures(options.clock)} | {most:,.0f} | {share:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["compare", "grow", "products", "serve"])
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
    elif options.command == "products":
        products(options.what or list(FAMILIES), options.states or [2**14], options)
    else:
        grow(options.what or list(FAMILIES), options.states or [2**n for n in range(10, 20, 2)], options)


if __name__ == "__main__":
    main()
