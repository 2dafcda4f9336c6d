"""Tables of options, made of the classes of options: sentences, types, bounds, defaults."""

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import table

import lmzoo.labels
import lmzoo.models
import lmzoo.words.vectors  # noqa: F401  # their entries are registered
from lmzoo.core.catalogue import entries
from lmzoo.core.options import Bounds, Described, Source, schema
from lmzoo.corpus.entries import corpora
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import tasks
from lmzoo.protocol.model import models
from lmzoo.runs.trainer_options import trainers
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.words.vectors.method import methods

ENTRIES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    registry.kind: registry.entries
    for registry in (models, labellers, methods, tasks, corpora, optimizers, schedules, trainers)
}
NUMBERS = {int: "integer", float: "number", bool: "true or false", str: "text"}
LARGEST = 2**31 - 1
"""Bounds from here on only keep numbers in their type, and are not told."""


def type_of(annotation: Any) -> str:
    """What an option may be, in words: ``integer ≥ 1``, ``tanh | relu``, ``a run or file``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation == Source:
        return "run or file"
    if origin is Annotated:
        said = [extra.text for extra in arguments[1:] if isinstance(extra, Described)]
        bounds = [extra for extra in arguments[1:] if isinstance(extra, Bounds)]
        return "".join(said) or type_of(arguments[0]) + "".join(map(_interval, bounds))
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(type_of, arguments))
    if origin in (list, Sequence):
        return f"list, each {type_of(arguments[0])}"
    return "null" if annotation is types.NoneType else NUMBERS[annotation]


def _interval(bounds: Bounds) -> str:
    ends = [] if bounds.low is None else [f"≥ {bounds.low}"]
    if bounds.high is not None and bounds.high < LARGEST:
        ends.append(f"{'<' if bounds.open_above else '≤'} {bounds.high}")
    return f" {' and '.join(ends)}"


def options(group: str, names: list[str]) -> list[tuple[str, str, str, str]]:
    """The rows of a table: option, default, type, meaning; of several entries those of all.

    Where entries have other defaults each is told.
    """
    rows: dict[str, tuple[str, str]] = {}
    found: dict[str, dict[str, str]] = {}
    for name in names:
        kinds = schema(ENTRIES[group][name])
        for option, (default, said) in entries(group)[name].options.items():
            sentence = re.sub(r" \[[^\]]+ \| [^\]]+\]$", "", said.replace("None", "null"))
            rows.setdefault(option, (type_of(kinds[option]), sentence))
            found.setdefault(option, {})[name] = _yaml(default)
    return [(option, _defaults(found[option], len(names)), *row) for option, row in rows.items()]


def _defaults(of: Mapping[str, str], entries: int) -> str:
    values = dict.fromkeys(of.values())
    if len(values) == 1 and len(of) == entries:
        return values.popitem()[0]
    names = {value: ", ".join(name for name in of if of[name] == value) for value in values}
    return ", ".join(f"{value} ({having})" for value, having in names.items())  # such as 200 (rnn), 100 (gru, lstm)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=LARGEST)
    return text.removesuffix("...\n").strip()


class Options(SphinxDirective):
    """``{options} model rnn lstm``: the options of entries of a group."""

    required_arguments = 2
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        group, *names = " ".join(self.arguments).split()
        if unknown := [name for name in names if name not in ENTRIES.get(group, {})]:
            raise self.error(f"no {group}={unknown[0]}")
        rows = [
            [
                [nodes.literal("", f"{group}.{option}={default}"), nodes.inline("", kind, classes=["type"])],
                _text(sentence),
            ]
            for option, default, kind, sentence in options(group, names)
        ]
        return [table([f"{group}={', '.join(names)}", "what it is"], rows, "options")]


def _text(sentence: str) -> list[nodes.Node]:
    parts = re.split(r"``?(.+?)``?", sentence)
    return [nodes.literal("", part) if place % 2 else nodes.Text(part) for place, part in enumerate(parts)]


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("options", Options)
    return {"parallel_read_safe": True}
