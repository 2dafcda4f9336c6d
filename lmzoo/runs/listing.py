"""Runs on disk, and their abbreviations on the command line."""

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import write_output

CONFIG = "config.yaml"
"""The file that makes a folder a run."""

OUTPUTS = Path("outputs")
"""The folder of runs for which no ``run_dir`` is set."""

LATEST = OUTPUTS / "LATEST"
"""The file with the path of the run that was finished last."""

TABLE = OUTPUTS / ".compared"
"""The file with the paths of the runs in the last table of ``lmzoo compare``."""


def below(folder: Path) -> list[Path]:
    """The runs at any depth in a folder, which may itself be one; hidden folders are skipped."""
    files = sorted(folder.rglob(CONFIG))
    return [file.parent for file in files if not str(file.relative_to(folder)).startswith(".")]


def write_list(file: Path, runs: Iterable[Path]) -> str | None:
    """Write paths to `LATEST` or `TABLE` if `OUTPUTS` exists. Returns: a warning if that fails."""
    if not file.parent.is_dir():
        return None
    try:
        write_output(file, b"\0".join(map(os.fsencode, runs)), followed=False)
    except UserError as error:
        return f"{error.problem}, so that {'numbers are' if file == TABLE else 'LATEST is'} as before"
    return None


def find(name: str) -> Path:
    """Resolve the name of a run or file on a command line; raise a UserError if it is ambiguous or no such row.

    Args:
        name: a path; ``LATEST``; a row number of the last table of ``lmzoo compare``; or a unique prefix of a run's
            path with or without ``outputs/`` and the corpus.
    """
    path = Path(name)
    if name in (LATEST.name, str(LATEST)) and (latest := _recorded(LATEST)) and _is_run(latest[0]):
        return latest[0]
    if path.exists():
        return path
    if name.isdecimal():
        rows = _recorded(TABLE)
        if not rows:
            raise UserError(f"{name}: {OUTPUTS} has no table of lmzoo compare", "print it, or name the folder of a run")
        if not 0 < int(name) <= len(rows):
            raise UserError(f"{name}: the table of lmzoo compare has {len(rows)} rows", "print it again")
        if not _is_run(run := rows[int(name) - 1]):
            raise UserError(
                f"{name}: {shortened(str(run))} is not a run any more", "print the table of lmzoo compare again"
            )
        return run
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


def _recorded(file: Path) -> list[Path]:
    """The paths written by `write_list`; empty if the file cannot be read."""
    try:
        return [Path(os.fsdecode(run)) for run in file.read_bytes().split(b"\0")]
    except OSError:
        return []


def _is_run(folder: Path) -> bool:
    return os.path.exists(folder / CONFIG)  # noqa: PTH110 - False if the name is too long


def _names(path: Path) -> dict[Path, set[str]]:
    """The runs in `OUTPUTS` and in the parent folder of a path, each with its names."""
    beside = [file.parent for file in path.parent.glob(f"*/{CONFIG}")]
    inside = {run: {str(run), str(run.relative_to(OUTPUTS)), run.name} for run in below(OUTPUTS)}
    return {run: {str(run)} for run in beside} | inside
