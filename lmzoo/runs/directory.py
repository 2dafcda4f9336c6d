"""The folder of a run. What each of its files is for is in docs/architecture.md, "The life of a run"."""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from lmzoo.core.checksums import CHECKSUM, NOT_AS_WRITTEN, RESULTS, is_altered, with_checksum
from lmzoo.core.configs import parse
from lmzoo.core.errors import UserError, one_line, out_of_memory
from lmzoo.core.files import sha256
from lmzoo.corpus import Corpus, Vocabulary, load_corpus
from lmzoo.corpus.encoded import text_checksums
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Kind, Subwords
from lmzoo.corpus.user_files import CONDITIONS, SCORES
from lmzoo.protocol.lines import Part
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.checkpoint import (
    DamagedError,
    checkpoint_sha256,
    read_checkpoint,
    require_plain,
    take_weights,
    write_checkpoint,
)
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.files import Files
from lmzoo.runs.kinds import KINDS, checked
from lmzoo.runs.listing import CONFIG, nearest
from lmzoo.runs.lock import locked
from lmzoo.runs.provenance import Origins, provenance

WORDS = ("vocabulary.txt", CONDITIONS, SCORES)
"""The files of a vocabulary, of which a run has the first one at least."""

WRITTEN_FIRST = (CONFIG, *WORDS, "provenance.json", "train.log")
"""The files of a run in which nothing has been learnt yet, the first one first."""

LABELLED = ("valid.labels", "test.labels")

LEARNT = tuple(dict.fromkeys(kind.learnt for kind in KINDS))
"""The files of what has been learnt, of which a run has one."""

FILES = (*WRITTEN_FIRST, "last.pt", *LEARNT, *LABELLED, "results.json")

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
"""What the system says where a disk is full, broken, or not to be written to."""


def configured_corpus(config: Mapping[str, Any]) -> Corpus:
    """What a run with this configuration reads of its corpus: ``trainer.first_tokens`` of each split, else all."""
    corpus, tokens = load_corpus(config["corpus"]), config.get("trainer", {}).get("first_tokens")
    return corpus if tokens is None else corpus.truncated(tokens)


class Run(Files):
    """A run directory."""

    _config: Configuration | None = None

    def check(self, config: Configuration) -> None:
        """Raise a UserError where no run with this configuration can begin or go on here. Nothing is written."""
        try:
            folder = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
            if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
                raise UserError(f"run_dir={self.path}: {folder} is no folder that can be written to", "choose another")
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be used ({error.strerror})", "choose another") from None
        names = self.names()
        if self.config_file.name not in names:
            if any(name != "train.log" and not name.startswith(".") for name in names):
                raise UserError(f"run_dir={self.path}: holds other files and no run", "choose another")
            return
        if changed := self.config().differences(config):
            raise UserError(
                f"run_dir={self.path}: holds a run with another configuration ({'; '.join(changed)})",
                "choose another run_dir, or repeat the options it was started with",
            )

    def check_made_from(self, made_from: Origins) -> None:
        """Raise a UserError where the run was made from another file or run than its options name now.

        What is not there any more is not compared.
        """
        if not self._has_learnt():
            return
        made_from_then = self.made_from()
        for option, checksums in made_from.items():
            then = made_from_then.get(option, {})
            for name, now in checksums.items():
                if then.get(name, now) != now:
                    raise UserError(
                        f"{self.path}: was made from another {option} than {name} is now",
                        "bring that one back, or choose another run_dir",
                    )

    def made_from(self) -> Origins:
        """What the run was made from when it was started."""
        return self.starts()[0]["made_from"]

    def _has_learnt(self) -> bool:
        return bool(self.names() & {"last.pt", "results.json", *LEARNT})

    def check_text(self, corpus: Corpus) -> None:
        """Raise a UserError where the run was trained on another text than the corpus is now."""
        if not self._has_learnt():
            return
        begun_with = self.trained_on()
        then, now = begun_with["sha256"], corpus.sha256
        if then != now:
            splits = ", ".join(name for name in {**then, **now} if then.get(name) != now.get(name))
            notes = "".join(
                f"; {name} then {begun_with[name]}, now {note}"
                for name, note in corpus.notes.items()
                if begun_with.get(name, note) != note
            )
            raise UserError(
                f"{self.path}: was trained on another text than corpus {corpus.name} is now (unlike: {splits}{notes})",
                "bring that text back, or choose another run_dir to train, a file to evaluate",
            )

    def trained_text(self, file: Path) -> str | None:
        """A warning where a file is the text that the run was trained on, or is among its files."""
        text = text_checksums([file], Form.of(self.config()["corpus"]))
        if text is None or text.sha256 not in self.texts().get("train", ()):
            return None
        return f"{file}: is text that {self.path} was trained on, so its figures are better than those of others"

    def trained_on(self) -> dict[str, Any]:
        """The corpus of the first start, as `provenance` has it: its name, ``sha256`` of each split, notes."""
        return self.starts()[0]["corpus"]

    def texts(self) -> dict[str, set[str]]:
        """The SHA-256 of each split that the run began with, and of its files."""
        begun_with = self.trained_on()
        files = begun_with.get("files", {})
        return {split: {checksum, *files.get(split, ())} for split, checksum in begun_with["sha256"].items()}

    @contextlib.contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Keep other processes out of the folder, which is made where there is none; a UserError where that cannot be.

        After an error whatever `begin` has added is removed, unless something has been learnt by then.
        """
        new = [folder for folder in (self.path, *self.path.absolute().parents) if not folder.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path):
                before = self.names()
                try:
                    yield
                except BaseException as error:
                    mistake = isinstance(error, UserError | KeyboardInterrupt) or out_of_memory(error)
                    if mistake or self._cannot_write(error):
                        self._discard(before, new)
                    raise
        except OSError as error:
            if not self._cannot_write(error):
                raise
            raise UserError(
                f"{error.filename or self.path}: cannot be written ({error.strerror or error})",
                "what was saved before is still good: make room and run the same command again, or choose another "
                "run_dir",
            ) from None

    def _cannot_write(self, error: BaseException) -> bool:
        """Whether it is the run's own files that cannot be written."""
        if not isinstance(error, OSError):
            return False
        file, own = Path(str(error.filename or os.devnull)).absolute(), self.path.absolute()  # logging names it so
        return error.errno in _NO_ROOM or own in (file, *file.parents) or file in own.parents

    def begin(self, config: Configuration, corpus: Corpus, made_from: Origins) -> None:
        """Write what a run has from its start, or note that it goes on. Call it inside `exclusive_lock`."""
        for name in FILES:
            for left_by_a_kill in self.path.glob(f".{name}.*.part"):
                left_by_a_kill.unlink()
        if not self.config_file.exists():
            self.write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(config))).encode())
        starts = []
        if self._has_learnt():
            starts = self.starts()
        else:  # nothing of the text that a killed start has read counts any more
            self.write("vocabulary.txt", "".join(f"{word}\n" for word in corpus.vocabulary.words).encode())
            if conditions := corpus.vocabulary.conditions:
                self.write(CONDITIONS, "".join(f"{label}\n" for label in conditions).encode())
            if pieces := corpus.vocabulary.form.pieces:
                self.write(SCORES, "".join(f"{score!r}\n" for score in pieces.scores.values()).encode())
        self.write_json("provenance.json", [*starts, with_checksum(provenance(corpus, made_from))])

    def _discard(self, before: set[str], new: Sequence[Path]) -> None:
        """Take back `begin` where nothing is learnt: files not there ``before``, ``new`` folders from the innermost."""
        with contextlib.suppress(OSError):
            added = self.names() - before
            if added <= set(WRITTEN_FIRST):
                for name in reversed(WRITTEN_FIRST):  # while config.yaml is there the folder is a run
                    if name in added:
                        (self.path / name).unlink()
                for folder in new:
                    folder.rmdir()

    @property
    def config_file(self) -> Path:
        """Its presence makes a folder a run directory."""
        return self.path / CONFIG

    def config(self) -> Configuration:
        """The configuration that the run was started with; a UserError where there is none, or none of a run."""
        if self._config is not None:
            return self._config
        if not self.config_file.exists():
            meant = None if self.path.exists() else nearest(self.path)
            reason = "it has no config.yaml" if self.path.exists() else "there is no such folder"
            if self.path.suffix == ".npz" and self.path.is_file():
                reason = "a file of log p is for lmzoo compare --tokens and --mixture"
            raise UserError(
                f"{self.path}: not a run directory ({reason}{f'; is it {meant}?' if meant else ''})",
                None if meant else "lmzoo compare lists the runs",
            )
        data = self.read(CONFIG)
        try:
            config = parse(data.decode())
        except Exception as error:
            raise UserError(f"{self.config_file}: cannot be read ({one_line(error)})") from None
        with self.reading(CONFIG):
            self._config = Configuration(config)
        return self._config

    def vocabulary(self) -> Vocabulary:
        """The words of the run's corpus; a UserError where they cannot be read or the run learnt with others."""
        options = self.config()["corpus"]
        words, conditions = self.lines("vocabulary.txt"), self.lines(CONDITIONS) if options.get("condition") else []
        with self.reading("config.yaml"):
            form = Form.of(options)
        if form.of_pieces:
            scores = self.lines(SCORES)
            with self.damaged(SCORES):
                form = form.cut_by(Subwords.of(cast(Kind, form.unit), words, scores))
        with self.damaged("vocabulary.txt"):
            return Vocabulary(words, form, conditions)

    def corpus(self, downloaded: bool = True) -> Corpus:
        """What the run reads of its corpus, which must still be the text that the run was trained on.

        Args:
            downloaded: whether a public corpus is downloaded where it is not there; where not, this is a UserError.
        """
        config, cut = self.config(), (self.path / SCORES).exists()
        options = dict(config["corpus"])
        if not downloaded and options.get("urls"):
            options["urls"] = []
        if cut or options.get("vocabulary"):  # another run or file, which may be gone
            options["vocabulary"] = str(self.path)
        try:
            corpus = configured_corpus({**config, "corpus": options})
        except UserError as error:
            if error.advice:
                raise
            here = "names are sought from the current folder, so go to the one where the run was trained"
            raise UserError(f"{self.path}: {error.problem}", here) from None
        self.check_text(corpus)
        return corpus

    def split(self, name: str) -> Part:
        """A split of `corpus`, with the conditions of its lines, if any."""
        corpus = self.corpus()
        return Part(None, corpus.splits[name].long(), corpus.conditions.get(name))

    def results(self) -> dict[str, Any] | None:
        """The results of a finished run, without the checksums of its files, which are compared; None before."""
        if not (self.path / "results.json").exists():
            return None
        with self.reading(RESULTS):
            results = checked(self.read_json(RESULTS))
        for name, kept in results.pop("files", {}).items():
            if name in WRITTEN_FIRST and kept != sha256(self.read(name)):
                raise self.unusable(name, f"not as the run wrote it (its checksum in {RESULTS} is another)")
        return results

    def unfinished(self) -> str | None:
        """A warning where training is not finished."""
        if self.results() is not None:
            return None
        return f"{self.path}: its training is not finished; these are the best weights so far"

    def starts(self) -> list[dict[str, Any]]:
        """What ``provenance.json`` has of every start, the first one first.

        Raises: UserError where it is no such file.
        """
        starts = self.read_json("provenance.json")
        if not isinstance(starts, list) or not starts or any(map(is_altered, starts)):
            raise self.unusable("provenance.json", NOT_AS_WRITTEN)
        return starts

    def save(self, name: str, checkpoint: Mapping[str, Any]) -> None:
        """Write tensors, tuples and plain dictionaries as a checkpoint.

        The checkpoint also holds the configuration and the vocabulary's checksum, so that no other run can use it, and
        a checksum of all that.

        Raises: UserError for other things in it, as the state of an optimizer of one's own may have.
        """
        require_plain(checkpoint)
        checkpoint = {**checkpoint, "config": dict(self.config()), "vocabulary": self._vocabulary_sha256()}
        with self.writing(name) as stream:
            write_checkpoint({**checkpoint, CHECKSUM: checkpoint_sha256(checkpoint)}, stream)

    def finish(self, results: Mapping[str, Any], *files: str) -> None:
        """Write ``results.json`` with the checksums of the configuration, the words, and some more files.

        Raises: OSError where there is no room.
        """
        present = [name for name in (CONFIG, *WORDS) if (self.path / name).exists()]
        checksums = {name: sha256((self.path / name).read_bytes()) for name in (*present, *files)}
        self.write_json(RESULTS, with_checksum({**results, "files": checksums}))

    def _vocabulary_sha256(self) -> str:
        return sha256(b"".join(self.read(name) for name in WORDS if name == WORDS[0] or (self.path / name).exists()))

    def restore(self, name: str, *needed: str) -> dict[str, Any] | None:
        """A checkpoint with at least the given parts, on the CPU; None where there is none. Nothing in it can run code.

        Raises: UserError for a file that is damaged, no checkpoint, or another run's.
        """
        if not (path := self.path / name).exists():
            return None
        try:
            checkpoint = read_checkpoint(path)
        except DamagedError:
            raise self.unusable(name, "damaged, or no checkpoint of lmzoo") from None
        if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"config", "vocabulary", *needed}:
            raise self.unusable(name, "no checkpoint of lmzoo")
        if checkpoint.pop(CHECKSUM, None) != checkpoint_sha256(checkpoint):
            raise self.unusable(name, NOT_AS_WRITTEN)
        with self.reading(name):
            changed = Configuration(checkpoint["config"]).differences(self.config())
        if changed:
            raise self.unusable(name, f"a checkpoint of another run ({'; '.join(changed)})")
        if checkpoint["vocabulary"] != self._vocabulary_sha256():
            raise self.unusable("vocabulary.txt", f"not the words that {name} was trained with")
        return checkpoint

    def load_weights(self, model: LanguageModel, checkpoint: Mapping[str, Any], name: str) -> None:
        """Put a checkpoint's weights into a model, as `take_weights` does."""
        with self.reading(name):
            take_weights(model, checkpoint["model"])
