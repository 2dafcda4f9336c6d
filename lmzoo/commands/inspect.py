"""Show what is inside a hidden Markov model or a linear dynamical system: ``lmzoo inspect RUN``."""

import math

import torch

from lmzoo.cli.command import CommandParser, bounded, check_output, require_kind, warn_of
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import write_output
from lmzoo.core.options import Count, Size
from lmzoo.corpus import EOS, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.models.hmm.hidden_markov import BlockHMM, DenseHMM, HiddenMarkovModel
from lmzoo.models.hmm.inference.paths import posterior
from lmzoo.models.hmm.reading import entropy, expected_visits, read
from lmzoo.models.lds.lds import LinearDynamicalSystem, singular_words
from lmzoo.protocol.lines import known_words, mark_unknown
from lmzoo.reports.inside import picture_of_states, transitions
from lmzoo.runs.external import open_model

PAIRS, COMMON = 10, 3000
"""The number of pairs of singular vectors shown of a linear dynamical system, and of frequent words considered."""


class Inspector:
    """Describes the hidden states of an HMM as lines of text, with the ``top`` words or states per list."""

    def __init__(self, model: HiddenMarkovModel, vocabulary: Vocabulary, top: int):
        self.model, self.vocabulary, self.top = model, vocabulary, top

    def words(self, logprobs: torch.Tensor, top: int | None = None) -> str:
        """Format the likeliest words by (V,) log-probabilities with percentages; words of 0% are omitted."""
        likeliest = logprobs.exp().topk(min(top or self.top, len(self.vocabulary)))
        return ", ".join(
            f"{printable(self.vocabulary.words[word])} {100 * p:.0f}"
            for word, p in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
            if p >= 0.005
        )

    @torch.no_grad()
    def state(self, z: int) -> list[str]:
        """The likeliest words of hidden state z, the likeliest next words and next states."""
        if not 0 <= z < self.model.states:
            raise UserError(f"--state {z}: there are states 0 to {self.model.states - 1}")
        next_states = self.model.successors(z).exp().topk(min(self.top, self.model.states))
        lines = [
            f"state {z}",
            f"emits, in %:       {self.words(self.model.words(z))}",
            f"next words, in %:  {self.words(self.model.next_words(z))}",
            "next states:",
        ]
        for following, p in zip(next_states.indices.tolist(), next_states.values.tolist(), strict=True):
            lines.append(f"{100 * p:6.1f}%  state {following:<7d} {self.words(self.model.words(following), 5)}")
        return lines

    @torch.no_grad()
    def sentence(self, text: str) -> list[str]:
        """Describe the likeliest path of a sentence: words, states, and their posterior probabilities."""
        tokens = self.vocabulary.encode([text], "--sentence")
        order = self.vocabulary.text_order(tokens)
        known = known_words(self.model, self.vocabulary)[tokens[order]]
        words = mark_unknown([*self.vocabulary.form.without_reverse.words(text), EOS], known.tolist())
        reading = read(self.model, tokens)
        if reading.logprob == -math.inf:
            problem = f"--sentence '{text}': has probability 0 under the model, so there is no most likely path"
            raise UserError(problem)
        on_path = reading.states == reading.path[:, None]  # (T, S)
        gamma = posterior(reading.chain, torch.tensor([len(tokens)], device=self.model.device))
        lines = [f"{'word':>16}  {'state':<7} {'p(z|x)':<7} the state emits, in %"]
        path, shares = reading.path[order].tolist(), gamma[0][on_path][order].tolist()
        for word, z, p in zip(words, path, shares, strict=True):
            emitted = self.words(self.model.words(z), 5)
            lines.append(f"{printable(word):>16}  {z:<7d} {p:<7.2f} {emitted}")
        lines.append(f"log p(x) = {reading.logprob:.2f} nats, of which this path has {100 * reading.share:.2g}%")
        return lines

    def usage(self, tokens: torch.Tensor, visits: torch.Tensor, split: str) -> list[str]:
        """Describe the use of states by the (N,) text of a split, by `expected_visits`, and the most visited states."""
        equal = math.exp(entropy(visits))
        lines = [
            f"{len(tokens):,} tokens of {split} visit {int((visits >= 1).sum()):,} of {len(visits):,} states at least "
            f"once on average; entropy {math.log(equal):.3f} nats, that of {equal:,.0f} states used equally often",
            "share of all visits, state, words it emits, in %:",
        ]
        for z in visits.topk(min(self.top, len(visits))).indices.tolist():
            emitted = self.words(self.model.words(z), 8)
            lines.append(f"{100 * float(visits[z] / visits.sum()):6.2f}%  state {z:<7d} {emitted}")
        return lines


def dynamics(model: LinearDynamicalSystem, vocabulary: Vocabulary, top: int) -> list[str]:
    """Describe the leading singular vectors of A: σ, and ``top`` words at either end."""
    A, C, R = (part.double().cpu() for part in (model.A, model.C[:COMMON], model.spherical))
    lines = []
    for sigma, *ends in singular_words(A, C, R, PAIRS, min(top, len(C))):
        now, following = (printable(" ".join(vocabulary.words[word] for word in end.tolist())) for end in ends)
        lines.append(f"{sigma:.2f}  {now}  →  {following}")
    return lines


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "inspect",
        ". With --state: which words a state emits, and which words and states "
        "follow it. With --sentence: the most likely states of the sentence (Viterbi). Without both: how much a split "
        "uses the states. For a linear dynamical system: the words with the extreme values on the leading singular "
        "vectors of its transition matrix; the words on the left tend to be followed by those on the right.",
        "examples: lmzoo inspect outputs/ptb/lds; lmzoo inspect outputs/ptb/vlhmm "
        '--state 7 --sentence "the company said it will sell its shares"',
    )
    parser.add_run("outputs/ptb/vlhmm", "a run directory")
    parser.add_argument(
        "--state", type=bounded(Count), action="append", default=[], help="index of a state; may be repeated"
    )
    parser.add_argument("--sentence", action="append", default=[], help="words separated by spaces; may be repeated")
    parser.add_argument("--split", choices=SPLITS, help="split for which the use of states is shown (valid)")
    parser.add_number("--top", Size, "number of words or states per list (12; dynamics: 6)")
    parser.add_file("--plot", "plot transitions and the use of states")
    parser.add_device()
    options = parser.parse_args()
    for option, does in (("plot", "plots"), ("split", "is of")):
        if (given := getattr(options, option)) and (options.state or options.sentence):
            raise UserError(f"--{option} {given}: {does} the whole model", "leave out --state and --sentence")
    check_output(picture=options.plot)
    run, opened, vocabulary = open_model(options.run, options.device)
    needed = "a hidden Markov model, such as model=vlhmm, or a linear dynamical system, such as model=lds"
    model = require_kind(run, opened, (DenseHMM, BlockHMM, LinearDynamicalSystem), needed)
    warn_of(run, vocabulary)
    if isinstance(model, LinearDynamicalSystem):
        for option in ("state", "sentence", "split", "plot"):
            if getattr(options, option):
                raise UserError(f"--{option}: is of a hidden Markov model, and {run.path} is none", "leave it out")
        print("\n".join(dynamics(model, vocabulary, options.top or 6)))
        return
    inspector = Inspector(model, vocabulary, options.top or 12)
    with model.frozen():
        if not options.state and not options.sentence:
            split, corpus = options.split or "valid", run.corpus()
            tokens = corpus.splits[split]
            visits = expected_visits(model, tokens)
            print("\n".join(inspector.usage(tokens, visits, split)))
            if options.plot:
                frequency = corpus.splits["train"].bincount(minlength=len(vocabulary))
                drawn = transitions(model, vocabulary, frequency, visits)
                write_output(options.plot, picture_of_states(*drawn, visits, f"{split} of {corpus.name}", options.plot))
        for z in options.state:
            print("\n".join(inspector.state(z)))
        for sentence in options.sentence:
            print("\n".join(inspector.sentence(sentence)))
