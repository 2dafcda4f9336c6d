"""The README and the other pages keep their word."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_adding_a_model_takes_the_file_and_the_import_that_are_shown(tmp_path: Path):
    for folder in ("lmzoo", "configs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (source,) = [block for block in blocks("python") if "@models.register" in block]
    (tmp_path / "lmzoo" / "models" / "ngram" / "unigram.py").write_text(source, encoding="utf-8")
    package = tmp_path / "lmzoo" / "models" / "__init__.py"
    imports = package.read_text(encoding="utf-8")
    package.write_text(imports + "from lmzoo.models.ngram.unigram import Unigram\n", encoding="utf-8")

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tests = ["-q", "-n0", "-p", "no:cacheprovider", "tests/protocol/test_protocol.py"]
    shared = python("-m", "pytest", *tests, "-k", "unigram or configuration_and_registry")
    assert int(re.findall(r"(\d+) passed", shared)[0]) >= 16
    assert "unigram on pydoc" in python("-m", "lmzoo.train", "model=unigram", "device=cpu")


def test_no_figure_was_forgotten():
    assert "@@" not in README + (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def links() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        (str(page.relative_to(ROOT)), link)
        for page in pages
        for link in sorted(set(re.findall(r"\]\(((?!http)[^)]+)\)", page.read_text(encoding="utf-8"))))
    ]


@pytest.mark.parametrize(("page", "link"), links())
def test_links_lead_somewhere(page: str, link: str):
    name, _, heading = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    assert target.stat().st_size > 0
    if heading:
        titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
