"""Runs on disk, and their abbreviations on the command line."""

import os
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import write_atomic

CONFIG = "config.yaml"
"""The file that makes a folder a run."""

OUTPUTS = Path("outputs")
"""The folder of runs for which no ``run_dir`` is set."""

LATEST = OUTPUTS / "LATEST"
"""The file with the path of the run in `OUTPUTS` that was finished last."""


def below(folder: Path) -> list[Path]:
    """The runs at any depth in a folder, which may itself be one; links are followed, hidden folders are skipped."""
    found, visited = [], set()
    for path, folders, files in os.walk(folder, followlinks=True):
        if (place := os.path.realpath(path)) in visited:  # a link to a folder above or beside it
            folders.clear()
            continue
        visited.add(place)
        folders[:] = [name for name in folders if name[0] != "."]
        if CONFIG in files:
            found.append(Path(path))
    return sorted(found)


def write_latest(run: Path) -> None:
    """Write a path to `LATEST`, which stays as before if that fails."""
    with suppress(OSError):
        write_atomic(LATEST, os.fsencode(run))


def find(name: str) -> Path:
    """Resolve the name of a run or file on a command line; raise a UserError if it is ambiguous.

    Args:
        name: a path; ``LATEST``; or a unique prefix of a run's path with or without ``outputs/`` and the corpus.
    """
    path = Path(name)
    if name in (LATEST.name, str(LATEST)) and (latest := _latest()) and _is_run(latest):
        return latest
    try:
        if path.exists():
            return path
    except OSError as error:  # a name that is too long
        raise UserError(f"{shortened(name)}: cannot be read ({error.strerror})") from None
    names = _names(path)
    whole = [run for run, called in names.items() if str(path) in called]
    begun = whole or [run for run, called in names.items() if any(one.startswith(str(path)) for one in called)]
    if len(begun) > 1:
        raise UserError(
            f"{name}: {len(begun)} runs begin with it, such as {begun[0]} and {begun[1]}", "write a longer prefix"
        )
    return begun[0] if begun else path


def names(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by the last parts of their paths, as many of all as tell them apart; each folder once."""
    different = list({folder.resolve(): folder for folder in folders}.values())
    parts = [folder.absolute().parts for folder in different]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        found = ["/".join(path[-depth:]) for path in parts]
        if len(set(found)) == len(found):
            return dict(zip(found, different, strict=True))
    return {}


def nearest(path: Path) -> Path | None:
    """The run whose name is most similar to a path that does not exist."""
    runs = {one: run for run, called in _names(path).items() for one in called}
    close = get_close_matches(str(path), runs, n=1)
    return runs[close[0]] if close else None


def _latest() -> Path | None:
    """The path written by `write_latest`; None if the file cannot be read."""
    try:
        return Path(os.fsdecode(LATEST.read_bytes()))
    except OSError:
        return None


def _is_run(folder: Path) -> bool:
    return os.path.exists(folder / CONFIG)  # noqa: PTH110 - False if the name is too long


def _names(path: Path) -> dict[Path, set[str]]:
    """The runs in `OUTPUTS` and in the parent folder of a path, each with its names."""
    beside = [file.parent for file in path.parent.glob(f"*/{CONFIG}")]
    inside = {run: {str(run), str(run.relative_to(OUTPUTS)), run.name} for run in below(OUTPUTS)}
    return {run: {str(run)} for run in beside} | inside
