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

import io
import json
import pickle
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
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

FREE_TO_CHANGE = {"run_dir", "device", "trainer.checkpoint_seconds"}
"""Options that a resumed run may change, since results do not depend on them."""


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


class Run:
    """A run directory."""

    def __init__(self, path: Path):
        self.path = path

    def open(self, config: Mapping[str, Any], corpus: Corpus) -> None:
        """Begin a run here, or go on with the one that is here.

        Raises: UserError where the folder cannot be written, holds something else, or holds a run
            with another configuration.
        """
        self.check(config)
        if self.config_file.exists():
            self._append_provenance(corpus)
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be made ({error.strerror}); choose another") from None
        self.write("vocabulary.txt", "".join(f"{word}\n" for word in corpus.vocabulary.words).encode())
        self._append_provenance(corpus)
        self.write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(config))).encode())

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise a UserError where `open` would, without touching anything."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise UserError(f"run_dir={self.path}: is not a folder; choose another")
        if not self.config_file.exists():
            if any(child.name != "train.log" and not child.name.startswith(".") for child in self.path.iterdir()):
                raise UserError(f"run_dir={self.path}: holds other files and no run; choose another")
            return
        if changed := differences(self.config(), config):
            raise UserError(
                f"run_dir={self.path}: holds a run with another configuration ({'; '.join(changed)}); "
                "choose another run_dir, or repeat the options it was started with"
            )

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
        return config if isinstance(config, dict) else {}  # pyright: ignore[reportReturnType]

    def vocabulary(self) -> Vocabulary:
        """The words of the run's corpus."""
        return Vocabulary(read_lines(self.path / "vocabulary.txt"))

    def corpus(self) -> Corpus:
        """The run's corpus, which must still be the text that the run was trained on."""
        corpus = load_corpus(self.config()["corpus"])
        known = json.loads(read_bytes(self.path / "provenance.json"))[0]["corpus"]
        if known["sha256"] != corpus.sha256:
            raise UserError(
                f"{self.path}: was trained on another text than corpus {corpus.name} is now "
                f"(then: {known}); give the text as a file instead"
            )
        return corpus

    def results(self) -> dict[str, Any] | None:
        """What came out of a finished run; None before."""
        path = self.path / "results.json"
        return json.loads(read_bytes(path)) if path.exists() else None

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run, whole or not at all.

        Raises: UserError where there is no room or no right to write; what was there before stays.
        """
        try:
            write_atomic(self.path / name, data)
        except OSError as error:
            raise UserError(
                f"{self.path / name}: cannot be written ({error.strerror}); what was saved before is still good: "
                "make room and run the same command again"
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        """`write` as JSON."""
        self.write(name, (json.dumps(value, indent=2) + "\n").encode())

    def save(self, name: str, checkpoint: Mapping[str, Any]) -> None:
        """`write` tensors, tuples and plain dictionaries as a checkpoint."""
        buffer = io.BytesIO()
        torch.save(dict(checkpoint), buffer)
        self.write(name, buffer.getvalue())

    def restore(self, name: str, device: torch.device) -> dict[str, Any] | None:
        """A checkpoint, or None where there is none yet; nothing read from it can run code.

        Raises: UserError for a file that is no checkpoint.
        """
        path = self.path / name
        if not path.exists():
            return None
        try:
            checkpoint = torch.load(path, map_location=device, weights_only=True)
            if not (isinstance(checkpoint, dict) and "model" in checkpoint):
                raise ValueError("it holds something else")
        except (RuntimeError, ValueError, EOFError, KeyError, OSError, pickle.UnpicklingError) as error:
            raise UserError(
                f"{path}: not a checkpoint of lmzoo ({str(error).splitlines()[0][:80]}); "
                "delete it to start again, or choose another run_dir"
            ) from None
        return checkpoint

    def load_weights(self, model: LanguageModel, checkpoint: Mapping[str, Any], name: str) -> None:
        """Put a checkpoint's weights into a model; a UserError where they belong to another."""
        try:
            model.load_state_dict(checkpoint["model"])
        except RuntimeError as error:
            reason = " ".join(str(error).split("\n")[1:2]).strip()
            raise UserError(
                f"{self.path / name}: holds the weights of another model ({reason[:160]}); "
                "delete it to start again, or choose another run_dir"
            ) from None

    def _append_provenance(self, corpus: Corpus) -> None:
        """One entry for each time the run was started or resumed."""
        path = self.path / "provenance.json"
        entries = json.loads(read_bytes(path)) if path.exists() else []
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


def load(run_dir: str | Path, device: str = "cpu") -> tuple[LanguageModel, Vocabulary]:
    """A trained model in evaluation mode, with the best weights of its run, and its vocabulary.

    Raises: UserError where the folder is no run, or holds no trained weights yet.
    """
    run = Run(Path(run_dir))
    where = resolve_device(device)
    config, vocabulary = run.config(), run.vocabulary()
    model = build_model(config, vocabulary)
    checkpoint = run.restore("best.pt", where)
    if checkpoint is None:
        raise UserError(f"{run.path}: has no best.pt yet; train it first")
    run.load_weights(model, checkpoint, "best.pt")
    return model.to(where).eval(), vocabulary
