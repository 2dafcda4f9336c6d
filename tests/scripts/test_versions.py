"""scripts/checks/versions.py: both ends are pyproject.toml's; an end that fails is reported with the other's line."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import versions
from packaging.requirements import Requirement
from packaging.version import Version
from versions import ROOT, minima, pythons

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_oldest_versions_are_the_minima_of_all_requirements():
    oldest = {line.partition("==")[0]: line for line in minima(PROJECT)}
    for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"][:-1]]:
        requirement = Requirement(line)
        held = Requirement(oldest[requirement.name]).specifier
        lowest = min(Version(bound.version) for bound in requirement.specifier)
        assert f">={lowest}" in line
        assert str(lowest) in held
        assert f"{lowest}.1" in held
        assert f"{lowest.major + 1}" not in held
    assert "scikit-learn==1.5.*" in minima(PROJECT)  # of an extra that dev takes in


@pytest.mark.parametrize("line", ["torch", "torch<3", "torch>=2,>=2.6"])
def test_a_requirement_without_one_minimum_is_refused(line: str):
    with pytest.raises(ValueError, match=rf"'{line}' has no minimum"):
        minima({"name": "mine", "dependencies": [line], "optional-dependencies": {}})


def test_the_pythons_are_those_of_the_project():
    assert pythons({"requires-python": ">=3.9,<3.12"}) == ["python3.9", "python3.10", "python3.11"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, *_, last = (python.removeprefix("python") for python in pythons(PROJECT))
    assert f"You need Python {first}–{last}" in readme


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of a call that makes no environment: pip cannot install the oldest versions, the newest fail."""
    called, whole = [], subprocess.Popen

    def run(arguments, **_):
        called.append([str(argument) for argument in arguments])
        if "pip" in called[-1] and Path(arguments[arguments.index("-c") + 1]).read_text():
            raise subprocess.CalledProcessError(1, ["pip"])
        return subprocess.CompletedProcess(arguments, 0, "Python 3.13.9, torch 2.13.0\n")

    def start(arguments, **options):
        called.append([str(argument) for argument in arguments])
        return whole([sys.executable, "-c", "print('.F\\n= 1 failed, 2 passed =\\n'); exit(1)"], **options)

    monkeypatch.setattr(versions.subprocess, "run", run)
    monkeypatch.setattr(versions.subprocess, "Popen", start)
    return called


def test_each_end_has_its_line(calls, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(sys, "argv", ["versions.py", "-n", "1"])
    assert versions.main() == 1
    oldest, newest = capsys.readouterr().out.splitlines()[-2:]
    assert oldest.startswith("oldest: FAILED: Command '['pip']' returned non-zero")
    assert newest == "newest: FAILED: Python 3.13.9, torch 2.13.0: 1 failed, 2 passed"
    assert calls[-1][1:] == ["-m", "pytest", "-n", "1"]  # where a deprecation is an error, as in pyproject.toml
    assert [call[0] for call in calls if "venv" in call] == ["python3.11", "python3.13"]
