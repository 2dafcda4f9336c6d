"""What a run was made from is what its options name: its provenance has the checksums, and another file is refused."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, TEXT, command, stop_at

from lmzoo.commands import label, train, vectors
from lmzoo.core.files import sha256
from lmzoo.core.options import schema
from lmzoo.core.registry import Registry
from lmzoo.labels.crf import Crf
from lmzoo.labels.model import labellers
from lmzoo.protocol.model import models
from lmzoo.runs.directory import Run
from lmzoo.runs.trainer_options import trainers
from lmzoo.words.vectors.method import methods

TAGGED = "the D\ncat N\nends V\n\nthey P\nends V\n\n"
VECTORS = ("3 2\nthe 1 0\ncat 0 1\nends 1 1\n", "3 2\nthe 0 1\ncat 1 0\nends 1 -1\n")
PATHS = ("0\tthe\n10\tcat\n11\tends\n", "0\tends\n10\tthe\n11\tcat\n")
ARPA = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1.0\t<unk>\n-99\t<s>\n{}\t</s>\n{}\tw0\n\n\\end\\\n"
ARPAS = (ARPA.format("-0.5", "-0.24"), ARPA.format("-0.24", "-0.5"))
TASK = ["task=pos", "task.word=0", "task.label=1", "task.train=train.txt", "task.test=test.txt"]
GRU = [*QUICK, *MODELS["gru"], "trainer.epochs=1"]


def lm(*options: str, run: str) -> None:
    done = command(*TEXT, *options, f"run_dir={run}")
    assert done.code == 0, done


def file(name: str, contents: tuple[str, str]) -> Callable[[int], None]:
    return lambda which: void(Path(name).write_text(contents[which]))


def void(_: Any) -> None:
    """A lambda is a statement."""


def network(name: str, *options: str) -> Callable[[int], None]:
    def make(which: int) -> None:
        shutil.rmtree(name, ignore_errors=True)
        lm(*GRU, *options, f"seed={which}", run=name)

    return make


def learnt(name: str, main: Callable[[], int], *options: str) -> Callable[[int], None]:
    def make(which: int) -> None:
        shutil.rmtree(name, ignore_errors=True)
        done = command(*options, f"seed={which}", f"run_dir={name}", main=main)
        assert done.code == 0, done

    return make


CRF_OPTIONS = [*TASK, "labeller=crf", "labeller.iterations=4"]
OWN = ["corpus=text", "corpus.train=words.txt", "corpus.valid=words.txt"]
"""The text that is labelled, as one of a language model."""
KINDS: dict[str, tuple[Callable[[], int], list[str], str, str, Callable[[int], None]]] = {
    "labels from a file of vectors": (
        label.main, [*CRF_OPTIONS, "labeller.vectors=given"], "labeller.vectors", "given", file("given", VECTORS)
    ),
    "labels from a run of vectors": (
        label.main, [*CRF_OPTIONS, "labeller.vectors=given"], "labeller.vectors", "given",
        learnt("given", vectors.main, *OWN, "method=skipgram", "method.min_count=1", "method.dim=3",
               "method.epochs=1"),
    ),
    "labels from clusters": (
        label.main, [*CRF_OPTIONS, "labeller.clusters=given"], "labeller.clusters", "given", file("given", PATHS)
    ),
    "labels from an encoder": (
        label.main, [*CRF_OPTIONS, "labeller.encoder=given"], "labeller.encoder", "given",
        learnt("given", train.main, *OWN, "corpus.unknown=true", *QUICK, "trainer.epochs=1", *MODELS["vlhmm"],
               "model.clusters=3"),
    ),
    "labels of a pool": (
        label.main, [*TASK, "labeller=pool", "labeller.runs=[given]"], "labeller.runs", "given",
        learnt("given", label.main, *TASK, "labeller=birnn", "labeller.epochs=1", "labeller.crf=true",
               "labeller.embedding=4", "labeller.hidden=4", "labeller.filters=0"),
    ),
    "vectors of vectors": (
        vectors.main, [*TEXT, "method=joined", "method.runs=[given]", "method.weights=[1]"], "method.runs", "given",
        learnt("given", vectors.main, *TEXT, "method=skipgram", "method.dim=3", "method.epochs=1"),
    ),
    "vectors of a language model": (
        vectors.main, [*TEXT, "method=type", "method.run=given"], "method.run", "given", network("given")
    ),
    "a cache": (train.main, [*TEXT, "model=cache", "model.run=given"], "model.run", "given", network("given")),
    "a mixture": (
        train.main, [*TEXT, "model=mixture", "model.runs=[given]"], "model.runs", "given", network("given")
    ),
    "weights of a run": (train.main, [*TEXT, *GRU, "trainer.from=given"], "trainer.from", "given", network("given")),
    "a file of an n-gram model": (
        train.main, [*TEXT, "model=arpa", "model.path=given"], "model.path", "given", file("given", ARPAS)
    ),
}  # fmt: skip
"""A command, its options, the option that names what the run is made from, the name, and what makes one of two."""


@pytest.fixture
def texts(folder: Path) -> Path:
    Path("train.txt").write_text(TAGGED)
    Path("test.txt").write_text(TAGGED + "a D\n")
    Path("words.txt").write_text("the cat ends\nthey ends\n" * 20)
    return folder


FAST = ("labels from clusters", "a file of an n-gram model", "vectors of vectors")


@pytest.mark.parametrize("kind", [k if k in FAST else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_a_finished_run_is_not_reported_for_another_source(texts: Path, kind: str):
    main, options, option, name, make = KINDS[kind]
    make(0)
    assert command(*options, "run_dir=made", main=main).code == 0
    (entry,) = json.loads(Path("made/provenance.json").read_text())
    learnt = next((f for f in (Path(name, "best.pt"), Path(name, "vectors.bin")) if f.exists()), Path(name))
    assert entry["made_from"] == {option: {name: sha256(learnt.read_bytes())}}
    make(1)
    refused = command(*options, "run_dir=made", main=main).refused()
    assert f"made: was started with another version of {option}={name}; restore it" in refused


def test_what_is_gone_is_missed_only_where_it_is_read(texts: Path):
    main, options, _, name, make = KINDS["a cache"]
    make(0)
    assert command(*options, "run_dir=made", main=main).code == 0
    shutil.rmtree(name)
    assert "already finished" in command(*options, "run_dir=made", main=main).out


@pytest.mark.parametrize("kind", ["labels from a file of vectors", "labels from clusters", "labels from an encoder"])
def test_a_stopped_run_does_not_go_on_with_another_source(texts: Path, kind: str):
    main, options, option, name, make = KINDS[kind]
    make(0)
    with pytest.MonkeyPatch.context() as patch:
        stop_labeller(patch, 2)
        assert command(*options, "run_dir=made", main=main).code == 130
    make(1)
    refused = command(*options, "run_dir=made", main=main).refused()
    assert f"made: was started with another version of {option}={name}" in refused
    make(0)
    assert "resumed at step 3" in command(*options, "run_dir=made", main=main).out


def stop_labeller(patch: pytest.MonkeyPatch, at: int) -> None:
    whole = Crf.step

    def step(self: Crf, number: int) -> dict[str, float]:
        if number == at:
            os.kill(os.getpid(), 15)
        return whole(self, number)

    patch.setattr(Crf, "step", step)


def test_a_stopped_language_model_does_not_go_on_with_another_source(folder: Path):
    main, options, option, name, make = KINDS["weights of a run"]
    make(0)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3)
        assert command(*options, "run_dir=made", main=main).code == 130
    make(1)
    assert f"another version of {option}={name}" in command(*options, "run_dir=made", main=main).refused()
    shutil.rmtree(name)
    assert command(*options, "run_dir=made", main=main).code == 0


def test_a_start_that_was_killed_before_anything_was_learnt_counts_no_more(folder: Path):
    options = ["corpus=text", "corpus.train=text.txt", "corpus.valid=text.txt", *GRU, "run_dir=run"]
    Path("text.txt").write_text("a b\n" * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzoo.training.trainer.Trainer._estimate", kill)
        with pytest.raises(Killed):
            command(*options)
    assert not Path("run/last.pt").exists()
    Path("text.txt").write_text("c d e\n" * 40)
    assert command(*options).code == 0
    assert Run(Path("run")).vocabulary().words == ["<eos>", "c", "d", "e"]
    assert "already finished" in command(*options).out


class Killed(Exception):  # noqa: N818 - it stands for a kill, after which nothing is tidied up
    """The process ends here."""


def kill(_: Any) -> None:
    raise Killed


NO_SOURCES = {
    "model.templates", "model.class_templates", "model.word_templates", "method.part",
    "corpus.label", "corpus.tokenizer", "labeller.optimizer", "labeller.schedule",
}  # fmt: skip


def test_every_option_that_is_a_text_names_a_source():
    """But for those that are no names of files."""
    given: dict[Registry, Mapping[str, Any]] = {models: {}, labellers: {}, methods: {}}
    for registry in given:
        for learner, entry in registry.entries.items():
            if not entry.__module__.startswith("lmzoo."):
                continue
            texts = {name for name, kind in schema(entry).items() if re.search(r"\bstr\b", str(kind))}
            named = registry.sources({"name": learner, **{name: as_named(schema(entry)[name]) for name in texts}})
            missing = {f"{registry.kind}.{name}" for name in texts} - {*named} - NO_SOURCES
            assert not missing, missing
    assert trainers.sources({"name": "default", "from": "run"}) == {"trainer.from": ["run"]}


def as_named(kind: Any) -> Any:
    return ["x"] if str(kind).startswith(("list", "collections.abc.Sequence")) else "x"
