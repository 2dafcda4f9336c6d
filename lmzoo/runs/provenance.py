"""Where a run's figures come from: the code, its versions, the machine, the command line and the corpus."""

import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import omegaconf
import torch

from lmzoo.core.version import __version__
from lmzoo.corpus import Corpus


def provenance(corpus: Corpus) -> dict[str, Any]:
    """The facts about this process, and about the corpus that it reads."""
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
        "corpus": {"name": corpus.name, "sha256": corpus.sha256, **corpus.notes},
    }


def _cpu() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(names, platform.processor())}, {torch.backends.cpu.get_cpu_capability()}"


def _git_state() -> dict[str, Any] | None:
    """The checkout's commit and whether files differ from it; None outside a checkout."""
    folder = Path(__file__).resolve().parent.parent.parent
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
