"""Tokens drawn per second of CPU time from an LSTM, beside a plain loop over PyTorch's modules of the same sizes.

    python scripts/benchmarks/sampling.py

The loop is that of PyTorch's example `word_language_model`: one step of the module, then `torch.multinomial`. Both draw
from 10,000 words with 2 layers of 200 on one thread, in turns; medians of five.
"""

import statistics
import time
from collections.abc import Callable

import torch
from recurrent import Plain, our_model

from lmzoo.protocol.decoding import Decoding
from lmzoo.protocol.sampling import sample

WORDS, HIDDEN, LAYERS = 10_000, 200, 2


@torch.no_grad()
def loop(model: Plain, tokens: int, texts: int) -> None:
    """Draw as one does without lmzoo."""
    words, memory = torch.zeros(texts, 1, dtype=torch.long), None
    for _ in range(tokens):
        logprobs, memory = model(words, memory)
        words = torch.multinomial(logprobs[:, 0].exp(), 1)


def seconds(draw: Callable[[], object]) -> float:
    """CPU time of a call."""
    begin = time.process_time()
    draw()
    return time.process_time() - begin


def main() -> None:
    """Print a line for one text and one for 64."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, ours = Plain(WORDS, HIDDEN, LAYERS).eval(), our_model(WORDS, HIDDEN, LAYERS, None).eval()
    print("texts,plain,ours,ours top_p=0.9")
    for texts, tokens in ((1, 400), (64, 60)):
        calls = (
            lambda n=tokens, s=texts: loop(plain, n, s),
            lambda n=tokens, s=texts: sample(ours, n, 0, context="stream", samples=s),
            lambda n=tokens, s=texts: sample(ours, n, 0, context="stream", samples=s, decoding=Decoding(top_p=0.9)),
        )
        times = [[seconds(call) for call in calls] for _ in range(5)]
        medians = map(statistics.median, zip(*times, strict=True))
        print(texts, *(round(tokens * texts / median) for median in medians), sep=",")


if __name__ == "__main__":
    main()
