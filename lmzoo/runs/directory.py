"""The folder of a run.

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
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from lmzoo.core.configs import completed
from lmzoo.core.errors import UserError
from lmzoo.core.files import read_bytes, read_lines, write_atomic
from lmzoo.corpus import Corpus, Vocabulary, load_corpus
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.provenance import provenance
from lmzoo.runs.settings import differences

WRITTEN_FIRST = {"train.log", "vocabulary.txt", "provenance.json"}
"""Files that a folder may hold before it is a run directory."""


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
            raise UserError(f"run_dir={folder}: another process is training here", "choose another run_dir") from None
        except OSError:
            pass  # NFS, for one, locks only what it may write
        yield
    finally:
        os.close(handle)


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
                raise UserError(f"run_dir={self.path}: {folder} is no folder that can be written to", "choose another")
            names = {path.name for path in self.path.iterdir()} if folder == self.path else set()
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be used ({error.strerror})", "choose another") from None
        if self.config_file.name not in names:
            if any(name not in WRITTEN_FIRST and not name.startswith(".") for name in names):
                raise UserError(f"run_dir={self.path}: holds other files and no run", "choose another")
            return
        if changed := differences(self.config(), config):
            raise UserError(
                f"run_dir={self.path}: holds a run with another configuration ({'; '.join(changed)})",
                "choose another run_dir, or repeat the options it was started with",
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
                f"{self.path}: was trained on another text than corpus {corpus.name} is now (then: {known})",
                "bring that text back, or choose another run_dir to train, a file to evaluate",
            )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder, which is made where there is none.

        Raises: UserError where another process is at work in it, or where it cannot be written; a folder in which
            nothing has been learnt by the time of an error is gone again.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with _locked(self.path):
                try:
                    yield
                except (OSError, UserError, KeyboardInterrupt):
                    self._discard()
                    raise
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(
                f"{error.filename or self.path}: cannot be written ({error.strerror or error})",
                "what was saved before is still good: make room and run the same command again, or choose another "
                "run_dir",
            ) from None

    def begin(self, config: Mapping[str, Any], corpus: Corpus) -> None:
        """Write what a run has from its start, or note that it goes on; for who is `alone` here.

        Raises: OSError where there is no room.
        """
        for left_by_a_kill in self.path.glob(".*.part"):
            left_by_a_kill.unlink()
        if not self.config_file.exists():
            (self.path / "provenance.json").unlink(missing_ok=True)
            self.write("vocabulary.txt", "".join(f"{word}\n" for word in corpus.vocabulary.words).encode())
        started = self._read_json("provenance.json") if (self.path / "provenance.json").exists() else []
        self.write_json("provenance.json", [*started, provenance(corpus)])
        if not self.config_file.exists():
            self.write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(config))).encode())

    def _discard(self) -> None:
        """Take back `begin`, where nothing has been learnt yet."""
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
        return _with_defaults(config)

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
        if changed := differences(_with_defaults(checkpoint["config"]), self.config()):
            raise self._unusable(name, f"a checkpoint of another run ({'; '.join(changed)})")
        return checkpoint

    def load_weights(self, model: LanguageModel, checkpoint: Mapping[str, Any], name: str) -> None:
        """Put a checkpoint's weights into a model; a UserError where another version of it saved them."""
        try:
            model.load_state_dict(checkpoint["model"])
        except RuntimeError as error:
            raise self._unusable(name, f"not this model's weights ({' '.join(str(error).split())[:200]})") from None

    def _unusable(self, name: str, reason: str) -> UserError:
        return UserError(f"{self.path / name}: {reason}", "delete the folder to start again, or choose another run_dir")


def _with_defaults(config: Any) -> dict[str, Any]:
    """A saved configuration whose model has the options, too, that it has got since."""
    model = config["model"]
    return {**config, "model": completed(model) if isinstance(model, Mapping) else model}
