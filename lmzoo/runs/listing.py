"""The runs that are there, and what a command line calls one of them."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import write_output

CONFIG = "config.yaml"
"""Its presence makes a folder a run."""

OUTPUTS = Path("outputs")
"""Where runs are whose folder is not named."""

LATEST = OUTPUTS / "LATEST"
"""Names the run that was finished last."""

TABLE = OUTPUTS / ".compared"
"""Names the run of each row of the table that ``lmzoo compare`` has printed last."""


def below(folder: Path) -> list[Path]:
    """The runs in a folder, however deep, or the folder itself; not those in folders that are hidden."""
    files = sorted(folder.rglob(CONFIG))
    return [file.parent for file in files if not str(file.relative_to(folder)).startswith(".")]


def note(file: Path, runs: Iterable[Path]) -> str | None:
    """Write `LATEST` or `TABLE` where there is an `OUTPUTS`. Returns: a warning where that cannot be written."""
    if not file.parent.is_dir():
        return None
    try:
        write_output(file, b"\0".join(map(os.fsencode, runs)), followed=False)
    except UserError as error:
        return f"{error.problem}, so that {'numbers are' if file == TABLE else 'LATEST is'} as before"
    return None


def find(name: str) -> Path:
    """The folder or file that a command line names; a UserError where several runs begin so, and for no row.

    Args:
        name: a path; ``LATEST``; the number of a row of the table that ``lmzoo compare`` has printed last; or what the
            path of one run alone begins with, with ``outputs/`` and the corpus before it or without.
    """
    path = Path(name)
    if name in (LATEST.name, str(LATEST)) and (latest := _noted(LATEST)) and _is_run(latest[0]):
        return latest[0]
    if path.exists():
        return path
    if name.isdecimal():
        rows = _noted(TABLE)
        if not rows:
            raise UserError(f"{name}: {OUTPUTS} has no table of lmzoo compare", "print it, or name the folder of a run")
        if not 0 < int(name) <= len(rows):
            raise UserError(f"{name}: the table of lmzoo compare has {len(rows)} rows", "print it again")
        if not _is_run(run := rows[int(name) - 1]):
            raise UserError(
                f"{name}: {shortened(str(run))} is no run any more", "print the table of lmzoo compare again"
            )
        return run
    names = _names(path)
    whole = [run for run, called in names.items() if str(path) in called]
    begun = whole or [run for run, called in names.items() if any(one.startswith(str(path)) for one in called)]
    if len(begun) > 1:
        raise UserError(f"{name}: {len(begun)} runs begin so, such as {begun[0]} and {begun[1]}", "write more of it")
    return begun[0] if begun else path


def nearest(path: Path) -> Path | None:
    """The run that is called most like a path that is not there."""
    runs = {one: run for run, called in _names(path).items() for one in called}
    close = get_close_matches(str(path), runs, n=1)
    return runs[close[0]] if close else None


def _noted(file: Path) -> list[Path]:
    """What `note` has written; nothing where it has not."""
    try:
        return [Path(os.fsdecode(run)) for run in file.read_bytes().split(b"\0")]
    except OSError:
        return []


def _is_run(folder: Path) -> bool:
    return os.path.exists(folder / CONFIG)  # noqa: PTH110 - a name that is too long is none


def _names(path: Path) -> dict[Path, set[str]]:
    """The runs in `OUTPUTS`, and those beside a path, with what each may be called."""
    beside = [file.parent for file in path.parent.glob(f"*/{CONFIG}")]
    inside = {run: {str(run), str(run.relative_to(OUTPUTS)), run.name} for run in below(OUTPUTS)}
    return {run: {str(run)} for run in beside} | inside
