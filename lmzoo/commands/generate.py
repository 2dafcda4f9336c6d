"""Draw text from a trained model: ``lmzoo generate RUN``."""

import argparse
from dataclasses import fields
from typing import Annotated

import torch
from torch import Tensor

from lmzoo.api import questions
from lmzoo.cli.command import CommandParser, RunFolder, bounded, warn, warn_of
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, for_output
from lmzoo.core.options import Bounds, Size
from lmzoo.corpus import EOS_ID, Vocabulary
from lmzoo.corpus.conditions import label_number
from lmzoo.corpus.lines import line_sums
from lmzoo.protocol.lines import encode_prompt, known_words
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import Decoding, beam_search, sample
from lmzoo.runs.directory import Run
from lmzoo.runs.external import open_model


def main() -> int:
    """Run the command. Returns: the exit code."""
    options, decoding = _read_command_line()
    run, model, vocabulary = open_model(options.run, options.device)
    prompt, unknown = encode_prompt(model, vocabulary, options.prompt, "--prompt")
    warn(unknown)
    condition = label_number(options.condition, vocabulary)
    begun, labels, cut = [] if prompt is None else prompt.tolist(), None, 0
    allowed = known_words(model, vocabulary) if options.no_unknown else None
    if options.matching:
        return _matching(options, decoding, run, model, vocabulary, prompt, allowed)
    if options.beam:
        sentences = beam_search(
            model, options.beam, options.tokens, prompt=prompt, condition=condition, allowed=allowed
        )
        texts = [[(sentence.logprob, sentence.tokens)] for sentence in sentences]
    else:
        context = run.config()["corpus"]["context"]
        drawn = sample(
            model, None if options.sentences else options.tokens, options.seed,
            context=context, decoding=decoding, prompt=prompt, samples=options.samples, condition=condition,
            sentences=options.sentences, allowed=allowed,
        )  # fmt: skip
        texts = [_lines(tokens, logprobs) for tokens, logprobs in drawn.each()]
        labels = drawn.conditions if condition is None else None
    warn_of(run, vocabulary)
    for number, lines in enumerate(texts):
        if number and not options.beam:
            print()
        for place, (logprob, tokens) in enumerate(lines):
            whole = tokens if place else [*begun, *tokens]
            text = for_output(vocabulary.decode(whole[:-1] if whole[-1] == EOS_ID else whole))
            if options.beam and whole[-1] != EOS_ID:
                cut, text = cut + 1, f"… {text}" if vocabulary.form.reverse else f"{text} …"
            if labels is not None:
                text = f"{for_output(vocabulary.conditions[labels[number]])}\t{text}"
            print(f"{logprob:.4f}\t{text}" if options.scores else text)
    if cut:
        warn(f"{cut} of {len(texts)} sentences, with … behind them, are cut at --tokens {options.tokens}")
    return 0


def _matching(
    options: argparse.Namespace,
    decoding: Decoding,
    run: Run,
    model: LanguageModel,
    vocabulary: Vocabulary,
    prompt: Tensor | None,
    allowed: Tensor | None,
) -> int:
    """Print sentences that match a pattern, with their log p under the model, and under its guide."""
    guide = None if options.guide is None else open_model(options.guide, options.device)[1:]
    constrained = questions.constrained(model, vocabulary, options.pattern, options.length, guide)
    begun = [] if prompt is None else prompt.tolist()
    if options.beam:
        found = beam_search(constrained, options.beam, options.tokens, prompt=prompt, allowed=allowed)
        texts = [sentence.tokens for sentence in found if sentence.tokens[-1] == EOS_ID]
        if not texts:
            raise UserError(f"--beam {options.beam}: found no whole sentence", "give a larger --beam or --tokens")
    else:
        texts = constrained.sentences(options.samples, options.seed, decoding, prompt=prompt, allowed=allowed)
    texts = [[*begun, *tokens] for tokens in texts]
    text = torch.tensor([token for tokens in texts for token in tokens])
    models = [model] if guide is None else [model, guide[0]]
    scores = [line_sums(text_logprobs(each, text, "sentence").double().cpu(), text).tolist() for each in models]
    warn_of(run, vocabulary)
    for tokens, *logprobs in zip(texts, *scores, strict=True):
        shown = "".join(f"{logprob:.4f}\t" for logprob in logprobs) if options.scores else ""
        print(shown + for_output(vocabulary.decode(tokens[:-1])))
    return 0


def _read_command_line() -> tuple[argparse.Namespace, Decoding]:
    parser = CommandParser(
        prog="lmzoo generate",
        description=f"{COMMANDS['generate']}. Prints a sentence a line.",
        epilog="examples: lmzoo generate outputs/pydoc/lstm; "
        'lmzoo generate outputs/ptb/vlhmm --prompt "the company said" --top-p 0.9 --samples 5 --scores; '
        "lmzoo generate outputs/pydoc/lstm --beam 10 --tokens 30; "
        'lmzoo generate outputs/ptb/lstm --pattern "… profit … fell …" --length 10..15 --guide outputs/ptb/hmm',
    )
    parser.add_run("outputs/pydoc/lstm")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--tokens", type=bounded(Size), default=200, help="how many, ends of lines included (200)")
    length.add_argument("--sentences", type=bounded(Size), help="so many whole sentences in each text")
    parser.add_number("--samples", Size, "how many texts, an empty line between them", 1)
    parser.add_argument("--prompt", default="", help="the first words of each text; unknown ones become <unk>")
    about = (
        "the label of all lines, where they have one; else each text draws one as often as train, or the prompt, has"
    )
    parser.add_argument("--condition", metavar="LABEL", help=f"{about} it, printed with a tab before each line")
    parser.add_argument("--pattern", help="print sentences that match this, as in lmzoo ask, each by itself")
    parser.add_argument("--length", metavar="10..15", help="print sentences of so many words")
    about = "an HMM of the same vocabulary that sees to --pattern and --length, if the run is of another kind"
    parser.add_argument("--guide", action=RunFolder, metavar="RUN", help=about)
    parser.add_argument("--temperature", type=float, default=1.0, help="below 1 likely words get likelier (1)")
    parser.add_number("--top-k", Size, "draw from the K likeliest words alone; 1 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0, help="from the fewest words of this probability in all (1)")
    parser.add_argument("--typical", type=float, default=1.0, help="likewise, words of typical information first (1)")
    about = "log p of a word that the text has already is multiplied by this; above 1 words are repeated less (1)"
    parser.add_argument("--repetition", type=float, default=1.0, help=about)
    parser.add_argument("--no-unknown", action="store_true", help="leave out <unk>; other words keep their proportions")
    about = "print the likeliest sentences that a beam search of this width finds; … is behind those cut at --tokens"
    parser.add_number("--beam", Size, about)
    long_seed = Annotated[int, Bounds(low=0, high=2**63 - 1)]
    parser.add_number("--seed", long_seed, "of the first text; the next has the next number", 0)
    parser.add_argument(
        "--scores",
        action="store_true",
        help="print log p of each line, in nats, without the prompt's; with --pattern the sentence's, then the guide's",
    )
    parser.add_device()
    options = parser.parse_args()
    try:
        decoding = Decoding(**{field.name: getattr(options, field.name) for field in fields(Decoding)})
    except UserError as error:
        advice = error.advice and error.advice.replace("top_k=1", "--top-k 1")
        raise UserError(f"--{error.problem}".replace("_", "-", 1), advice) from None
    if options.beam and (decoding != Decoding() or options.samples > 1 or options.sentences):
        left_out = "--samples, --sentences, --temperature, --top-k, --top-p, --typical and --repetition"
        raise UserError("--beam draws nothing", f"leave out {left_out}")
    options.matching = any(option is not None for option in (options.pattern, options.length, options.guide))
    if options.matching and (options.condition or options.sentences):
        raise UserError("--pattern, --length and --guide: --samples says how many sentences",
                        "leave out --sentences and --condition")  # fmt: skip
    return options, decoding


def _lines(tokens: Tensor, logprobs: Tensor) -> list[tuple[float, list[int]]]:
    """Split a (N,) text into lines, each with its log p, from (N,) log p of tokens; the last may be incomplete."""
    ends = (tokens == EOS_ID).nonzero()[:, 0] + 1
    lines = zip(tokens.tensor_split(ends), logprobs.tensor_split(ends), strict=True)
    return [(float(scores.sum()), line.tolist()) for line, scores in lines if len(line)]
