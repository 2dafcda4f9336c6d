"""The origin of figures: code, versions, machine, command line, corpus and source runs."""

import hashlib
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import omegaconf
import torch

from lmzoo.core.errors import UserError
from lmzoo.core.files import input_stream
from lmzoo.core.version import __version__
from lmzoo.corpus import Corpus
from lmzoo.corpus.form import Unit
from lmzoo.corpus.user_files import form_of_run
from lmzoo.words.vectors.formats import VECTORS

Origins = Mapping[str, Mapping[str, str]]
"""The SHA-256 of each source file or run, by option and then by the name given there."""


def origins(named: Mapping[str, Sequence[str]], unit: Unit) -> Origins:
    """The checksums of the existing files, or weights or vectors of runs, given by option in ``named``.

    Raises: UserError if the unit of a run, words or characters, is not ``unit``.
    """
    checksums: dict[str, dict[str, str]] = {option: {} for option in named}
    for option, name in ((option, name) for option, names in named.items() for name in names):
        theirs = form_of_run(name).get("unit", unit)
        if theirs != unit:
            raise UserError(f"{option}: {name} has corpus.unit={theirs}, and here it is {unit}", "choose another run")
        trained = [Path(name, part) for part in ("best.pt", VECTORS)]
        file = next(filter(Path.exists, trained), Path(name))
        if file.is_file():  # a pipe can be read only once
            with input_stream(file) as stream:
                digest = hashlib.file_digest(stream, "sha256")  # pyright: ignore[reportArgumentType]
            checksums[option][name] = digest.hexdigest()
    return checksums


def provenance(corpus: Corpus, made_from: Origins) -> dict[str, Any]:
    """Record this process, the corpus, and other sources."""
    files: dict[str, Any] = {"files": corpus.of_files} if corpus.of_files else {}
    if "train" in corpus.cut_from:
        files["lines_of"] = corpus.cut_from["train"]
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "argv": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": _git_state(),
        "versions": {
            "lmzoo": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "omegaconf": omegaconf.__version__,
        },
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "cpu": _cpu(),
            "threads": torch.get_num_threads(),
            "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        },
        "corpus": {"name": corpus.name, "sha256": corpus.sha256, **files, **corpus.notes},
        "made_from": made_from,
    }


def _cpu() -> str:
    """The name of the processor, if the system provides it."""
    try:
        found = re.search(r"^model name\s*:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return platform.processor()
    return f"{found[1].strip() if found else platform.processor()}, {torch.backends.cpu.get_cpu_capability()}"


def _git_state() -> dict[str, Any] | None:
    """The commit of the checkout, and whether code or configuration differ from it; None outside a checkout."""
    folder = Path(__file__).resolve().parent.parent.parent
    if not (folder / ".git").exists():
        return None

    command = ["git", "status", "--porcelain=v2", "--branch", "--", "lmzoo", "configs"]
    try:
        status = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    commit = re.search(r"^# branch.oid (\w+)$", status, re.MULTILINE)
    changed = not all(line.startswith("#") for line in status.splitlines())
    return {"commit": commit[1], "dirty": changed} if commit else None
