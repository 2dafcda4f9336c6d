"""Label a text with a trained run: ``lmzoo tag RUN [FILE]``."""

import argparse
from itertools import chain
from pathlib import Path

from lmzoo.cli.command import CommandParser, check_output, text_file, warn
from lmzoo.core.errors import UserError, for_output, pluralize
from lmzoo.core.files import write_output
from lmzoo.corpus.tokenizer import PROSE, TOKENIZERS, with_punctuation
from lmzoo.labels.formats import PlainText
from lmzoo.labels.model import Labeller
from lmzoo.labels.tasks import LabelledWords, Task, tasks
from lmzoo.reports.confusion import picture_of_confusion, shares
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import load_labeller


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "tag",
        ", a run of lmzoo label. Prints the text with its labels replaced by "
        "predicted ones. The text has the format of the training text: columns, or lines of a label, a tab and a text. "
        "Labels may be missing. With --text it has one sentence per line.",
        "examples: lmzoo tag outputs/upos/crf new.conllu > labelled.conllu; "
        'echo "They walk home." | lmzoo tag outputs/upos/crf --text --tokenize treebank',
    )
    parser.add_run("outputs/pos/hmm_tagger", "the folder of a run of lmzoo label")
    parser.add_argument("text", nargs="?", default="-", help="a file; -: standard input (default)")
    about = "read raw text, one sentence per line, and print one word per line with its label"
    parser.add_argument("--text", dest="plain", action="store_true", help=about)
    parser.add_tokenize()
    parser.add_file("--plot", "plot the confusion matrix, for a fully labelled text")
    arguments = parser.parse_args()
    if arguments.tokenize and not arguments.plain:
        raise UserError(f"--tokenize {arguments.tokenize}: applies only to raw text", "add --text")
    if arguments.plot and arguments.plain:
        raise UserError(f"--plot {arguments.plot}: needs a text with labels", "leave out --text")
    check_output(picture=arguments.plot)
    run = load_labeller(arguments.run)
    labeller = run.labeller
    task: Task = tasks.build(run.task)
    task.layout = run.layout
    if arguments.plain:
        text = sentences(labeller, task, arguments)
    else:
        text = task.read(text_file(arguments), labelled=arguments.plot is not None)
    warn(Run(arguments.run).unfinished())
    labels = [task.to_text_scheme(predicted) for predicted in labeller.label(text.sentences)]
    print(for_output(text.written(labels).decode(), "\n\t"), end="")
    if arguments.plot:
        right = [label for sentence in text.sentences for label in sentence.labels]
        drawn = shares(right, list(chain.from_iterable(labels)))
        title = f"{arguments.run} on {Path(arguments.text).name}"
        write_output(arguments.plot, picture_of_confusion(*drawn, title, arguments.plot))


def sentences(labeller: Labeller, task: Task, arguments: argparse.Namespace) -> PlainText:
    """Read plain sentences; raise a UserError if the labeller reads more than words."""
    if labeller.kind == "tree":
        raise UserError(f"--text: {arguments.run} labels trees", "give a file of trees")
    if isinstance(task, LabelledWords) and (features := len(task.columns.features)):
        further = "a further column" if features == 1 else f"{features} further columns"
        raise UserError(f"--text: {arguments.run} reads {further} of each word", "give a file of columns")
    tokenize = TOKENIZERS[arguments.tokenize] if arguments.tokenize else str
    text = PlainText(text_file(arguments), labeller.kind == "text", tokenize)
    if arguments.tokenize == "ptb" and not text.whole:
        warn("--tokenize ptb: drops the capitals, numbers and punctuation that taggers read; treebank leaves them")
    if text.whole and text.empty:
        warn(f"{arguments.text}: {pluralize(text.empty, 'line')} without words left out")
    words = [word for sentence in text.sentences for word in sentence.words]
    if not arguments.tokenize and len(stuck := with_punctuation(words)) > PROSE * len(words):
        warn(f"{arguments.text}: {len(stuck):,} of {len(words):,} words have punctuation attached to them, such as "
             f"'{stuck[0]}'; --tokenize treebank separates it")  # fmt: skip
    return text
