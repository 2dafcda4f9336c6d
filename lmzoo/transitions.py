"""Which words follow which in a linear dynamical system: ``python -m lmzoo.transitions RUN``."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.commands import CommandParser, run_command
from lmzoo.embed import load_system

PAIRS, WORDS, COMMON = 10, 6, 3000
"""Singular vectors and words for each of their ends that are printed, the words out of so many most frequent ones."""


def singular_words(
    A: Tensor, C: Tensor, spherical: Tensor, pairs: int, words: int
) -> list[tuple[float, Tensor, Tensor]]:
    """Words at either end of A's leading singular vectors, as Belanger & Kakade (2015) read them.

    In coordinates x̃ = Rx, R = SS_0^{-½}, where smoothed means vary alike in all directions, A is RAR⁻¹ = Σ σuvᵀ and
    C is C̃ = CR⁻¹: from a state along v follows one along u. The words now are those whose rows of C̃ have the largest
    cosine with v, the words to come those with the largest cosine with u, and with -v and -u for the other ends.

    Args:
        A, C, spherical: (h, h), (V, h), of all words or some, and R, (h, h) and symmetric.
        pairs: how many singular vectors.
        words: how many words for each end.

    Returns: for each of 2·``pairs`` ends σ, the (words,) words now and those to come.
    """
    back = torch.linalg.inv(spherical)
    U, S, Vh = torch.linalg.svd(spherical @ A @ back)
    C = F.normalize(C @ back)
    ends = []
    for sigma, u, v in zip(S[:pairs].tolist(), U.mT, Vh, strict=False):
        for sign in (1, -1):
            ends.append((sigma, (sign * C @ v).topk(words).indices, (sign * C @ u).topk(words).indices))
    return ends


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.transitions",
        description="Print the words at either end of the leading singular vectors of a trained linear dynamical "
        "system's transition matrix: where the words on the left are now, those on the right tend to come next.",
        epilog="example: python -m lmzoo.transitions outputs/ptb/lds",
    )
    parser.add_argument("run", type=Path, help="the run directory of model=lds, such as outputs/ptb/lds")
    options = parser.parse_args(arguments)
    model, vocabulary = load_system(options.run, "cpu")
    A, C, R = (part.double() for part in (model.A, model.C[:COMMON], model.spherical))
    for sigma, now, following in singular_words(A, C, R, PAIRS, min(WORDS, len(vocabulary))):
        left, right = (" ".join(vocabulary.words[word] for word in end.tolist()) for end in (now, following))
        print(f"{sigma:.2f}  {left}  →  {right}")
    return 0


if __name__ == "__main__":
    run_command(main)
