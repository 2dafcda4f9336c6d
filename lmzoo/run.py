"""The run directory: what a run was told, what it has learnt, and what came out of it.

config.yaml       the resolved configuration
vocabulary.txt    a word a line, in the order of their numbers
provenance.json   code, versions, device, command line and corpus checksums
last.pt           everything needed to go on exactly where training stood
best.pt           the weights with the best validation perplexity
results.json      there once the run is finished
train.log         what was printed, and the traceback of a failure
events.out.*      TensorBoard
"""

import contextlib
import fcntl
import io
import json
import logging
import math
import os
import platform
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import omegaconf
import torch
from omegaconf import OmegaConf

import lmzoo
from lmzoo.corpus import Corpus, Vocabulary, load_corpus
from lmzoo.corpus.sources import read_bytes, read_lines, write_atomic
from lmzoo.errors import UserError
from lmzoo.models.base import LanguageModel
from lmzoo.registry import models

log = logging.getLogger(__name__)

FREE_TO_CHANGE = {"run_dir", "device", "trainer.checkpoint_seconds", "corpus.urls"}
"""Options that a resumed run may change, since results do not depend on them."""

WRITTEN_FIRST = {"train.log", "vocabulary.txt", "provenance.json"}
"""Files that a folder may hold before it is a run directory."""


def resolve_device(name: str) -> torch.device:
    """``auto`` (CUDA where there is one, else CPU), ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.

    Raises: UserError, listing the devices there are, for one that is absent.
    """
    present = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        present.append("mps")
    if name == "auto":
        name = "cuda" if len(present) > 1 and present[1].startswith("cuda") else "cpu"
    if name not in present and not (name == "cuda" and "cuda:0" in present):
        raise UserError(f"device={name}: there is no such device here; there are: auto, {', '.join(present)}")
    return torch.device(name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes of ours out of a run directory; the system lets go of it when a process dies.

    Where the file system cannot lock a folder there is no such protection.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"run_dir={folder}: another process is training here; choose another run_dir") from None
        except OSError:
            pass  # NFS, for one, locks only what it may write
        yield
    finally:
        os.close(handle)


def finite(number: float) -> float | None:
    """None for infinity, which JSON cannot say."""
    return number if math.isfinite(number) else None


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What results depend on and two configurations disagree in: ``key: old -> new``."""
    before, after = flatten(old), flatten(new)
    keys = [key for key in {**before, **after} if key not in FREE_TO_CHANGE]
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in keys
        if before.get(key, "absent") != after.get(key, "absent")
    ]


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A saved configuration with the options that its model has got since, set to their defaults."""
    model = config["model"]
    if isinstance(model, Mapping) and model.get("name") in models.entries:
        defaults = OmegaConf.to_container(OmegaConf.load(lmzoo.CONFIGS / "model" / f"{model['name']}.yaml"))
        model = {**defaults, **model}  # pyright: ignore[reportGeneralTypeIssues]
    return {**config, "model": model}


class Run:
    """A run directory."""

    def __init__(self, path: Path):
        self.path = path

    def check(self, config: Mapping[str, Any]) -> None:
        """See whether a run with this configuration can begin or go on here, without touching anything.

        Raises: UserError where the folder cannot be written, holds something else, or holds a run
            with another configuration.
        """
        try:
            folder = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
            if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
                raise UserError(f"run_dir={self.path}: {folder} is no folder that can be written to; choose another")
            names = {path.name for path in self.path.iterdir()} if folder == self.path else set()
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be used ({error.strerror}); choose another") from None
        if self.config_file.name not in names:
            if any(name not in WRITTEN_FIRST and not name.startswith(".") for name in names):
                raise UserError(f"run_dir={self.path}: holds other files and no run; choose another")
            return
        if changed := differences(self.config(), config):
            raise UserError(
                f"run_dir={self.path}: holds a run with another configuration ({'; '.join(changed)}); "
                "choose another run_dir, or repeat the options it was started with"
            )

    def check_text(self, corpus: Corpus) -> None:
        """Raise a UserError where a run that is here was trained on another text than the corpus is now."""
        if not self.config_file.exists():
            return
        try:
            known = self._read_json("provenance.json")[0]["corpus"]
        except (LookupError, TypeError):
            raise self._unusable("provenance.json", "says nothing of a corpus") from None
        if known["sha256"] != corpus.sha256:
            raise UserError(
                f"{self.path}: was trained on another text than corpus {corpus.name} is now (then: {known}); "
                "bring that text back, or choose another run_dir to train, a file to evaluate"
            )

    @contextlib.contextmanager
    def open(self, config: Mapping[str, Any], corpus: Corpus) -> Iterator[None]:
        """Begin a run here, or go on with the one that is here, after `check` and `check_text`.

        Raises: UserError where the folder cannot be written, and it is gone again where nothing has been learnt by
            then; where another process is at work in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with _locked(self.path):
                try:
                    for left_by_a_kill in self.path.glob(".*.part"):
                        left_by_a_kill.unlink()
                    if not self.config_file.exists():
                        (self.path / "provenance.json").unlink(missing_ok=True)
                        self.write("vocabulary.txt", "".join(f"{word}\n" for word in corpus.vocabulary.words).encode())
                    self._append_provenance(corpus)
                    if not self.config_file.exists():
                        self.write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(config))).encode())
                    yield
                except (OSError, UserError, KeyboardInterrupt):
                    self._discard()
                    raise
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(
                f"{error.filename or self.path}: cannot be written ({error.strerror or error}); what was saved before "
                "is still good: make room and run the same command again, or choose another run_dir"
            ) from None

    def _discard(self) -> None:
        """Take back `open`, where nothing has been learnt yet."""
        with contextlib.suppress(OSError):
            files = list(self.path.iterdir())
            if {file.name for file in files} <= {self.config_file.name, *WRITTEN_FIRST}:
                for file in files:
                    file.unlink()
                self.path.rmdir()

    @property
    def config_file(self) -> Path:
        """Its presence makes a folder a run directory."""
        return self.path / "config.yaml"

    def config(self) -> dict[str, Any]:
        """The configuration that the run was started with."""
        if not self.config_file.exists():
            raise UserError(f"{self.path}: not a run directory (it has no config.yaml)")
        try:
            config = OmegaConf.to_container(OmegaConf.create(read_bytes(self.config_file).decode()))
        except Exception as error:
            raise UserError(f"{self.config_file}: cannot be read ({str(error).splitlines()[0]})") from None
        if not (isinstance(config, dict) and {"model", "corpus"} <= config.keys()):
            raise self._unusable(self.config_file.name, "no configuration of a run")
        return completed(config)  # pyright: ignore[reportArgumentType]

    def vocabulary(self) -> Vocabulary:
        """The words of the run's corpus."""
        words = read_lines(self.path / "vocabulary.txt")
        try:
            return Vocabulary(words)
        except ValueError as error:
            raise self._unusable("vocabulary.txt", f"damaged ({error})") from None

    def corpus(self) -> Corpus:
        """The run's corpus, which must still be the text that the run was trained on."""
        corpus = load_corpus(self.config()["corpus"])
        self.check_text(corpus)
        return corpus

    def results(self) -> dict[str, Any] | None:
        """What came out of a finished run; None before."""
        return self._read_json("results.json") if (self.path / "results.json").exists() else None

    def unfinished(self) -> str | None:
        """What to say of weights whose training is not finished."""
        if self.results() is not None:
            return None
        return f"{self.path}: its training is not finished; these are the best weights so far"

    def _read_json(self, name: str) -> Any:
        data = read_bytes(self.path / name)
        try:
            return json.loads(data)
        except ValueError as error:
            raise self._unusable(name, f"damaged ({error})") from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run, whole or not at all.

        Raises: OSError where there is no room or no right to write; what was there before stays.
        """
        try:
            write_atomic(self.path / name, data)
        except OSError as error:
            error.filename = str(self.path / name)
            raise

    def write_json(self, name: str, value: Any) -> None:
        """`write` as JSON."""
        self.write(name, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())

    def save(self, name: str, checkpoint: Mapping[str, Any]) -> None:
        """`write` tensors, tuples and plain dictionaries as a checkpoint, with the configuration they belong to."""
        buffer = io.BytesIO()
        torch.save({**checkpoint, "config": self.config()}, buffer)
        self.write(name, buffer.getvalue())

    def restore(self, name: str, device: torch.device, *parts: str) -> dict[str, Any] | None:
        """A checkpoint with at least the given parts, or None where there is none; nothing in it can run code.

        Raises: UserError for a file that is damaged, no checkpoint or another run's.
        """
        path = self.path / name
        if not path.exists():
            return None
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip():  # torch does not compare checksums
                    raise zipfile.BadZipFile
            checkpoint = torch.load(path, map_location=device, weights_only=True)
        except Exception:  # the unpickler fails in every way there is
            raise self._unusable(name, "damaged, or no checkpoint of lmzoo") from None
        if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"config", *parts}:
            raise self._unusable(name, "no checkpoint of lmzoo")
        if changed := differences(completed(checkpoint["config"]), self.config()):
            raise self._unusable(name, f"a checkpoint of another run ({'; '.join(changed)})")
        return checkpoint

    def load_weights(self, model: LanguageModel, checkpoint: Mapping[str, Any], name: str) -> None:
        """Put a checkpoint's weights into a model; a UserError where another version of it saved them."""
        try:
            model.load_state_dict(checkpoint["model"])
        except RuntimeError as error:
            raise self._unusable(name, f"not this model's weights ({' '.join(str(error).split())[:200]})") from None

    def _unusable(self, name: str, reason: str) -> UserError:
        return UserError(f"{self.path / name}: {reason}; delete the folder to start again, or choose another run_dir")

    def _append_provenance(self, corpus: Corpus) -> None:
        """One entry for each time the run was started or resumed."""
        entries = self._read_json("provenance.json") if (self.path / "provenance.json").exists() else []
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "argv": sys.argv,
            "git": _git_state(),
            "versions": {
                "lmzoo": lmzoo.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": numpy.__version__,
                "omegaconf": omegaconf.__version__,
            },
            "machine": {
                "platform": platform.platform(),
                "threads": torch.get_num_threads(),
                "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
            },
            "corpus": {"name": corpus.name, "sha256": corpus.sha256, **corpus.notes},
        }
        self.write_json("provenance.json", [*entries, entry])


def _git_state() -> dict[str, Any] | None:
    """The checkout's commit and whether files differ from it; None outside a checkout."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def build_model(config: Mapping[str, Any], vocabulary: Vocabulary) -> LanguageModel:
    """The untrained model that a configuration's ``model`` group describes."""
    return models.build(config["model"], vocabulary_size=len(vocabulary))


def load(run_dir: str | Path, device: str | torch.device = "cpu") -> tuple[LanguageModel, Vocabulary]:
    """A trained model in evaluation mode, with the best weights of its run, and its vocabulary.

    Raises: UserError where the folder is no run, or holds no trained weights yet.
    """
    run = Run(Path(run_dir))
    where = resolve_device(str(device))
    config, vocabulary = run.config(), run.vocabulary()
    model = build_model(config, vocabulary)
    checkpoint = run.restore("best.pt", where, "model")
    if checkpoint is None:
        raise UserError(f"{run.path}: has no best.pt yet; train it first")
    run.load_weights(model, checkpoint, "best.pt")
    return model.to(where).eval(), vocabulary


def load_trained(folder: str, corpus: Corpus, option: str) -> tuple[dict[str, Any], LanguageModel]:
    """The options and the model of a trained run that an option names for a new one, which must be of this corpus.

    Raises: UserError, beginning with the option's name, as `load` does, and for a run of another text or other words.
    """
    run = Run(Path(folder))
    try:
        model, vocabulary = load(folder)
        run.check_text(corpus)
        config, unfinished = run.config(), run.unfinished()
    except UserError as error:  # whose advice is for those who train or evaluate that run
        reason = re.sub("; [^;]*$", "", str(error))
        raise UserError(f"{option}: {reason}; choose another run") from None
    if vocabulary.words != corpus.vocabulary.words:
        raise UserError(f"{option}: {folder} was not trained on the words of corpus {corpus.name}; choose another run")
    if unfinished:
        log.warning(unfinished)
    if (context := config["corpus"]["context"]) != corpus.context:
        log.warning("%s: was trained with corpus.context=%s, and here it is %s", folder, context, corpus.context)
    return config["model"], model
