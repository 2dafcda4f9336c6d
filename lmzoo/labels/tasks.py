"""Registered tasks."""

import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError, format_value, shortened
from lmzoo.core.files import sha256, text_bytes
from lmzoo.core.options import Bounds, Count, Idle, Options, Seed, configured
from lmzoo.core.registry import Registry
from lmzoo.corpus import EOS, Corpus, Vocabulary
from lmzoo.corpus.conditions import header_warning, label_counts
from lmzoo.corpus.sources import data_folders
from lmzoo.corpus.vocabulary import has_other_normal_form
from lmzoo.labels.columns import Columns, ColumnText
from lmzoo.labels.formats import LabelledText, Layout, LineText, Sentence
from lmzoo.labels.metrics import accuracy, entity_f1, unknown_accuracy
from lmzoo.labels.model import LabelKind, Labeller, labellers
from lmzoo.labels.schemes import IOB, IOB2, IOBES, LABEL, SCHEMES, Scheme, family
from lmzoo.labels.trees import TreeText

Measure = Literal["accuracy", "f1"]

STDIN = Path("/dev/stdin")

FEW_LABELS = 10
"""The number of distinct labels that never causes a warning."""

REPEATED, FEW_REPEATED = 0.1, 10
"""The share and the number of sentences of train in another split up to which there is no warning, as short ones recur
in any text."""

tasks = Registry("task")


class TaskOptions(Options):
    """The files of a task."""

    train: str | None = None
    """a file, searched for as given, then under $LMZOO_DATA and data/. Required, as is valid or test."""
    valid: str | None = None
    """likewise; used to select the best epoch."""
    test: str | None = None
    """likewise."""


class Task(ABC):
    """What to label, the texts, and the measures.

    Attributes:
        kind: the unit of labels.
        measure: the one of `figures` for results and for selection of the best epoch.
        example: a description of the file format.
        scheme: the scheme of labels that models learn; None: that of the texts.
        files: files by split, as in the options.
        layout: the layout of train, available after it is read, or from a run.
        notes: warnings of the texts.
    """

    kind: LabelKind
    measure: Measure = "accuracy"
    example: str
    scheme: str | None = None
    layout: Layout | None = None

    @configured(TaskOptions)
    def __init__(self, options: TaskOptions):
        files = {"train": options.train, "valid": options.valid, "test": options.test}
        self.files = {split: str(file) for split, file in files.items() if file}
        self.notes: list[str] = []

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> LabelledText:
        """Read a file in the layout of train. Labels may be missing unless ``labelled``."""

    def texts(self, paths: Mapping[str, Path]) -> dict[str, LabelledText]:
        """Read the text of each split, train first."""
        if "train" not in paths or len(paths) < 2:
            raise UserError("task.train=FILE and task.test=FILE (or task.valid) are needed", self.example)
        texts: dict[str, LabelledText] = {}
        for split in dict.fromkeys(("train", *paths)):
            texts[split] = text = self.read(paths[split])
            self.layout = self.layout or self.layout_of(text)
            if text.left_out:
                self.notes.append(f"{paths[split]}: {text.left_out} are no words")
        return texts

    def layout_of(self, train: Any) -> Layout:
        """The layout of train, which a run records."""
        return Layout(labels=sorted({label for sentence in train.sentences for label in sentence.labels}))

    @property
    def _text_scheme(self) -> Scheme:
        """The scheme of the texts."""
        return SCHEMES[self.layout.scheme] if self.layout and self.layout.scheme else IOB2

    def to_model_scheme(self, labels: Sequence[str]) -> list[str]:
        """The labels of a sentence in the scheme of the model."""
        return self._text_scheme.translated(labels, IOBES) if self.scheme else [*labels]

    def to_text_scheme(self, labels: Sequence[str]) -> list[str]:
        """The labels of a sentence in the scheme of the text."""
        return IOBES.translated(labels, self._text_scheme) if self.scheme else [*labels]

    def figures(
        self, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]], known: Collection[str]
    ) -> dict[str, Any]:
        """Measures from 0 to 1; ``known`` are the words of train."""
        return {"accuracy": accuracy(sentences, predicted)}


def load_task(
    options: Mapping[str, Any], labeller: Labeller, name: str
) -> tuple[Task, dict[str, LabelledText], Corpus]:
    """Build a task from the group ``task``. Returns: it, its texts by split, and their words for a run to record.

    Args:
        labeller, name: the labeller to train, and its name.

    Raises: UserError if the labeller has another unit of labels, and as reading texts does.
    """
    task: Task = tasks.build(options)
    if labeller.kind != task.kind:
        labels = {"words": "words", "text": "texts", "tree": "trees"}[labeller.kind]
        has = {"words": "a label for each word", "text": "one label for a text", "tree": "labels in trees"}[task.kind]
        able = sorted(x for x, entry in labellers.entries.items() if getattr(entry, "kind", None) == task.kind)
        problem = f"labeller={name} labels {labels}, and task={options['name']} has {has}"
        pooled = ", or set labeller.pooling" * (task.kind == "text" and hasattr(labeller, "pooling"))
        raise UserError(problem, f"choose labeller={' or '.join(able)}{pooled}")
    paths = {split: _path(file) for split, file in task.files.items()}
    for split, path in paths.items():
        if path.is_fifo():
            raise UserError(f"task.{split}={path}: a pipe can be read only once", "write its text into a file")
    texts = task.texts(paths)
    counts = Counter(word for sentence in texts["train"].sentences for word in sentence.words)
    if task.kind == "text":
        task.notes.append(label_counts(Counter(s.labels[0] for s in texts["train"].sentences)))
    task.notes += label_warnings(texts, of_entities=task.measure == "f1")
    for split, text in texts.items():
        others = {word for sentence in text.sentences for word in sentence.words if word not in counts}
        if spelt := sorted(word for word in others if has_other_normal_form(word, counts)):
            forms = f"words of train in another Unicode normal form: {len(spelt):,}, such as '{spelt[0]}'"
            task.notes.append(f"{split}: {forms}; normalize the texts")
    usual = defaults("task", options["name"])
    if task.files["train"] != usual["train"]:
        own = "the default, and train is your own: set a file of yours, or null"
        task.notes += [f"task.{split}={file} is {own}" for split, file in task.files.items() if file == usual[split]]
    checksums = {split: sha256(text_bytes(path)) for split, path in paths.items()}
    words = Vocabulary([EOS, *(word for word, _ in counts.most_common() if word != EOS)])
    return task, texts, Corpus(options["name"], "sentence", words, {}, checksums)


def label_warnings(texts: Mapping[str, LabelledText], of_entities: bool) -> Iterator[str]:
    """Warn of suspicious labels: a single one in train, nearly as many as words, two spellings, a header, labels of
    other splits that are missing in train, and words without labels; and of sentences of train in other splits.

    Args:
        of_entities: whether labels are a letter and a type, and only missing types are reported.
    """
    counts = {split: Counter(label for sentence in text.sentences for label in sentence.labels)
              for split, text in texts.items()}  # fmt: skip
    for split, labels in counts.items():
        if isinstance(text := texts[split], ColumnText) and text.separator == "CoNLL-U" and "_" in labels:
            number = f"{labels['_']:,} of {labels.total():,}"
            yield f"{split}: {number} labels are '_', which stands for none in CoNLL-U and counts as one here"
    train = counts.pop("train")
    if len(train) == 1:
        yield f"train has no other label than '{shortened(next(iter(train)), 40)}'"
    elif len(train) > max(FEW_LABELS, train.total() // 2):
        yield f"train has {len(train):,} different labels in {train.total():,} places; are they in another column?"
    if doubt := header_warning(texts["train"].sentences[0].labels[0], train):
        yield doubt
    spelt = {"".join(unicodedata.normalize("NFKC", label).casefold().split()): label for label in train}
    distinct = {*spelt.values()}
    if twice := [label for label in train if label not in distinct]:
        yield f"train has labels that differ from others only in case or blanks: {shortened(repr(twice)[1:-1], 80)}"
    known = {label[2:] for label in train} | {""} if of_entities else set(train)
    for split, labels in counts.items():
        if lacking := [label for label in labels if (label[2:] if of_entities else label) not in known]:
            number = f"{sum(labels[label] for label in lacking):,} of {labels.total():,}"
            yield f"{split}: {number} labels are none of train's: {shortened(', '.join(lacking), 80)}"
    learnt = {tuple(sentence.words) for sentence in texts["train"].sentences}
    for split in counts:
        same = [tuple(sentence.words) in learnt for sentence in texts[split].sentences]
        if sum(same) > max(FEW_REPEATED, REPEATED * len(same)):
            number = f"{sum(same):,} of its {len(same):,} sentences"
            yield f"{split}: {number} are in train, too: its figures tell less of other text; keep one copy of each"


class LabelledWordsOptions(TaskOptions):
    word: Count = 0
    """index of the column of words, from 0."""
    label: Count = 1
    """index of the column of labels."""
    features: Sequence[Count] = ()
    """indices of columns that models may read besides the word."""
    measure: Measure = "accuracy"
    """accuracy of words, or f1 of the entities that labels such as B-NP and I-NP encode."""
    scheme: Literal["iobes"] | None = None
    """iobes: models learn labels that mark the end of an entity, too. None: those of the text."""


@tasks.register("pos", train="conll2000/train.txt", test="conll2000/test.txt", label=1)
@tasks.register(
    "upos",
    train="ud-ewt/en_ewt-ud-train.conllu",
    valid="ud-ewt/en_ewt-ud-dev.conllu",
    test="ud-ewt/en_ewt-ud-test.conllu",
    word=1,
    label=3,
)
@tasks.register("chunk", train="conll2000/train.txt", test="conll2000/test.txt", label=2, features=[1], measure="f1")
@tasks.register("ner", label=3, features=[1], measure="f1")
class LabelledWords(Task):
    """Words with a label each, in columns; see `ColumnText`.

    Raises: UserError for a scheme of labels that stand for no entities.
    """

    kind = "words"
    example = "a word and its label a line"

    @configured(LabelledWordsOptions)
    def __init__(self, options: LabelledWordsOptions):
        super().__init__(**options.inherited(TaskOptions))
        if options.scheme and options.measure != "f1":
            raise UserError(
                f"task.scheme={options.scheme}: labels do not encode entities", "set task.measure=f1, or leave it out"
            )
        if options.label in (options.word, *options.features):
            problem = f"task.label={options.label}: is a column that models read, too (task.word or task.features)"
            raise UserError(problem, "name three different columns")
        self.columns = Columns(options.word, options.label, tuple(options.features))
        self.measure, self.scheme = options.measure, options.scheme

    def read(self, path: Path, labelled: bool = True) -> ColumnText:
        name = self.files.get("train", "") if path == STDIN else path.name
        return ColumnText(path, self.columns, name, self.layout, labelled, LABEL if self.measure == "f1" else None)

    def layout_of(self, train: Any) -> Layout:
        return replace(super().layout_of(train), separator=train.separator, width=train.width)

    def texts(self, paths: Mapping[str, Path]) -> dict[str, LabelledText]:
        texts = super().texts(paths)
        if self.measure == "f1" and self.layout:
            scheme = self._scheme_of({paths[split]: text for split, text in texts.items()})
            self.layout = replace(self.layout, scheme=scheme.name)
        return texts

    def _scheme_of(self, texts: Mapping[Path, Any]) -> Scheme:
        """The scheme of the labels of all texts; among those with the same letters, the one that fits best.

        Raises: UserError with the line of a label that does not encode an entity, or is of another scheme.
        """
        met: dict[str, None] = {}
        for path, text in texts.items():
            for lines, sentence in zip(text.rows, text.sentences, strict=True):
                for line, label in zip(lines, sentence.labels, strict=True):
                    if label in met:
                        continue
                    where = f"{path}: line {line + 1} has the label '{shortened(label, 40)}'"
                    if not LABEL.fullmatch(label):
                        raise UserError(f"{where}, which encodes no entity", "set task.label to a column of labels "
                                        "such as B-PER, I-PER and O, or task.measure=accuracy")  # fmt: skip
                    if not family({each[0] for each in [*met, label]}):
                        before = shortened(", ".join(each for each in met if each != "O"), 80)
                        raise UserError(f"{where}, and before it there are {before}", "labels must be of one scheme: "
                                        "IOB, IOE, IOBES, BILOU or BMES")  # fmt: skip
                    met[label] = None
        sentences = [sentence.labels for text in texts.values() for sentence in text.sentences]
        schemes = family({label[0] for label in met})
        scheme = min(schemes, key=lambda scheme: sum(len(scheme.outside(labels)) for labels in sentences))
        for path, text in texts.items() if scheme not in IOB else ():
            lines = [numbers[place] + 1 for numbers, sentence in zip(text.rows, text.sentences, strict=True)
                     for place in scheme.outside(sentence.labels)]  # fmt: skip
            if lines:
                what = f"{len(lines)} labels, the first in line {lines[0]}"
                self.notes.append(f"{path}: {what}, belong to no whole entity of {scheme.name} and do not count")
        return scheme

    def figures(
        self, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]], known: Collection[str]
    ) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "accuracy": accuracy(sentences, predicted),
            "unknown_accuracy": unknown_accuracy(sentences, predicted, known),
        }
        if self.measure == "f1":
            figures |= entity_f1(sentences, predicted, self._text_scheme.entities)
            if self._text_scheme == IOB2:
                figures["strict_f1"] = entity_f1(sentences, predicted, IOB2.strict)["f1"]
        return figures


class LabelledTextsOptions(TaskOptions):
    folds: Annotated[int, Bounds(low=2, high=2**31 - 1)] | None = None
    """number of folds for cross-validation, one of which is test: the lines of train are shuffled, then assigned in
    turn. None: separate files."""
    fold: Count | None = None
    """index of the test fold, from 0; -m task.fold=0,1,2,3,4,5,6,7,8,9 is tenfold cross-validation."""
    valid_fold: Count | None = None
    """index of the validation fold; None: none."""
    seed: Annotated[Seed, Idle(("task.folds", None))] = 0
    """seed of the shuffling."""


@tasks.register("classify")
class LabelledTexts(Task):
    """Texts with a label each, in lines ``label TAB text``."""

    kind = "text"
    example = "a label, a tab and a text a line; or task.train=FILE and task.folds=10 task.fold=0"

    @configured(LabelledTextsOptions)
    def __init__(self, options: LabelledTextsOptions):
        super().__init__(**options.inherited(TaskOptions))
        folds, fold, valid_fold = options.folds, options.fold, options.valid_fold
        self.folds, self.seed = folds, options.seed
        self.held = {split: part for split, part in (("valid", valid_fold), ("test", fold)) if part is not None}
        if folds is None:
            if self.held:
                raise UserError("task.fold and task.valid_fold need task.folds", "set it to 10, say")
            return
        if {*self.files} - {"train"}:
            raise UserError("task.folds splits train, which excludes task.valid and task.test", "leave them out")
        if not self.held:
            raise UserError(f"task.folds={folds}: task.fold or task.valid_fold is needed", "such as task.fold=0")
        if max(self.held.values()) >= folds or fold == valid_fold:
            raise UserError(
                f"task.fold={format_value(fold)}, task.valid_fold={format_value(valid_fold)}: "
                f"must be two of 0 to {folds - 1}",
                "choose others",
            )
        if len(self.held) == folds:
            raise UserError(f"task.folds={folds}: valid and test leave no fold for training", "choose more folds")

    def read(self, path: Path, labelled: bool = True) -> LineText:
        return LineText.read(path, labelled, self.layout.labels if self.layout else ())

    def texts(self, paths: Mapping[str, Path]) -> dict[str, LabelledText]:
        if self.folds is None or "train" not in paths:
            return super().texts(paths)
        whole = self.read(paths["train"])
        self.layout = self.layout_of(whole)
        number = len(whole.lines)
        if number < self.folds:
            raise UserError(f"task.folds={self.folds}: {paths['train']} has {number} lines", "choose fewer folds")
        dealt = np.random.default_rng(self.seed).permutation(number)
        held = {split: np.sort(dealt[fold :: self.folds]) for split, fold in self.held.items()}
        rest = np.setdiff1d(dealt, np.concatenate([*held.values()]))
        return {split: LineText([whole.lines[i] for i in numbers], [whole.sentences[i] for i in numbers])
                for split, numbers in {"train": rest, **held}.items()}  # fmt: skip


@tasks.register("trees", train="sst/train.txt", valid="sst/dev.txt", test="sst/test.txt")
class LabelledTrees(Task):
    """Binary trees with a label at each node, a tree a line; the measure is the accuracy of roots."""

    kind = "tree"
    example = "a tree a line, such as (3 (2 A) (2 film))"

    def read(self, path: Path, labelled: bool = True) -> LabelledText:
        return TreeText(path)

    def figures(
        self, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]], known: Collection[str]
    ) -> dict[str, float | None]:
        roots = [replace(tree, labels=tree.labels[:1]) for tree in sentences]
        of_roots = accuracy(roots, [labels[:1] for labels in predicted])
        return {"accuracy": of_roots, "node_accuracy": accuracy(sentences, predicted)}


def _path(file: str) -> Path:
    """The path of a file as given, or in the first data folder that has it."""
    paths = [Path(file), *(folder / file for folder in data_folders())]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise UserError(f"{file}: no such file, here or under {' or '.join(str(folder) for folder in data_folders())}",
                        "name your own by task.train, task.valid and task.test, or set LMZOO_DATA")  # fmt: skip
    return path
