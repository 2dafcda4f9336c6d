"""docs/pictures/label_shares.py: means over runs of as many sentences."""

import runpy
import sys
from pathlib import Path

import pytest
from command_line import ROOT, command, edit, put

from lmzoo.commands import label


def test_figures_are_means_over_runs_of_as_many_sentences(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    sentence = "the D\nwalk N\n\n"
    for name, number in (("a", 2), ("b", 1), ("c", 2)):
        Path(f"{name}.txt").write_text(sentence * number)
        files = [f"task.train={name}.txt", f"task.test={name}.txt"]
        assert command("task=pos", "labeller=majority", *files, f"run_dir={name}", main=label.main).code == 0
    edit(Path("c/results.json"), put("figures", value={"test": 0.5}))
    monkeypatch.setattr(sys, "argv", ["label_shares.py", "shares.png", "all=a,b,c", "few=b"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(ROOT / "docs" / "pictures" / "label_shares.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-2:] == ["| 1 | 100.00 | 100.00 |", "| 2 | 75.00 |  |"]
    assert (folder / "shares.png").stat().st_size > 1000
