"""The card of a run: what whoever gets its folder should know, as Markdown with the header of Hugging Face's cards."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from lmzoo.core.catalogue import entries
from lmzoo.core.errors import UserError, printable
from lmzoo.core.version import __version__
from lmzoo.corpus.vocabulary import UNK
from lmzoo.reports.table import code_block, code_span, markdown_table, plain_markdown
from lmzoo.runs.directory import FILES, LABELLED, Run
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL, WORD_VECTORS, Kind, kind_of, summary

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
"""What the corpora that lmzoo names are, with their licences, and what tasks read where no file is named."""

PROTOCOL = {
    LANGUAGE_MODEL: "Perplexity is exp(−(1/N) Σ log p) over all N tokens of a split: every word, and an `<eos>` for "
    "each line. It compares with that of the same text, vocabulary and context alone.",
    WORD_VECTORS: "The loss is that of training, and no figure of quality; `lmzoo probe` measures the vectors by "
    "similarity and analogy.",
}

MEASURES = {
    "accuracy": "Accuracy is the share of words, texts or trees whose label is right, in %.",
    "f1": "F1 is of whole entities, as conlleval counts them, in %.",
}

CONTEXTS = {
    "stream": "The model remembers what comes before, across lines as well.",
    "sentence": "Each line is scored by itself.",
}

LIMITS = {
    LANGUAGE_MODEL: "It has learnt which words follow others in this text, with what is wrong or unjust in it, and "
    "nothing else: it is no source of facts.",
    LABELS: "It has learnt the labels of this text, with the mistakes in them; on text of another kind it is worse.",
    WORD_VECTORS: "Words that stand in like surroundings have like vectors, opposites too, and what is unjust in the "
    "text is in them. A word has one vector, whatever its meanings.",
}

TASKS = {"classify": "text-classification", "trees": "text-classification"}
"""Hugging Face's names of tasks; those of other labels are token-classification."""

USE = {
    LANGUAGE_MODEL: '```python\nimport lmzoo\n\nlm = lmzoo.load({python})\nprint(lm.perplexity("test"))\n'
    "print(lm.sample(tokens=60, seed=0)[0])\n```",
    LABELS: "```sh\nlmzoo tag {shell} FILE\n```",
    WORD_VECTORS: "```sh\nlmzoo probe {shell} --neighbours WORD\n```\n\n`vectors.bin` is in word2vec's binary format, "
    "which gensim reads, too.",
}


def card(run: Run) -> str:
    """The card of a finished run: its data, the options unlike the defaults, its figures, its limits, how to load it.

    Everything in it is what the files of the run say. It chooses no licence for the model.

    Raises: UserError for a run that is not finished, or one whose files are damaged.
    """
    results = run.results()
    if results is None:
        raise UserError(f"{run.path}: is not finished, so it has no figures", "train it to its end")
    kind, config, begun_with = kind_of(results), run.config(), run.trained_on()
    learner, text, words = results[kind.learner], results[kind.text], run.lines("vocabulary.txt")
    name = f"{learner} on {text}"
    entry = entries(kind.learner).get(learner)
    unlike, folder = config.unlike_defaults, run.path.resolve().name
    in_shell = shlex.quote(printable(f"./{folder}" if folder.startswith("-") else folder))
    version = plain_markdown(run.starts()[0].get("versions", {}).get("lmzoo", __version__))
    noun = "A labeller" if kind is LABELS else kind.noun.capitalize()
    unknown = f" and reads every other one as `{UNK}`" if UNK in words else ""
    files = [file for file in FILES if file in run.names() and file not in ("last.pt", "train.log", *LABELLED)]
    parts = [
        f"---\n{yaml.safe_dump(_header(kind, name, results), sort_keys=False, allow_unicode=True)}---",
        f"# {plain_markdown(name)}",
        f"{noun} made by lmzoo {version}: {code_span(learner)}. {entry.title if entry else ''}".strip(),
        "## Figures",
        code_block(summary(results)),
        " ".join(_protocol(kind, results)),
        "## Data",
        _data(kind, config, text, unlike),
        _table(("split", "tokens", "SHA-256"), *_splits(results, begun_with)),
        "## Training",
        _options(unlike),
        "`config.yaml` has all options; `provenance.json` the versions, the machine, and the command.",
        *_made_from(run),
        "## Limits",
        f"It knows {len(words):,} words{unknown}. {LIMITS[kind]}",
        "## How to load it",
        f"It takes lmzoo {version} or later, and a folder {code_span(folder)} with `{'`, `'.join(files)}`.",
        USE[kind].format(python=repr(folder), shell=in_shell),
    ]
    return "\n\n".join(parts) + "\n"


def _header(kind: Kind, name: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """What Hugging Face's cards have between lines of ``---``."""
    learner, text = results[kind.learner], results[kind.text]
    of_labels = TASKS.get(text, "token-classification")
    task = {LANGUAGE_MODEL: "text-generation", LABELS: of_labels, WORD_VECTORS: "feature-extraction"}[kind]
    metric = {LANGUAGE_MODEL: "perplexity", LABELS: results.get("measure"), WORD_VECTORS: "loss"}[kind]
    measured = [
        {
            "task": {"type": task},
            "dataset": {"name": text, "type": text, "split": "train" if split == "loss" else split},
            "metrics": [{"type": metric, "value": value}],
        }
        for split, value in kind.figures(results).items()
    ]
    return {
        "library_name": "lmzoo",
        "pipeline_tag": task,
        "tags": [kind.noun.removeprefix("a ").replace(" ", "-"), learner],
        "datasets": [text],
        **({"metrics": [metric], "model-index": [{"name": name, "results": measured}]} if measured else {}),
    }


def _protocol(kind: Kind, results: Mapping[str, Any]) -> Iterator[str]:
    """How the figures were measured."""
    yield MEASURES[results["measure"]] if kind is LABELS else PROTOCOL[kind]
    if kind is LANGUAGE_MODEL:
        yield CONTEXTS[results["context"]]
        if checks := results.get("checks"):
            yield f"The weights are the best on valid of {len(checks)} checks; nothing was chosen on test."
    yield f"This is one run, with seed {results['seed']}."


def _data(kind: Kind, config: Mapping[str, Any], text: str, unlike: Mapping[str, Any]) -> str:
    """What the text is, with its licence where that is known."""
    own = any(key in unlike for key in ("task.train", "task.valid", "task.test"))
    known = None if own else LICENCES.get(config[kind.text]["name"])
    return (
        f"{plain_markdown(text)}: {known or 'lmzoo does not know its licence; whoever publishes the run says it here'}."
    )


def _splits(results: Mapping[str, Any], begun_with: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    counts = results.get("tokens") or results.get("words")
    counts = counts if isinstance(counts, Mapping) else {}
    return [(plain_markdown(split), f"{counts[split]:,}" if split in counts else "", code_span(checksum))
            for split, checksum in begun_with["sha256"].items()]  # fmt: skip


def _options(unlike: Mapping[str, Any]) -> str:
    if not unlike:
        return "All options have lmzoo's defaults."
    shown = [(code_span(key), code_span(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
             for key, value in unlike.items()]  # fmt: skip
    return _table(("option unlike the default", "value"), *shown)


def _made_from(run: Run) -> list[str]:
    """What the run started from, or was made of."""
    rows = [(code_span(option), code_span(name), code_span(checksum))
            for option, sources in run.made_from().items() for name, checksum in sources.items()]  # fmt: skip
    return ["It is made from:", _table(("option", "what it names", "SHA-256"), *rows)] if rows else []


def _table(*rows: tuple[str, ...]) -> str:
    return "\n".join(markdown_table(rows))
