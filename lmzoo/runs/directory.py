"""The run directory. Its files are described in docs/architecture.md, "The life of a run"."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from lmzoo.core import ranks
from lmzoo.core.checksums import CHECKSUM, NOT_AS_WRITTEN, RESULTS, is_altered, with_checksum
from lmzoo.core.configs import parse
from lmzoo.core.errors import UserError, one_line, out_of_memory, shortened
from lmzoo.core.files import sha256
from lmzoo.core.plugins import require_plugins
from lmzoo.corpus import Corpus, Vocabulary, load_corpus
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Kind, Subwords
from lmzoo.corpus.user_files import CONDITIONS, SCORES
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.protocol.lines import Part, file_parts
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.checkpoint import (
    checkpoint_sha256,
    read_checkpoint,
    require_plain,
    write_checkpoint,
)
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.files import Files, locked
from lmzoo.runs.kinds import KINDS
from lmzoo.runs.listing import CONFIG, nearest
from lmzoo.runs.provenance import Origins, provenance

WORDS = ("vocabulary.txt", CONDITIONS, SCORES)
"""The files of a vocabulary, of which only the first is required."""

WRITTEN_FIRST = (CONFIG, *WORDS, "provenance.json", "train.log")
"""The files of a run before training, in the order of writing."""

LABELLED = ("valid.labels", "test.labels")

WEIGHTS_FILES = tuple(dict.fromkeys(kind.weights_file for kind in KINDS))
"""The files of trained parameters or vectors; a run has one of them."""

FILES = (*WRITTEN_FIRST, "last.pt", *WEIGHTS_FILES, *LABELLED, "results.json")

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
"""Error numbers of the system for disks that are full, broken or not writable."""


class Run(Files):
    """A run directory."""

    _config: Configuration | None = None

    def check(self, config: Configuration) -> None:
        """Raise a UserError if no run with this configuration can start or resume here. Nothing is written."""
        names = self.names()  # an error for a file, or a name that is too long
        folder = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(f"run_dir={self.path}: {folder} is not a writable folder", "choose another")
        if self.config_file.name not in names:
            if any(name != "train.log" and not name.startswith(".") for name in names):
                raise UserError(f"run_dir={self.path}: contains other files and no run", "choose another")
            return
        if changed := self.config().differences(config):
            raise UserError(
                f"run_dir={self.path}: contains a run with another configuration ({'; '.join(changed)})",
                "choose another run_dir, or repeat the options it was started with",
            )

    def check_origins(self, made_from: Origins) -> None:
        """Raise a UserError if a file or run given in the options has changed since the run was made from it.

        Files and runs that no longer exist are not compared.
        """
        if not self._is_trained():
            return
        made_from_then = self.origins()
        for option, checksums in made_from.items():
            then = made_from_then.get(option, {})
            for name, now in checksums.items():
                if then.get(name, now) != now:
                    raise UserError(
                        f"{self.path}: was started with another version of {option}={name}",
                        "restore it, or choose another run_dir",
                    )

    def origins(self) -> Origins:
        """The checksums of the run's sources at its first start."""
        return self.starts()[0]["made_from"]

    def _is_trained(self) -> bool:
        return bool(self.names() & {"last.pt", "results.json", *WEIGHTS_FILES})

    def changed_splits(self, corpus: Corpus) -> list[str]:
        """The splits of a corpus, and its vocabulary if given, that are not those that the run started with."""
        then, now = self.recorded_corpus()["sha256"], corpus.sha256
        return [name for name in {**then, **now} if then.get(name) != now.get(name)]

    def check_text(self, corpus: Corpus) -> None:
        """Raise a UserError if the corpus is not the text that the run was trained on."""
        if not self._is_trained():
            return
        begun_with = self.recorded_corpus()
        if changed := self.changed_splits(corpus):
            splits = ", ".join(changed)
            notes = "".join(
                f"; {name} then {begun_with[name]}, now {note}"
                for name, note in corpus.notes.items()
                if begun_with.get(name, note) != note
            )
            raise UserError(
                f"{self.path}: was trained on another text than corpus {corpus.name} now (different: {splits}{notes})",
                "restore that text, or choose another run_dir to train, a file to evaluate",
            )
        if corpus.vocabulary.words != self.lines("vocabulary.txt"):
            raise UserError(
                f"{self.path}: was trained on other words than corpus {corpus.name} has now",
                "use the version of lmzoo, or of the plug-in, that the run began with, or choose another run_dir",
            )

    def recorded_corpus(self) -> dict[str, Any]:
        """The corpus at the first start, as recorded by `provenance`: its name, the ``sha256`` of each split, notes."""
        return self.starts()[0]["corpus"]

    @contextlib.contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Create the folder if necessary and lock it against other processes; raise a UserError if that fails.

        After an error, the files written by `begin` are removed unless a training result has been saved.
        """
        new = [folder for folder in (self.path, *self.path.absolute().parents) if not folder.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be made ({error.strerror})", "choose another") from None
        try:
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
                "earlier checkpoints are intact: free disk space and run the same command again, or choose another "
                "run_dir",
            ) from None

    def _cannot_write(self, error: BaseException) -> bool:
        """Whether an error is a failure to write to the run directory."""
        if not isinstance(error, OSError):
            return False
        file, own = Path(str(error.filename or os.devnull)).absolute(), self.path.absolute()  # logging uses this name
        return error.errno in _NO_ROOM or own in (file, *file.parents) or file in own.parents

    def begin(self, settings: dict[str, Any], corpus: Corpus, made_from: Origins) -> None:
        """Write the initial files of a run, or record that it is resumed.

        All ranks call it, rank 0 inside `exclusive_lock`, and only rank 0 writes.

        Raises: UserError if the ranks differ in settings or text.
        """
        ranks.require_same("configuration", settings)
        ranks.require_same("text", corpus.sha256)
        if not ranks.is_main():
            return
        for name in FILES:
            for left_by_a_kill in self.path.glob(f".{name}.*.part"):
                left_by_a_kill.unlink()
        if not self.config_file.exists():
            self.write(CONFIG, OmegaConf.to_yaml(OmegaConf.create(settings)).encode())
        starts = []
        if self._is_trained():
            starts = self.starts()
        else:  # overwrite files of a start that was killed before training
            words, pieces = corpus.vocabulary, corpus.vocabulary.form.pieces
            scores = [repr(score) for score in pieces.scores.values()] if pieces else []
            for name, lines in zip(WORDS, (words.words, words.conditions, scores), strict=True):
                if lines:
                    self.write(name, "".join(f"{line}\n" for line in lines).encode())
        self.write_json("provenance.json", [*starts, with_checksum(provenance(corpus, made_from))])

    def _discard(self, before: set[str], new: Sequence[Path]) -> None:
        """Undo `begin` before training: delete files not in ``before``, then the ``new`` folders, innermost first."""
        with contextlib.suppress(OSError):
            added = self.names() - before
            if added <= set(WRITTEN_FIRST):
                for name in reversed(WRITTEN_FIRST):  # the folder is a run while config.yaml exists
                    if name in added:
                        (self.path / name).unlink()
                for folder in new:
                    folder.rmdir()

    @property
    def config_file(self) -> Path:
        """The configuration file, whose presence makes a folder a run directory."""
        return self.path / CONFIG

    def config(self) -> Configuration:
        """The configuration that the run was started with; raise a UserError if it is missing or invalid."""
        if self._config is not None:
            return self._config
        if not self.config_file.exists():
            meant, reason = None, f"it has no {CONFIG}"
            if not self.path.exists():
                meant, reason = nearest(self.path), "there is no such folder"
            elif self.path.is_file():
                arpa = "" if holds_arpa(self.path) else ", and not in ARPA format"
                reason = f"it is a file{arpa}"
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
        """The vocabulary of the run; raise a UserError if it is unreadable or not the one of training."""
        options = self.config()["corpus"]
        words, conditions = self.lines("vocabulary.txt"), self.lines(CONDITIONS) if options.get("condition") else []
        with self.reading(CONFIG):
            form = Form.of(options)
        if form.of_pieces:
            scores = self.lines(SCORES)
            with self.damaged(SCORES):
                form = form.with_pieces(Subwords.of(cast(Kind, form.unit), words, scores))
        with self.damaged("vocabulary.txt"):
            return Vocabulary(words, form, conditions)

    def corpus(self) -> Corpus:
        """The corpus as the run reads it; raise a UserError if it is not the text that the run was trained on."""
        config, cut = self.config(), (self.path / SCORES).exists()
        options = dict(config["corpus"])
        if cut or options.get("vocabulary"):  # the other run or file may have been deleted
            options["vocabulary"] = str(self.path)
        try:
            corpus = load_corpus(options).truncated(config.get("trainer", {}).get("first_tokens"))
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

    def parts(self, text: str, vocabulary: Vocabulary) -> Iterable[Part]:
        """A `split` as one part, or a file as `file_parts`; raise a UserError if there is neither."""
        if text in SPLITS:
            return [self.split(text)]
        if not os.path.exists(text):  # noqa: PTH110 - for names of any length
            meant = get_close_matches(text, SPLITS, n=1)
            advice = f"did you mean '{meant[0]}'?" if meant else None
            if len(text.split()) > 1:
                advice = "lmzoo score measures a text by itself: echo 'one line' | lmzoo score RUN"
            raise UserError(f"{shortened(text)}: neither a split ({', '.join(SPLITS)}) nor a file", advice)
        return file_parts(vocabulary, Path(text))

    def results(self) -> dict[str, Any] | None:
        """The results of a finished run, after comparison of its files with their checksums; None before the end."""
        if not (self.path / "results.json").exists():
            return None
        if is_altered(results := self.read_json(RESULTS)):
            raise self.unusable(RESULTS, NOT_AS_WRITTEN)
        results.pop(CHECKSUM)
        for name, recorded in results.pop("files", {}).items():
            if name in WRITTEN_FIRST and recorded != sha256(self.read(name)):
                raise self.unusable(name, f"changed since the run wrote it (its checksum in {RESULTS} is another)")
        return results

    def unfinished(self) -> str | None:
        """A warning if training is not finished."""
        if self.results() is not None:
            return None
        return f"{self.path}: its training is not finished; these are the best weights so far"

    def starts(self) -> list[dict[str, Any]]:
        """The records of all starts in ``provenance.json``, the first one first.

        Raises: UserError if the file is invalid.
        """
        starts = self.read_json("provenance.json")
        if not isinstance(starts, list) or not starts or any(map(is_altered, starts)):
            raise self.unusable("provenance.json", NOT_AS_WRITTEN)
        return starts

    def save(self, name: str, checkpoint: Mapping[str, Any]) -> None:
        """Write tensors, tuples and plain dictionaries as a checkpoint.

        The configuration, the checksum of the vocabulary and one of everything are added, so that no other run can use
        the checkpoint.

        Raises: UserError if it contains other types, such as the state of a custom optimizer may.
        """
        require_plain(checkpoint)
        checkpoint = {**checkpoint, "config": dict(self.config()), "vocabulary": self._vocabulary_sha256()}
        with self.writing(name) as stream:
            write_checkpoint({**checkpoint, CHECKSUM: checkpoint_sha256(checkpoint)}, stream)

    def finish(self, results: Mapping[str, Any], *files: str) -> None:
        """Write ``results.json`` with the checksums of the configuration, the vocabulary and more ``files``.

        Raises: OSError if the disk is full.
        """
        present = [name for name in (CONFIG, *WORDS) if (self.path / name).exists()]
        checksums = {name: sha256((self.path / name).read_bytes()) for name in (*present, *files)}
        self.write_json(RESULTS, with_checksum({**results, "files": checksums}))

    def _vocabulary_sha256(self) -> str:
        return sha256(b"".join(self.read(name) for name in WORDS if name == WORDS[0] or (self.path / name).exists()))

    def restore(self, name: str, *needed: str) -> dict[str, Any] | None:
        """Read a checkpoint with the required keys to the CPU; None if it does not exist. No code in it is run.

        Raises: UserError if it is damaged, not a checkpoint, or that of another run.
        """
        if not (path := self.path / name).exists():
            return None
        checkpoint = read_checkpoint(path)
        if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"config", "vocabulary", *needed}:
            raise self.unusable(name, "damaged, or no checkpoint of lmzoo")
        if checkpoint.pop(CHECKSUM, None) != checkpoint_sha256(checkpoint):
            raise self.unusable(name, NOT_AS_WRITTEN)
        with self.reading(name):
            changed = Configuration(checkpoint["config"]).differences(self.config())
        if changed:
            raise self.unusable(name, f"a checkpoint of another run ({'; '.join(changed)})")
        if checkpoint["vocabulary"] != self._vocabulary_sha256():
            raise self.unusable("vocabulary.txt", f"not the words that {name} was trained with")
        return checkpoint

    def best(self, *needed: str) -> dict[str, Any]:
        """The checkpoint of the best weights, with the required keys.

        Raises: UserError as `restore` does, for a run without weights, and if a plug-in is missing.
        """
        require_plugins(self.config()["plugins"], self.path)
        if (checkpoint := self.restore("best.pt", *needed)) is None:
            raise UserError(f"{self.path}: has no best.pt yet", "train it first")
        return checkpoint

    def load_weights(self, model: LanguageModel, checkpoint: Mapping[str, Any], name: str) -> None:
        """Load the weights of a checkpoint into a model; raise a UserError if they do not fit the model."""
        with self.reading(name):
            try:
                model.load_state_dict(checkpoint["model"])
            except RuntimeError as error:
                if out_of_memory(error) or not str(error).startswith("Error(s) in loading"):
                    raise
                raise UserError(f"not this model's weights ({' '.join(str(error).split())[:200]})") from None
