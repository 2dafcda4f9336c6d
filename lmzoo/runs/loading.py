"""Models of trained runs."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core import ranks
from lmzoo.core.errors import UserError, error_prefix, shortened
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.form import require_one_direction
from lmzoo.corpus.user_files import form_difference
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.protocol.abilities import Imitates
from lmzoo.protocol.condition import Conditioned
from lmzoo.protocol.model import LanguageModel, Trained, models
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LANGUAGE_MODEL

log = logging.getLogger(__name__)


def build_model(options: Mapping[str, Any], vocabulary: Vocabulary) -> LanguageModel:
    """An untrained model from the options of ``model``; raise a UserError if it does not support labels of lines."""
    model = models.build(options, vocabulary_size=len(vocabulary))
    if not hasattr(model, "_modules"):
        raise UserError(f"model={options['name']}: its __init__ does not call super().__init__()", "call it first")
    if vocabulary.conditions:
        if not isinstance(model, Conditioned):
            kinds = models.entries.items()
            able = [name for name, kind in kinds if isinstance(kind, type) and issubclass(kind, Conditioned)]
            raise UserError(
                f"model={options['name']}: does not support corpus.condition=true",
                f"choose one of {', '.join(sorted(able))}",
            )
        model.add_conditions(len(vocabulary.conditions))
    return model


def load(run_dir: str | Path, device: str | torch.device = "cpu") -> tuple[LanguageModel, Vocabulary]:
    """A trained model in evaluation mode, with the best weights of its run, and its vocabulary.

    Raises: UserError if the folder is not a run, or has no trained weights yet.
    """
    run = Run(Path(run_dir))
    where = resolve_device(str(device))
    run.config().kind.require(run.path, LANGUAGE_MODEL)
    vocabulary, checkpoint = run.vocabulary(), run.best("model")
    model = build_model(run.config()["model"], vocabulary)
    run.load_weights(model, checkpoint, "best.pt")
    return model.to(where).eval(), vocabulary


def load_sources(model: LanguageModel, corpus: Corpus) -> None:
    """Load the source runs of a new model into it; raises as `load_source` does."""
    if model.starts_from is not None:
        option, folders = model.starts_from
        model.inherit([load_source(folder, corpus, option) for folder in folders])


def start_from(model: LanguageModel, corpus: Corpus, folders: str | Sequence[str], options: Mapping[str, Any]) -> None:
    """Initialize a new model, built from ``options``, with the mean of the weights of runs, possibly of another text.

    Raises: UserError as `load` does, and if the vocabulary, the shapes of weights, or tensors of integers differ.
    """
    folders = [folders] if isinstance(folders, str) else folders
    if not folders:
        raise UserError("trainer.from=[]: names no run", "name one, or leave it out")
    sources = [load_source(folder, corpus, "trainer.from", same_text=False) for folder in folders]
    states = [_initial_weights(model, source, options) for source in sources]
    one, *others = (source.options for source in sources)
    if differing := {key for each in others for key in {**one, **each} if each.get(key) != one.get(key)}:
        names = ", ".join(f"model.{key}" for key in sorted(differing))
        log.info("%s differ in %s; a mean of their weights makes sense only if these act in training alone",
                 ", ".join(folders), names)  # fmt: skip
    state = dict(states[0])
    for name, first in state.items():
        if isinstance(first, Tensor):
            parts = torch.stack([each[name] for each in states])
            if parts.is_floating_point():
                state[name] = parts.mean(0, dtype=torch.float64).to(first.dtype)
            elif bool((parts != first).any()):
                raise UserError(f"trainer.from: {', '.join(folders)} differ in {name}", "name runs that share it")
    model.load_state_dict(state)
    mean = "the mean of " if len(folders) > 1 else ""
    log.info("weights initialized from %s%s; optimizer and schedule start anew", mean, ", ".join(folders))
    if isinstance(model, Conditioned):
        Conditioned.estimate(model, corpus)  # p(c) of this corpus


def _initial_weights(model: LanguageModel, source: Trained, options: Mapping[str, Any]) -> dict[str, Any]:
    """The state_dict of a source whose weights fit a model; see `start_from`."""
    theirs, own = (
        {name: part for name, part in each.state_dict().items() if isinstance(part, Tensor)}
        for each in (source.model, model)
    )
    unlike = [f"model.{key}={shortened(json.dumps(value))}" for key, value in source.options.items()
              if options.get(key, value) != value]  # fmt: skip
    unlike = unlike if source.options["name"] == options["name"] else [f"model={source.options['name']}"]
    advice = f"repeat its model options, or leave them out: {' '.join(unlike)}"
    shapes, sizes = ({name: list(part.shape) for name, part in each.items()} for each in (theirs, own))
    for name in {**sizes, **shapes}:
        if shapes.get(name) != sizes.get(name):
            unequal = f"{name}: {shapes.get(name, 'absent')} there, {sizes.get(name, 'absent')} here"
            other = "choose another model, as the sizes of this one depend on the text"
            raise UserError(f"trainer.from: {source.folder} has other weights ({unequal})", advice if unlike else other)
    names = dict[tuple[Any, ...], str]()
    for name, part in own.items():
        tied = names.setdefault((part.data_ptr(), part.shape), name) if part.numel() else name
        if tied != name and not torch.equal(theirs[tied], theirs[name]):
            raise UserError(f"trainer.from: {source.folder} has {tied} and {name} apart, and here they are one", advice)
    if source.options["name"] != options["name"]:
        name = source.options["name"]
        log.warning("%s is a run of model=%s, and here it is %s", source.folder, name, options["name"])
    if (teacher := source.options.get("teacher")) and not options.get("teacher"):
        log.info("%s had model.teacher=%s, and here there is no teacher", source.folder, teacher)
    return source.model.state_dict()


def load_teacher(model: LanguageModel, corpus: Corpus) -> None:
    """Load the teacher of a model that `Imitates`, if any; raises as `load_source` does, and if it is not possible."""
    if not isinstance(model, Imitates) or model.teacher is None:
        return
    option = f"model.teacher={model.teacher}"
    if corpus.context != "sentence":
        raise UserError(f"{option}: needs corpus.context=sentence", "set that, or leave it out")
    if ranks.world_size() > 1:
        raise UserError(f"{option}: needs a single process", "start it without torchrun")
    with torch.random.fork_rng(devices=[]):  # leave the random state of a resumed run unchanged
        teacher = load_source(model.teacher, corpus, "model.teacher").model
    with error_prefix(option, "choose another run"):
        model.imitate(teacher.to(model.device).requires_grad_(False))


def source_warnings(run: Run) -> Iterator[str]:
    """Warnings that a source run was not trained to the end, or not on the whole text."""
    if unfinished := run.unfinished():
        yield unfinished
    first = run.config()["trainer"]["first_tokens"]
    if first is not None and f", first {first:,} tokens" in run.recorded_corpus().get("name", ""):
        yield f"{run.path}: was trained on only the first {first:,} tokens"


def open_source_run(folder: str, option: str) -> tuple[Run, LanguageModel, Vocabulary]:
    """A run, its model and its vocabulary; its `source_warnings` are logged, errors are prefixed by ``option``."""
    if Path(folder).is_file() and holds_arpa(Path(folder)):
        advice = f"lmzoo train model=arpa model.path={folder} makes a run of it"
        raise UserError(f"{option}: {folder}: is an ARPA file, not a run", advice)
    with error_prefix(option, "choose another run"):
        run, (model, vocabulary) = Run(Path(folder)), load(folder)
        for caution in source_warnings(run):
            log.warning("%s", caution)
    return run, model, vocabulary


def load_source(folder: str, corpus: Corpus, option: str, same_text: bool = True) -> Trained:
    """Load a run with the same vocabulary; errors are prefixed by ``option``.

    If ``same_text``, valid and test must be the same, too; another train is warned of, such as one with samples of the
    run.
    """
    run, model, vocabulary = open_source_run(folder, option)
    other_form = form_difference(folder, corpus.vocabulary.form)
    with error_prefix(option, "choose another run"):
        require_one_direction(folder, vocabulary.form, f"corpus {corpus.name}", corpus.vocabulary.form)
        changed = set(run.changed_splits(corpus)) if same_text else set[str]()
        if corpus.vocabulary.form.of_words:
            changed.discard("vocabulary")  # the words are compared below; pieces have scores, too
        if other_form and changed - {"train", "vocabulary"}:
            raise UserError(other_form)
        if changed - {"train"}:
            run.check_text(corpus)
    if "train" in changed:
        log.warning("%s: %s was trained on another text than train of corpus %s", option, folder, corpus.name)
    other_words = vocabulary.words != corpus.vocabulary.words
    if other_words or vocabulary.conditions != corpus.vocabulary.conditions:
        raise UserError(
            f"{option}: {folder} was not trained on the {'words' if other_words else 'labels'} of corpus {corpus.name}",
            "choose another run" if same_text else f"set corpus.vocabulary={folder}",
        )
    if (context := run.config()["corpus"]["context"]) != corpus.context:
        log.warning("%s: was trained with corpus.context=%s, and here it is %s", folder, context, corpus.context)
    if other_form:
        log.warning("%s", other_form)
    return Trained(folder, run.config()["model"], model)
