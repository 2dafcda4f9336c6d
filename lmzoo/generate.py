"""Draw text from a trained model: ``python -m lmzoo.generate RUN``."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.generate")

import math

import torch

from lmzoo.cli.command import CommandParser, open_run, warn
from lmzoo.core.errors import UserError, printable
from lmzoo.corpus.vocabulary import EOS
from lmzoo.protocol.sampling import sample


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.generate",
        description="Print text drawn from a trained model word by word, a sentence a line.",
        epilog="examples: python -m lmzoo.generate outputs/pydoc/lstm; "
        'python -m lmzoo.generate outputs/ptb/vlhmm --prompt "the company said" --temperature 0.7 --seed 3',
    )
    parser.add_run("outputs/pydoc/lstm")
    parser.add_argument("--tokens", type=int, default=200, help="how many, ends of lines included (200)")
    parser.add_argument("--prompt", default="", help="the first sentence's first words, all known to the model")
    parser.add_argument("--temperature", type=float, default=1.0, help="below 1 likely words get likelier (1)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws another text (0)")
    parser.add_device()
    options = parser.parse_args()
    if options.tokens < 1:
        raise UserError(f"--tokens {options.tokens}: must be at least 1")
    if not 0 < options.temperature < math.inf:
        raise UserError(f"--temperature {options.temperature}: must be a positive number")
    if not 0 <= options.seed < 2**63:
        raise UserError(f"--seed {options.seed}: must be at least 0 and below 2^63")
    run, model, vocabulary = open_run(options.run, options.device)
    unfinished, words = run.unfinished(), options.prompt.split()
    for word in words:
        if word not in vocabulary.index or word == EOS:
            raise UserError(
                f"--prompt: '{word}' is not among the model's words, {run.path / 'vocabulary.txt'}", "use others"
            )
    prompt = torch.tensor([vocabulary.index[word] for word in words])
    drawn = sample(
        model,
        options.tokens,
        options.seed,
        context=run.config()["corpus"]["context"],
        temperature=options.temperature,
        prompt=prompt if words else None,
    )
    warn(unfinished)
    for line in vocabulary.decode([*prompt.tolist(), *drawn.tolist()]).split("\n"):
        print(printable(line.removesuffix(EOS).rstrip()))
    return 0
