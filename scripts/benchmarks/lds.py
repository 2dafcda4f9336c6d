"""What an EM iteration of the linear dynamical system costs, by the length of the text and beside dynamax.

    python scripts/benchmarks/lds.py grow --plot FILE seconds an iteration up to 10 million tokens, words and vectors
    python scripts/benchmarks/lds.py dynamax          the same text as vectors, lmzoo and dynamax in turns

Times are of the processor, ours medians of three. Text is read with --text or drawn as in ngram.py; the vector
of a word is random.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch
from ngram import draw
from torch import Tensor

from lmzoo.core.files import read_lines, write_output
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.lds.estimation.asos import e_step, m_step
from lmzoo.models.lds.estimation.fit import em
from lmzoo.models.lds.estimation.statistics import Counts, CrossCovariance, project, whiten, whiten_vectors
from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.system import LDS
from lmzoo.reports.charts import charts, legend, logarithmic, rendered

LAGS, PSEUDOCOUNT = 7, 20.0
T = TypeVar("T")


def timed(job: Callable[[], T]) -> tuple[float, T]:
    """Processor time of a job, and what it returns."""
    started = time.process_time()
    done = job()
    return time.process_time() - started, done


def seconds(job: Callable[[], object]) -> float:
    """Median processor time of three times the same."""
    return statistics.median(timed(job)[0] for _ in range(3))


def iterate(psi: Sequence[CrossCovariance] | Sequence[Tensor], dimensions: int, lds: LDS) -> LDS:
    """One iteration of EM."""
    return m_step(e_step(psi, lds, steady_state(lds), dimensions))


def as_vectors(mu: Tensor, words: list[CrossCovariance], d: int) -> tuple[list[Tensor], Tensor]:
    """Ψ_1 … of random vectors of d dimensions, one a word, and these as (V, d) white observations."""
    vectors = torch.randn(len(mu), d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    Y = whiten_vectors(vectors, mu)
    return project(words, Y, mu), Y


def grow(stream: Tensor, sizes: list[int], hidden: int, d: int, plot: Path) -> None:
    """Seconds of an EM iteration on ever longer beginnings of one text."""
    types = int(stream.max()) + 1
    print("| tokens | pairs, lags 1 to 7 | counting, s | EM iteration, one-hot words, s | EM iteration, vectors, s |")
    print("|" + "---|" * 5)
    figures = []
    for size in sizes:
        tokens = stream[:size]
        counting, counts = timed(lambda: Counts.of(tokens, types, LAGS))  # noqa: B023 - called at once
        mu, words = whiten(counts, PSEUDOCOUNT)
        pairs = sum(Psi.sparse._nnz() for Psi in words)
        lds = next(em(words, types - 1, hidden, 2, LAGS))[0]
        one_hot = seconds(lambda: iterate(words, types - 1, lds))  # noqa: B023
        psi, _ = as_vectors(mu, words, d)
        small = next(em(psi, d, min(hidden, d), 2, LAGS))[0]
        dense = seconds(lambda: iterate(psi, d, small))  # noqa: B023
        figures.append((size / 1e6, counting, one_hot, dense))
        print(f"| {size:,} | {pairs:,} | {counting:.2f} | {one_hot:.2f} | {dense:.3f} |", flush=True)
    picture(figures, f"{types:,} words, h = {hidden}, 7 lags", d, plot)


def picture(figures: list[tuple[float, float, float, float]], title: str, d: int, plot: Path) -> None:
    """Millions of tokens, seconds of counting and of an iteration on one-hot words and on vectors."""
    millions, *columns = zip(*figures, strict=True)
    labels = "counting, once", "EM iteration, one-hot words", f"EM iteration, vectors of {d} dimensions"
    with charts("--plot") as pyplot:
        figure, panel = pyplot.subplots(figsize=(6, 3.6))
        for column, label in zip(columns, labels, strict=True):
            panel.plot(millions, column, marker="o", label=label)
        panel.set(xlabel="million tokens", ylabel="seconds of one core", title=title)
        panel.margins(y=0.15)
        logarithmic(panel, "y")
        logarithmic(panel, "x")
        legend(panel)
        write_output(plot, rendered(figure, plot))


def dynamax(stream: Tensor, sizes: list[int], hidden: int, d: int) -> None:
    """The same system, that after three iterations of ours, by both: its log-density, and seconds of an iteration."""
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussianSSM(hidden, d)
    print("| tokens | d | h | lmzoo: counting, once, s | lmzoo: iteration, s | dynamax: iteration, s | × as fast | "
          "lmzoo: log-density a token | dynamax |\n|" + "---|" * 9)  # fmt: skip
    for size in sizes:
        words, tokens = stream[:size].unique(return_inverse=True)
        counting, (psi, Y) = timed(
            lambda: as_vectors(*whiten(Counts.of(tokens, len(words), LAGS), 0.0), d)  # noqa: B023 - called at once
        )
        lds, _, expectations = next(islice(em(psi, d, hidden, 4, LAGS), 3, None))
        ours = seconds(lambda: iterate(psi, d, lds))  # noqa: B023
        noise = torch.eye(d).double() - lds.C @ lds.M @ lds.C.mT
        parameters, properties = model.initialize(
            jax.random.PRNGKey(0),
            initial_mean=jnp.zeros(hidden),
            initial_covariance=jnp.array(lds.M.numpy()),
            dynamics_weights=jnp.array(lds.A.numpy()),
            dynamics_covariance=jnp.eye(hidden),
            emission_weights=jnp.array(lds.C.numpy()),
            emission_covariance=jnp.array(noise.numpy()),
        )
        y, inputs = jnp.array(Y[tokens].numpy())[None], jnp.zeros((1, size, 0))

        def step(parameters, state, y, inputs, properties=properties):
            expected, likelihoods = jax.vmap(lambda y, inputs: model.e_step(parameters, y, inputs))(y, inputs)
            return *model.m_step(parameters, properties, expected, state), likelihoods.sum()

        start = parameters, model.initialize_m_step_state(parameters, properties), y, inputs
        compiled = jax.jit(step).lower(*start).compile()
        theirs, (_, _, likelihood) = timed(lambda: jax.block_until_ready(compiled(*start)))  # noqa: B023
        print(
            f"| {size:,} | {d} | {hidden} | {counting:.2f} | {ours:.4f} | {theirs:.2f} | {theirs / ours:,.0f} | "
            f"{expectations.log_density:.4f} | {float(likelihood) / size:.4f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grow", "dynamax"])
    parser.add_argument("--text", type=Path, nargs="+", help="files, a sentence a line, instead of drawn text")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--types", type=int, default=10_000, help="words of drawn text")
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--dimensions", type=int, default=50, help="of the vectors")
    parser.add_argument("--float64", action="store_true", help="dynamax too in float64")
    parser.add_argument("--plot", type=Path, default=Path("lds-growth.png"))
    arguments = parser.parse_args()
    if arguments.text:
        lines = [line for path in arguments.text for line in read_lines(path)]
        stream = Vocabulary.of(lines).encode(lines)
    else:
        stream = draw(max(arguments.sizes), words=arguments.types)
    if arguments.what == "grow":
        grow(stream, arguments.sizes, arguments.hidden, arguments.dimensions, arguments.plot)
        return
    if arguments.float64:
        import jax

        jax.config.update("jax_enable_x64", True)
    dynamax(stream, arguments.sizes, arguments.hidden, arguments.dimensions)


if __name__ == "__main__":
    main()
