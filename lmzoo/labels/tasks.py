"""The tasks that a configuration can name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lmzoo.core.errors import UserError
from lmzoo.core.files import sha256, text_bytes
from lmzoo.core.options import Count
from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.sources import data_folders
from lmzoo.labels.formats import Columns, Text

Measure = Literal["accuracy", "f1"]

tasks = Registry("task")


class Task(NamedTuple):
    """Labelled texts by split, how labels are measured, and the words as a corpus that a run can record."""

    texts: dict[str, Text]
    measure: Measure
    corpus: Corpus


def load_task(options: Mapping[str, Any]) -> Task:
    """The task that a configuration's ``task`` group describes."""
    texts, measure, checksums = tasks.build(options)
    words = "\n".join(" ".join(sentence.words) for sentence in texts["train"].sentences)
    return Task(texts, measure, Corpus(options["name"], "sentence", Vocabulary.of([words]), {}, checksums))


@tasks.register("pos")
@tasks.register("upos")
@tasks.register("chunk")
@tasks.register("ner")
def labelled_words(
    *,
    train: str | None,
    valid: str | None,
    test: str | None,
    word: Count,
    label: Count,
    features: list[Count],
    measure: Measure,
) -> tuple[dict[str, Text], Measure, dict[str, str]]:
    """Words with a label each, in columns.

    Args:
        train, valid, test: files, looked for as they are named, then under the folders of data. Train is needed, and
            one of the others.
        word, label, features: columns, the first being 0; features are for models that read more than words.
        measure: accuracy of words, or F1 of the entities that labels such as B-NP and I-NP stand for.
    """
    named = {split: file for split, file in (("train", train), ("valid", valid), ("test", test)) if file}
    if "train" not in named or len(named) < 2:
        raise UserError("task.train=FILE and task.test=FILE (or task.valid) are needed", "a word and its label a line")
    found = {split: _found(file) for split, file in named.items()}
    columns = Columns(word, label, tuple(features))
    texts = {split: Text.read(path, columns) for split, path in found.items()}
    return texts, measure, {split: sha256(text_bytes(path)) for split, path in found.items()}


def _found(file: str) -> Path:
    """A file as it is named, or under the first folder of data that has it."""
    paths = [Path(file), *(folder / file for folder in data_folders())]
    return next((path for path in paths if path.exists()), paths[0])
