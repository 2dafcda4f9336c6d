"""What others need to adopt the project: its name, its version, its types, its citation, its checks."""

import tomllib
from pathlib import Path

import yaml

from lmzoo.core.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_distribution_has_a_name_of_its_own_and_its_extras_are_found_by_it():
    assert PROJECT["name"] == "lmzoo-torch"
    named = [line for extra in PROJECT["optional-dependencies"].values() for line in extra if line.startswith("lmzoo")]
    assert all(line.startswith("lmzoo-torch[") for line in named)
    advice = [file for file in (ROOT / "lmzoo").rglob("*.py") if "install 'lmzoo[" in file.read_text(encoding="utf-8")]
    assert not advice


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_types_are_shipped():
    assert (ROOT / "lmzoo" / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_checks_run_on_every_python_that_is_promised():
    checks = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8"))
    promised = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3" in line]
    assert checks["jobs"]["checks"]["strategy"]["matrix"]["python"] == promised == ["3.11", "3.12", "3.13"]
    assert {"run": ".ci/run"} in checks["jobs"]["checks"]["steps"]


def test_issue_forms_can_be_read():
    for name in ("bug", "model"):
        form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= form.keys()
        assert all({"type", "attributes"} <= part.keys() for part in form["body"])
