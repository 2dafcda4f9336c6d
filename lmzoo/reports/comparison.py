"""Comparison of runs: differing options, and figures."""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError, format_value, one_line, printable
from lmzoo.core.files import sha256
from lmzoo.reports.table import aligned, csv_bytes
from lmzoo.runs.configuration import short_names
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS, WORD_VECTORS, Kind, kind_of
from lmzoo.runs.results import perplexities

MOST_OPTIONS = 8
"""The maximum number of options in a table for reading."""

FIGURES = {
    "train": ("train", ".2f"), "valid": ("valid", ".2f"), "test": ("test", ".2f"),
    "valid_bits": ("valid bits/character", ".4f"), "test_bits": ("test bits/character", ".4f"),
    "valid_per_word": ("valid per word", ".2f"), "test_per_word": ("test per word", ".2f"),
    "parameters": ("parameters", ",.0f"), "best_epoch": ("best epoch", "g"), "seconds": ("seconds", ",.0f"),
    "tokens_per_second": ("tokens/s", ",.0f"), "device": ("device", ""),
}  # fmt: skip
"""The columns of a table, in order: heading and format of each. Bits are per character, for texts of characters;
perplexity is per word separated by white space also for texts of characters or subwords."""

_MEASURED = ("train", "valid", "test")
"""Perplexities; for labels, the measure of the task in %."""

_REPEATED = ("seed", "task.fold", "task.valid_fold")
"""Runs that differ only in these options are repetitions of an experiment."""

_NOTES = {
    "train": "train: of the words between the last two checks, as they were learnt from, with dropout; "
    "valid and test: of the best weights, without",
    "valid_per_word": "per word: of subwords, perplexity under one segmentation of each word; "
    "under all together it is lower",
}
"""Notes below tables with these figures."""


@dataclass(frozen=True)
class Entry:
    """A finished run.

    Attributes:
        options: its flattened configuration, without options that do not affect results.
        text: the key that comparable runs share: the texts of valid and test, how much of them was read, how many of
            their tokens the model lacks, vocabulary and context; for labels the texts, or the folded one, the unit of
            labels, and the measure.
        words: the size of the vocabulary.
        train_key: the key that repetitions share besides options: the text of train, sources, and precision.
    """

    folder: Path
    options: dict[str, Any]
    results: dict[str, Any]
    text: str
    words: int
    train_key: str

    @property
    def kind(self) -> Kind:
        """The kind of run."""
        return kind_of(self.results)

    @classmethod
    def of(cls, run: Run) -> "Entry | None":
        """The entry of a run, None if it is unfinished; raise a UserError if its files are damaged."""
        config, results = run.config(), run.results()
        if config.kind is WORD_VECTORS:
            raise UserError("word vectors", "lmzoo probe compares them")
        if results is None:
            return None
        options = config.result_options
        words, checksums = run.lines("vocabulary.txt"), run.recorded_corpus()["sha256"]
        if config.kind is LABELS:
            of_task = [options.get(f"task.{key}") for key in ("label", "folds", "seed")]
            texts = [checksums.get(split) for split in ("valid", "test")]
            text = [texts if any(texts) else checksums["train"], of_task, results["measure"]]
        else:
            tokens = results["tokens"], results.get("unlisted_tokens")
            text = [checksums.get("valid"), checksums.get("test"), *tokens, results["context"], words]
        train_key = json.dumps([checksums.get("train"), run.origins(), results.get("precision")], sort_keys=True)
        return cls(run.path, options, results, sha256(json.dumps(text).encode()), len(words), train_key)


@dataclass(frozen=True)
class Row:
    """A line of a table: a run, or runs that are repetitions.

    Attributes:
        figures: means over the runs by `FIGURES`, None if a run has no such figure.
        spread: standard deviations of the perplexities of several runs.
    """

    entries: Sequence[Entry]
    figures: dict[str, Any]
    spread: dict[str, float]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Row":
        """Compute mean and sample standard deviation (n - 1) of the figures of runs."""
        columns = {name: [_figure(entry, name) for entry in entries] for name in FIGURES}
        figures = {name: _mean(values) for name, values in columns.items()}
        measured = {name: columns[name] for name in _MEASURED if len(entries) > 1 and None not in columns[name]}
        finite_ones = {name: values for name, values in measured.items() if all(map(math.isfinite, values))}
        return cls(entries, figures, {name: statistics.stdev(values) for name, values in finite_ones.items()})


@dataclass(frozen=True)
class Group:
    """Comparable runs, the best first.

    Attributes:
        options: the keys of options shown in a table, the learner and those that differ among runs, with short names.
    """

    title: str
    options: dict[str, str]
    rows: list[Row]

    @property
    def kind(self) -> Kind:
        """The kind of all runs."""
        return self.rows[0].entries[0].kind


def collect(folders: Iterable[Path]) -> tuple[list[Entry], dict[Path, str]]:
    """The finished runs in folders; for every other folder, the reason why it is excluded."""
    entries, others = [], {}
    for folder in folders:
        try:
            if entry := Entry.of(Run(folder)):
                entries.append(entry)
            else:
                others[folder] = "unfinished"
        except UserError as error:
            others[folder] = one_line(error).removeprefix(f"{folder}: ").replace(f"{folder}/", "", 1)
    return entries, others


def groups(entries: Sequence[Entry], seeds: bool = False) -> list[Group]:
    """Group runs into tables by text and context, the best on valid first.

    Args:
        seeds: whether to show repetitions in separate rows.
    """
    texts: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        texts[entry.text].append(entry)
    titles = {text: _title(members) for text, members in texts.items()}
    times, tables = Counter(titles.values()), []
    for text, members in sorted(texts.items(), key=lambda item: titles[item[0]]):
        rows = [Row.of(alike) for alike in ([[entry] for entry in members] if seeds else _alike(members))]
        rows.sort(key=lambda row: row.figures["valid"] or 0, reverse=members[0].kind.higher)
        title = titles[text] if times[titles[text]] == 1 else f"{titles[text]}, text {text[:6]}"
        tables.append(Group(title, _shown_options(members, seeds), rows))
    return tables


def _title(members: Sequence[Entry]) -> str:
    first = members[0]
    if first.kind is LABELS:
        return f"{first.results['task']}, {first.results['measure']} in %"
    names = " and ".join(sorted({entry.results["corpus"] for entry in members}))
    unlisted = sum(first.results.get("unlisted_tokens", {}).values())
    lacking = f", {unlisted:,} tokens of words that the model lacks" if unlisted else ""
    return f"{names}, context {first.results['context']}, {first.words:,} words{lacking}"


def _alike(members: Sequence[Entry]) -> list[list[Entry]]:
    """Group repetitions. A second run of the same configuration and seed is not grouped with the first."""
    alike: dict[str, list[Entry]] = defaultdict(list)
    times: Counter[str] = Counter()
    for entry in members:
        whole, unseeded = (entry.train_key + json.dumps({k: v for k, v in entry.options.items() if k not in left_out},
                                                          sort_keys=True)
                           for left_out in ((), _REPEATED))  # fmt: skip
        times[whole] += 1
        alike[f"{times[whole]} {unseeded}"].append(entry)
    return list(alike.values())


def _shown_options(members: Sequence[Entry], seeds: bool) -> dict[str, str]:
    """The learner and the options that differ among runs, the most common options first."""
    values: dict[str, list[str]] = defaultdict(list)
    for entry in members:
        for key, value in entry.options.items():
            values[key].append(json.dumps(value))
    learner = f"{members[0].kind.learner}.name"
    differing = [key for key in values if len(set(values[key])) > 1 and (seeds or key not in _REPEATED)]
    names = {key: key if name in FIGURES else name for key, name in short_names(values).items()}
    names |= {key: key.removesuffix(".name") for key in values if key.endswith(".name")}
    differing.sort(key=lambda key: -len(values[key]))
    return {key: names[key] for key in dict.fromkeys([learner, *differing])}


def _figure(entry: Entry, name: str) -> Any:
    split, _, of = name.partition("_")
    value = entry.kind.figures(entry.results).get(split)
    if of == "per_word":
        return perplexities({"perplexity": entry.results.get("perplexity_per_word", {})}).get(split)
    if of == "bits":
        of_characters = "bits_per_character" in entry.results or entry.options.get("corpus.unit") == "char"
        return math.log2(value) if of_characters and value is not None else None
    if name in ("valid", "test"):
        return 100 * value if entry.kind is LABELS and value is not None else value
    return entry.results.get("train_perplexity" if name == "train" else name)


def _mean(values: Sequence[Any]) -> Any:
    if None in values:
        return None
    if isinstance(values[0], str):
        return " ".join(sorted(set(values)))
    return values[0] if len(set(values)) == 1 else statistics.fmean(values)


def as_text(tables: Sequence[Group]) -> str:
    """Format tables as text."""
    rows = [row for group in tables for row in group.rows]
    of_words = [row for row in rows if row.figures["valid_bits"] is None]  # or of subwords
    noted = {"train": rows, "valid_per_word": of_words}
    notes = [note for name, note in _NOTES.items() if any(row.figures[name] is not None for row in noted[name])]
    return "\n\n".join([*map(_table, tables), *notes])


def _table(group: Group) -> str:
    shown = dict(list(group.options.items())[:MOST_OPTIONS])
    several = any(len(row.entries) > 1 for row in group.rows)
    always = () if group.kind is LABELS else [name for name in FIGURES if not name.endswith(("_bits", "_per_word"))]
    columns = [name for name in FIGURES if name in always or any(row.figures[name] is not None for row in group.rows)]
    header = [*shown.values(), *(["seeds"] if several else []), *(FIGURES[name][0] for name in columns), "run"]
    cells = [header]
    for row in group.rows:
        options = [_values(row, key) for key in shown]
        figures = [_shown(row, name) for name in columns]
        run = f"{row.entries[0].folder}{f' and {len(row.entries) - 1} more' if len(row.entries) > 1 else ''}"
        cells.append([*options, *([str(len(row.entries))] if several else []), *figures, run])
    cells = [[printable(cell) for cell in line] for line in cells]
    lines = [printable(group.title), *aligned(cells, left=[len(header) - 1])]
    if more := len(group.options) - len(shown):
        lines.append(f"{more} more options differ; --csv FILE has them all")
    return "\n".join(lines)


def _values(row: Row, key: str) -> str:
    """The value of an option, or its values if the runs of a row differ in it."""
    return " ".join(dict.fromkeys(format_value(entry.options.get(key, "")) for entry in row.entries))


def _shown(row: Row, name: str) -> str:
    if (value := row.figures[name]) is None:
        return ""
    return format(value, FIGURES[name][1]) + (f" ± {row.spread[name]:.2f}" if name in row.spread else "")


def as_columns(tables: Sequence[Group], every: bool = False) -> dict[str, list[Any]]:
    """The rows of all tables by column, for a data frame, best first: the options that differ, and the figures.

    None stands where a row has no value; options of several values in a row are text, as are lists.

    Args:
        every: whether to include all options, as text, all figures, and the folders of all runs of a row.
    """
    rows = [row for group in tables for row in group.rows]
    shown = (row.entries[0].options for row in rows) if every else (group.options for group in tables)
    options = dict.fromkeys(key for keys in shown for key in keys)
    figures = [name for name in FIGURES if every or any(row.figures[name] is not None for row in rows)]
    spread = [name for name in _MEASURED if every or any(name in row.spread for row in rows)]
    first = [row.entries[0] for row in rows]
    columns: dict[str, list[Any]] = {"corpus": [entry.results[entry.kind.text] for entry in first]}
    columns["context"] = [entry.results.get("context") for entry in first]  # None for labels
    columns |= {key: [(_values if every else _value)(row, key) for row in rows] for key in options}
    columns["seeds"] = [len(row.entries) for row in rows]
    columns |= {name: [row.figures[name] for row in rows] for name in figures}
    columns |= {f"{name}_sd": [row.spread.get(name) for row in rows] for name in spread}
    return columns | {"run": [" ".join(str(e.folder) for e in row.entries[: None if every else 1]) for row in rows]}


def _value(row: Row, key: str) -> Any:
    """The value of an option; the text of several values, or of a list."""
    value = row.entries[0].options.get(key)
    alike = all(entry.options.get(key) == value for entry in row.entries)
    return value if alike and not isinstance(value, list) else _values(row, key)


def as_csv(tables: Sequence[Group]) -> bytes:
    """Format all tables as one CSV file, with all options."""
    columns = as_columns(tables, every=True)
    return csv_bytes([columns, *zip(*columns.values(), strict=True)])
