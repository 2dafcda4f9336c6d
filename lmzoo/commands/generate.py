"""Draw text from a trained model: ``lmzoo generate RUN``."""

import argparse
from dataclasses import fields

import torch
from torch import Tensor

from lmzoo.api import questions
from lmzoo.cli.command import CommandParser, RunFolder, bounded, warn, warn_of
from lmzoo.core.errors import UserError, for_output
from lmzoo.core.options import LongSeed, Size
from lmzoo.corpus import EOS_ID
from lmzoo.corpus.conditions import label_number
from lmzoo.corpus.lines import line_sums
from lmzoo.protocol.lines import encode_prompt, known_words
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import Decoding, beam_search, sample
from lmzoo.runs.external import open_model


def main() -> None:
    """Run the command."""
    options, decoding = _read_command_line()
    run, model, vocabulary = open_model(options.run, options.device)
    prompt, unknown = encode_prompt(model, vocabulary, options.prompt, "--prompt")
    warn(unknown)
    condition = label_number(options.condition, vocabulary)
    begun, labels, cut = [] if prompt is None else prompt.tolist(), None, 0
    allowed = known_words(model, vocabulary) if options.no_unknown else None
    if options.matching:
        guide = None if options.guide is None else open_model(options.guide, options.device)
        hmm = guide[0] if guide else run
        constrained = questions.constrained(model, vocabulary, options.pattern, options.length, guide and guide[1:])
        warn(questions.context_warning(hmm.path, hmm.config()["corpus"]["context"]))
        if options.beam:
            found = beam_search(constrained, options.beam, options.tokens, prompt=prompt, allowed=allowed)
            sentences = [sentence.tokens for sentence in found if sentence.tokens[-1] == EOS_ID]
            if not sentences:
                raise UserError(f"--beam {options.beam}: found no whole sentence", "give a larger --beam or --tokens")
        else:
            sentences = constrained.sentences(options.samples, options.seed, decoding, prompt=prompt, allowed=allowed)
        sentences = [[*begun, *tokens] for tokens in sentences]
        text = torch.tensor([token for tokens in sentences for token in tokens])
        models = [model] if guide is None else [model, guide[1]]
        scores = [line_sums(text_logprobs(each, text, "sentence").cpu().double(), text).tolist() for each in models]
        texts = [[(logprobs, tokens) for tokens, *logprobs in zip(sentences, *scores, strict=True)]]
    elif options.beam:
        found = beam_search(model, options.beam, options.tokens, prompt=prompt, condition=condition, allowed=allowed)
        texts = [[([sentence.logprob], [*begun, *sentence.tokens])] for sentence in found]
        cut = sum(sentence.tokens[-1] != EOS_ID for sentence in found)
    else:
        drawn = sample(
            model, None if options.sentences else options.tokens, options.seed,
            context=run.config()["corpus"]["context"], decoding=decoding, prompt=prompt, samples=options.samples,
            condition=condition, sentences=options.sentences, allowed=allowed,
        )  # fmt: skip
        texts = [_lines(begun, tokens, logprobs) for tokens, logprobs in drawn.each()]
        labels = drawn.conditions if condition is None else None
    warn_of(run, vocabulary)
    for number, lines in enumerate(texts):
        if number and not options.beam:
            print()
        for logprobs, tokens in lines:
            line = for_output(vocabulary.decode(tokens[:-1] if tokens[-1] == EOS_ID else tokens))
            if cut and tokens[-1] != EOS_ID:
                line = f"… {line}" if vocabulary.form.reverse else f"{line} …"
            if labels is not None:
                line = f"{for_output(vocabulary.conditions[labels[number]])}\t{line}"
            print("".join(f"{logprob:.4f}\t" for logprob in logprobs if options.scores) + line)
    if cut:
        warn(f"{cut} of {len(texts)} sentences, marked with …, are truncated at --tokens {options.tokens}")


def _read_command_line() -> tuple[argparse.Namespace, Decoding]:
    parser = CommandParser(
        "generate",
        ". Prints one sentence per line.",
        "examples: lmzoo generate outputs/pydoc/lstm; "
        'lmzoo generate outputs/ptb/vlhmm --prompt "the company said" --top-p 0.9 --samples 5 --scores; '
        "lmzoo generate outputs/pydoc/lstm --beam 10 --tokens 30; "
        'lmzoo generate outputs/ptb/lstm --pattern "… profit … fell …" --length 10..15 --guide outputs/ptb/hmm',
    )
    parser.add_run("outputs/pydoc/lstm")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--tokens", type=bounded(Size), default=200, help="number of tokens, <eos> included (200)")
    length.add_argument("--sentences", type=bounded(Size), help="number of whole sentences per text")
    parser.add_number("--samples", Size, "number of texts, separated by empty lines", 1)
    parser.add_argument("--prompt", default="", help="first words of each text; unknown ones become <unk>")
    about = "label of all lines of a conditional model (default: drawn for each text by frequency in train, or given "
    parser.add_argument("--condition", metavar="LABEL", help=f"{about}the prompt), printed with a tab before each line")
    parser.add_argument("--pattern", help="print independent sentences that match a pattern of lmzoo ask")
    parser.add_argument("--length", metavar="10..15", help="number of words of the printed sentences, or of "
                        "characters or pieces where the run has these")  # fmt: skip
    about = "HMM of the same vocabulary that enforces --pattern and --length, if the run is not an HMM"
    parser.add_argument("--guide", action=RunFolder, metavar="RUN", help=about)
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="divides the logits; below 1 favours likely words (1)"
    )
    parser.add_number("--top-k", Size, "sample from the K most likely words; 1: greedy")
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        help="nucleus sampling: from the fewest words with this total probability (1)",
    )
    parser.add_argument("--no-unknown", action="store_true", help="exclude <unk> and renormalize")
    about = "print the most likely sentences found by beam search of this width; … marks those cut at --tokens"
    parser.add_number("--beam", Size, about)
    parser.add_number("--seed", LongSeed, "random seed of the first text, increased by 1 for each further text", 0)
    parser.add_argument(
        "--scores",
        action="store_true",
        help="print log p of each line, in nats, given the prompt; with --pattern, of the sentence, then the guide's",
    )
    parser.add_device()
    options = parser.parse_args()
    try:
        decoding = Decoding(**{field.name: getattr(options, field.name) for field in fields(Decoding)})
    except UserError as error:
        advice = error.advice and error.advice.replace("top_k=1", "--top-k 1")
        raise UserError(f"--{error.problem}".replace("_", "-", 1), advice) from None
    if options.beam and (decoding != Decoding() or options.samples > 1 or options.sentences or options.seed):
        left_out = "--samples, --sentences, --seed, --temperature, --top-k and --top-p"
        raise UserError("--beam does not sample", f"leave out {left_out}")
    options.matching = any(option is not None for option in (options.pattern, options.length, options.guide))
    tokens = options.tokens != parser.get_default("tokens") and not options.beam
    if options.matching and (options.condition or options.sentences or tokens):
        raise UserError("with --pattern, --length and --guide, --samples is the number of sentences",
                        "leave out --sentences and --condition, and --tokens unless there is --beam")  # fmt: skip
    return options, decoding


def _lines(begun: list[int], tokens: Tensor, logprobs: Tensor) -> list[tuple[list[float], list[int]]]:
    """The lines of a (N,) text after the words ``begun``, each with its log p, from (N,) log p of tokens; the last may
    be incomplete.
    """
    ends = (tokens == EOS_ID).nonzero()[:, 0] + 1
    lines = zip(tokens.tensor_split(ends), logprobs.tensor_split(ends), strict=True)
    found = [([float(scores.sum())], line.tolist()) for line, scores in lines if len(line)]
    return [(found[0][0], [*begun, *found[0][1]]), *found[1:]]
