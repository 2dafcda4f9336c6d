"""The tests with the oldest and with the newest versions that ``pyproject.toml`` allows, in environments of their own.

``python scripts/checks/versions.py [--end oldest|newest] [OPTIONS OF PYTEST]``, before each release. The oldest
versions are the minimum of each requirement with its latest corrections, on the oldest Python; the newest are what pip
chooses on the newest Python. Both Pythons have to be on the PATH; with pyenv set ``PYENV_VERSION=3.11:3.13``.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
QUIET = ("-W", "ignore::DeprecationWarning")
"""Old releases call what is deprecated in the newer ones that they need: matplotlib 3.9 in pyparsing 3.3."""
VERSIONS = """
import platform, importlib.metadata as installed
names = ("torch", "numpy", "hydra-core", "omegaconf", "tensorboard")
print("Python", platform.python_version() + "".join(f", {name} {installed.version(name)}" for name in names))
"""


def pythons(project: Mapping[str, Any]) -> list[str]:
    """The Pythons of a project, oldest first, such as ``python3.11``."""
    allowed = SpecifierSet(project["requires-python"])
    return [f"python3.{minor}" for minor in range(100) if f"3.{minor}.99" in allowed]


def minima(project: Mapping[str, Any]) -> list[str]:
    """What holds pip to the oldest versions of a project's requirements: ``torch>=2.6`` becomes ``torch==2.6.*``.

    Raises: ValueError for a requirement without a minimum.
    """
    constraints = []
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = Requirement(line)
        if requirement.name == project["name"]:
            continue
        lowest = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if len(lowest) != 1:
            raise ValueError(f"pyproject.toml: {line!r} has no minimum")
        constraints.append(f"{requirement.name}=={lowest[0]}.*")
    return constraints


def tried(python: str, constraints: Sequence[str], arguments: Sequence[str]) -> tuple[bool, str]:
    """Whether the README's test command passes in a new environment, and one line that says with what.

    Raises: subprocess.CalledProcessError where the environment cannot be made.
    """
    with tempfile.TemporaryDirectory() as folder:
        held, inside = Path(folder, "constraints.txt"), Path(folder, "environment", "bin", "python")
        held.write_text("\n".join(constraints), encoding="utf-8")
        subprocess.run([python, "-m", "venv", inside.parent.parent], check=True)
        subprocess.run([inside, "-m", "pip", "install", "--quiet", "-c", held, "-e", ".[dev]"], cwd=ROOT, check=True)
        found = subprocess.run([inside, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.strip()
        command = [inside, "-m", "pytest", *arguments]
        with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as tests:
            last = ""
            for line in tests.stdout or ():
                print(line, end="", flush=True)
                last = line.strip(" =\n") or last
        return tests.returncode == 0, f"{found}: {last}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--end", choices=["oldest", "newest"])
    options, arguments = parser.parse_known_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ends = {"oldest": (pythons(project)[0], minima(project), QUIET), "newest": (pythons(project)[-1], (), ())}
    summary, good = [], True
    for end in [options.end] if options.end else ends:
        python, constraints, quiet = ends[end]
        try:
            passed, line = tried(python, constraints, [*quiet, *arguments])
        except (OSError, subprocess.CalledProcessError) as error:
            passed, line = False, str(error)
        good, summary = good and passed, [*summary, f"{end}: {'passed' if passed else 'FAILED'}: {line}"]
    print(*summary, sep="\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
