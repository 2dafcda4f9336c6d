"""Where a run's figures come from: an entry for every process that worked on it."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from command_line import SMALL, command

from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.runs import provenance


def test_every_process_adds_an_entry(run: Path):
    (first,) = json.loads((run / "provenance.json").read_text())
    assert {"time", "argv", "git", "versions", "machine", "corpus"} <= set(first)
    assert first["versions"]["torch"] == torch.__version__
    assert set(first["corpus"]["sha256"]) == {"train", "valid", "test"}
    assert command(*SMALL, f"run_dir={run}").code == 0
    before, second = json.loads((run / "provenance.json").read_text())
    assert before == first
    assert second["argv"] == ["lmzoo", *SMALL, f"run_dir={run}"] != first["argv"]
    assert second["corpus"] == first["corpus"]


def test_the_commit_and_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "lmzoo" / "runs" / "provenance.py"))
    corpus = Corpus("text", "stream", Vocabulary(["<eos>"]), {}, {"train": "0"}, notes={"python": "3"})
    assert provenance.provenance(corpus, {})["git"] is None
    git("init")
    git("commit", "--allow-empty", "-m", "first")
    facts = provenance.provenance(corpus, {})
    assert facts["git"] == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    assert facts["corpus"] == {"name": "text", "sha256": {"train": "0"}, "python": "3"}
    (tmp_path / "train.out").touch()
    assert not provenance.provenance(corpus, {})["git"]["dirty"], "it is no code"
    (tmp_path / "lmzoo").mkdir()
    (tmp_path / "lmzoo" / "new.py").touch()
    assert provenance.provenance(corpus, {})["git"]["dirty"]
