"""Model cards in Markdown: data, figures and limits of a run, with the header of Hugging Face."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from lmzoo.core.catalogue import entries
from lmzoo.core.errors import UserError, printable
from lmzoo.core.version import __version__
from lmzoo.corpus.vocabulary import UNK
from lmzoo.reports.table import code_block, code_span, markdown_table, plain_markdown
from lmzoo.runs.directory import FILES, LABELLED, Run
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL, WORD_VECTORS, kind_of, summary

_WSJ = "the Wall Street Journal of Penn Treebank, under the agreement of the Linguistic Data Consortium"

LICENCES = {
    "pydoc": "the documentation of Python, PSF-2.0",
    "ptb": _WSJ,
    "wikitext2": "articles of Wikipedia, CC BY-SA 3.0",
    "markov": "no text: lmzoo draws it from a Markov chain",
    "pos": _WSJ,
    "chunk": _WSJ,
    "upos": "the English Web Treebank of Universal Dependencies, CC BY-SA 4.0",
}
"""Contents and licence of each public corpus, and of the default files of tasks."""

FIGURES = {
    LANGUAGE_MODEL: "Perplexity is exp(−(1/N) Σ log p) over all N tokens of a split: every word, and an `<eos>` for "
    "each line. It compares with that of the same text, vocabulary and context alone.",
    LABELS: "Accuracy is the share of words, texts or trees whose label is right, in %; F1 is of whole entities, as "
    "conlleval counts them, in %.",
    WORD_VECTORS: "The loss is that of training, and no figure of quality; `lmzoo probe` measures the vectors by "
    "similarity and analogy.",
}

LIMITS = {
    LANGUAGE_MODEL: "It has learned which words follow others in this text, with what is wrong or unjust in it, and "
    "nothing else: it is not a source of facts.",
    LABELS: "It has learned the labels of this text, with the mistakes in them; on text of another kind it is worse.",
    WORD_VECTORS: "Words that stand in like surroundings have like vectors, opposites too, and what is unjust in the "
    "text is in them. A word has one vector, whatever its meanings.",
}

USE = {
    LANGUAGE_MODEL: '```python\nimport lmzoo\n\nlm = lmzoo.load({python})\nprint(lm.perplexity("test"))\n'
    "print(lm.sample(tokens=60, seed=0)[0])\n```",
    LABELS: "```sh\nlmzoo tag {shell} FILE\n```",
    WORD_VECTORS: "```sh\nlmzoo probe {shell} --neighbours WORD\n```\n\n`vectors.bin` is in word2vec's binary format, "
    "which gensim reads, too.",
}

TEMPLATE = """---
{header}---

# {title}

{noun} made by lmzoo {version}: {learner}. {about}

## Figures

{summary}

{figures} This is one run, with seed {seed}.

## Data

{text}: {licence}.

{splits}

## Training

{options}

`config.yaml` has all options; `provenance.json` the versions, the machine, and the command.

{made_from}## Limits

It knows {words:,} words{unknown}. {limits}

## How to load it

It takes lmzoo {version} or later, and a folder {folder} with `{files}`.

{use}
"""


def card(run: Run) -> str:
    """The model card of a finished run: data, options unlike the defaults, figures, limits, how to load it.

    Everything in it is from the files of the run. No licence is chosen for the model.

    Raises: UserError if the run is not finished, or its files are damaged.
    """
    results = run.results()
    if results is None:
        raise UserError(f"{run.path}: is not finished, so it has no figures", "train it to its end")
    kind, config = kind_of(results), run.config()
    learner, text, words = results[kind.learner], results[kind.text], run.lines("vocabulary.txt")
    unlike, folder = config.unlike_defaults, run.path.resolve().name
    own_files = any(key in unlike for key in ("task.train", "task.valid", "task.test"))
    licence = None if own_files else LICENCES.get(config[kind.text]["name"])
    counts = results["tokens"] if kind is LANGUAGE_MODEL else {}
    splits = [(plain_markdown(split), f"{counts[split]:,}" if split in counts else "", code_span(checksum))
              for split, checksum in run.recorded_corpus()["sha256"].items()]  # fmt: skip
    options = [(k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in unlike.items()]
    sources = [(option, *each) for option, checksums in run.origins().items() for each in checksums.items()]
    files = [file for file in FILES if file in run.names() and file not in ("last.pt", "train.log", *LABELLED)]
    shell = shlex.quote(printable(f"./{folder}" if folder.startswith("-") else folder))
    entry = entries(kind.learner).get(learner)
    of_labels = "text-classification" if text in ("classify", "trees") else "token-classification"
    header = {
        "library_name": "lmzoo",
        "pipeline_tag": {LANGUAGE_MODEL: "text-generation", WORD_VECTORS: "feature-extraction"}.get(kind, of_labels),
        "tags": [kind.noun.removeprefix("a ").replace(" ", "-"), learner],
        "datasets": [text],
        "metrics": [{LANGUAGE_MODEL: "perplexity", LABELS: results.get("measure"), WORD_VECTORS: "loss"}[kind]],
    }
    return TEMPLATE.format(
        header=yaml.safe_dump(header, sort_keys=False, allow_unicode=True),
        title=plain_markdown(f"{learner} on {text}"), learner=code_span(learner),
        noun="A labeller" if kind is LABELS else kind.noun.capitalize(),
        version=plain_markdown(run.starts()[0].get("versions", {}).get("lmzoo", __version__)),
        about=entry.title if entry else "", summary=code_block(summary(results)),
        figures=" ".join([FIGURES[kind], *_language_model(results)]), seed=results["seed"], text=plain_markdown(text),
        licence=licence or "lmzoo does not know its licence; whoever publishes the run says it here",
        splits="\n".join(markdown_table([("split", "tokens", "SHA-256"), *splits])),
        options=_table(("option unlike the default", "value"), options) or "All options have lmzoo's defaults.",
        made_from="It is made from:\n\n{}\n\n".format(_table(("option", "source", "SHA-256"), sources)) * bool(sources),
        words=len(words), unknown=f" and reads every other one as `{UNK}`" if UNK in words else "", limits=LIMITS[kind],
        folder=code_span(folder), files="`, `".join(files), use=USE[kind].format(python=repr(folder), shell=shell),
    )  # fmt: skip


def _language_model(results: Mapping[str, Any]) -> list[str]:
    """The conditions of the measurement of perplexity."""
    context = {"stream": "The model remembers what comes before, across lines as well.",
               "sentence": "Each line is scored by itself."}.get(results.get("context", ""))  # fmt: skip
    checks = len(results.get("checks") or ())
    chosen = f"The weights are the best on valid of {checks} checks; nothing was chosen on test."
    return [context, *([chosen] if checks else [])] if context else []


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with cells of code; empty without rows."""
    return "\n".join(markdown_table([header, *(list(map(code_span, row)) for row in rows)])) if rows else ""
