"""Where a run's figures come from: an entry for every process that worked on it."""

import json
from pathlib import Path

import torch
from command_line import SMALL, command


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
