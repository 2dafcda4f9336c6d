"""The script for whoever has a GPU, from start to end on simulated devices, with small models on a small text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT

LMZOO = f"""#!{sys.executable}
import sys, unittest.mock
small = ["trainer.epochs=1"]
if any("hmm" in argument for argument in sys.argv):
    small += ["model.dim=8", "model.states=" + ("256" if "model.states=1024" not in sys.argv else "8")]
elif any(argument.startswith("experiment=") for argument in sys.argv):
    small += ["model.embedding=8", "model.hidden=8", *(["model.last=8"] * ("experiment=awd_lstm_ptb" in sys.argv))]
if sys.argv[1] == "train":
    sys.argv += small
sys.path.insert(0, {str(ROOT / "tests/device")!r})
import simulated
from lmzoo.__main__ import run
from lmzoo.corpus import sources
sources.sha256 = lambda _: unittest.mock.ANY  # any text is Penn Treebank
run()
"""
"""Trains with the options that it gets, but for sizes."""


@pytest.mark.slow
def test_the_script_for_a_gpu_trains_every_row_and_ends_with_a_table(tmp_path: Path):
    command, data = tmp_path / "bin/lmzoo", tmp_path / "data"
    command.parent.mkdir()
    command.write_text(LMZOO)
    command.chmod(0o755)
    text = " w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 \n" * 5 + "".join(
        f" {' '.join(f'w{n}' for n in range(k, k + 20))} \n" for k in range(200)
    )
    for folder, prefix in (("ptb", "ptb."), ("wikitext-2", "")):
        (data / folder).mkdir(parents=True)
        for split in ("train", "valid", "test"):
            part = text if split == "train" else "".join(text.splitlines(True)[:20])
            (data / folder / f"{prefix}{split}.txt").write_text(part)
    report = tmp_path / "outputs/report"
    report.mkdir(parents=True)
    (report / "tests.txt").write_text("run elsewhere")
    environment = os.environ | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "LMZOO_DATA": str(data),
    }
    line = [ROOT / "scripts/gpu/all.sh", tmp_path / "outputs", "20"]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True)
    if "CannotBuildError" in done.stderr:
        pytest.skip("the simulated devices cannot be built")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit code" not in done.stdout, done.stdout + done.stderr
    rows = sorted(path.name for path in report.iterdir() if path.is_dir())
    recurrent = [
        f"{name}{of}"
        for name in ("awd_lstm_ptb", "zaremba_medium", "zaremba_small")
        for of in ("", "-cache", "-dynamic")
    ]
    blocks = [f"{name}-{2**n}" for name in ("twolevel_hmm", "vlhmm") for n in (15, 16, 17)]
    assert rows == sorted([*recurrent, *blocks, "neural_hmm-1024", "teacher", "twolevel_hmm-taught", "vlhmm-wikitext2"])
    assert all((report / row / "results.json").exists() for row in rows)
    assert all(row in (report / "table.txt").read_text() for row in rows)
