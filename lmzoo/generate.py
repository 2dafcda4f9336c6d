"""Draw text from a trained model: ``python -m lmzoo.generate RUN``."""

import math
import sys
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.commands import CommandParser, run_command
from lmzoo.corpus import Context
from lmzoo.corpus.vocabulary import EOS, EOS_ID
from lmzoo.errors import UserError
from lmzoo.models.base import LanguageModel, evaluating
from lmzoo.run import Run, load


@torch.no_grad()
def sample(
    model: LanguageModel,
    tokens: int,
    seed: int,
    *,
    context: Context,
    temperature: float = 1.0,
    prompt: Tensor | None = None,
) -> Tensor:
    """(tokens,) int64 drawn one by one from a sentence boundary on; the model is left in the mode it was in.

    Args:
        context: ``sentence`` has the model forget everything at each `<eos>`.
        temperature: τ, words are drawn from p(x)^(1/τ) / Σ p^(1/τ).
        prompt: (N,) words of the first sentence, N at least 1, that are read first.

    Raises: ValueError where tokens is less than 1, or temperature not positive and finite.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: must be at least 1")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature={temperature}: must be positive and finite")
    random = torch.Generator().manual_seed(seed)
    state, drawn = model.initial_state(1), []
    with evaluating(model):
        if prompt is not None:
            _, state = model(prompt[None].to(model.device), state)
        for _ in range(tokens):
            logprobs = model.predict(state).cpu().double()
            p = ((logprobs - logprobs.max()) / temperature).softmax(1)
            token = torch.multinomial(p, 1, generator=random)  # (1, 1)
            drawn.append(token)
            if context == "sentence" and int(token) == EOS_ID:
                state = model.initial_state(1)
            else:
                _, state = model(token.to(model.device), state)
    return torch.cat(drawn, 1)[0]


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.generate",
        description="Print text drawn from a trained model word by word, a sentence a line.",
        epilog="examples: python -m lmzoo.generate outputs/pydoc/lstm; "
        'python -m lmzoo.generate outputs/ptb/vlhmm --prompt "the company said" --temperature 0.7 --seed 3',
    )
    parser.add_argument("run", type=Path, help="a run directory, such as outputs/pydoc/lstm")
    parser.add_argument("--tokens", type=int, default=200, help="how many, ends of lines included (200)")
    parser.add_argument("--prompt", default="", help="the first sentence's first words, all known to the model")
    parser.add_argument("--temperature", type=float, default=1.0, help="below 1 likely words get likelier (1)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws another text (0)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (auto)")
    options = parser.parse_args()
    if options.tokens < 1:
        raise UserError(f"--tokens {options.tokens}: must be at least 1")
    if not 0 < options.temperature < math.inf:
        raise UserError(f"--temperature {options.temperature}: must be a positive number")
    if not 0 <= options.seed < 2**63:
        raise UserError(f"--seed {options.seed}: must be at least 0 and below 2^63")
    model, vocabulary = load(options.run, options.device)
    run, words = Run(options.run), options.prompt.split()
    for word in words:
        if word not in vocabulary.index or word == EOS:
            raise UserError(
                f"--prompt: '{word}' is not among the model's words, {run.path / 'vocabulary.txt'}; use others"
            )
    if unfinished := run.unfinished():
        print(unfinished, file=sys.stderr)
    prompt = torch.tensor([vocabulary.index[word] for word in words])
    drawn = sample(
        model,
        options.tokens,
        options.seed,
        context=run.config()["corpus"]["context"],
        temperature=options.temperature,
        prompt=prompt if words else None,
    )
    for line in vocabulary.decode([*prompt.tolist(), *drawn.tolist()]).split("\n"):
        print(line.removesuffix(EOS).rstrip())
    return 0


if __name__ == "__main__":
    run_command(main)
