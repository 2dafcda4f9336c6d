"""The command ``lmzoo demo``: what it prints, how it ends, and mistakes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT, TEXT, command, contents

from lmzoo.commands import demo
from lmzoo.page.zoo import Zoo


def test_it_says_its_address_and_ends_with_ctrl_c_as_other_commands_do(runs: list[str], tmp_path: Path):
    pytest.importorskip("gradio")
    process = subprocess.Popen(
        [sys.executable, "-m", "lmzoo", "demo", *runs], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline()
    assert address.startswith("http://127.0.0.1:"), (address, process.communicate(timeout=60))
    assert address.endswith("/ (Ctrl-C ends it)\n")
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=120)
    assert (process.returncode, rest, err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "absent: not a run directory (there is no such folder)"),
        (["."], ".: not a run directory (it has no config.yaml)"),
        (["{run}", "--port", "0"], "--port 0: must be at least 1"),
        (["{run}", "--port", "65536"], "--port 65536: must be at most 65535"),
        (["{run}", "--port", "x"], "--port x: must be an integer"),
        (["{run}", "--device", "cuda:99"], "cuda:99"),
        (["{run}", "--port", "{taken}"], "--port {taken}: cannot be used (Address already in use); choose another"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments: list[str], message: str, runs: list[str], folder: Path):
    pytest.importorskip("gradio")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        names = {"run": runs[0], "taken": taken.getsockname()[1]}
        line = command(*(part.format(**names) for part in arguments), main=demo.main).refused()
    assert message.format(**names) in line


def test_without_runs_it_trains_some_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("gradio")
    shown = []

    def serve(zoo: Zoo, port: int | None) -> SimpleNamespace:
        shown.append([*zoo.models, *zoo.vectors])
        return SimpleNamespace(address="here", close=lambda: None)

    monkeypatch.setattr(demo, "serve", serve)
    monkeypatch.setattr(demo, "wait", lambda: None)
    few = ("train", *TEXT, "model=ngram", "model.order=2", "model.smoothing=witten_bell")
    monkeypatch.setattr(demo, "RUNS", {"ngram": few, "ppmi": ("vectors", *TEXT, "method=ppmi", "method.dim=2")})
    first = command("--device", "cpu", main=demo.main)
    assert (first.code, first.out) == (0, "here (Ctrl-C ends it)\n"), first
    assert "training ngram, ppmi; they are saved in outputs/demo\n" in first.err
    files = contents(folder)
    second = command("--device", "cpu", main=demo.main)
    assert (second.code, second.err) == (0, "")
    assert contents(folder) == files
    assert shown == [["ngram", "ppmi"]] * 2


def test_the_runs_that_it_trains_are_those_of_the_documentation():
    page = (ROOT / "docs" / "demo.md").read_text()
    for name, (verb, *options) in demo.RUNS.items():
        assert f"lmzoo {' '.join([verb, *options])} run_dir=outputs/demo/{name}\n" in page


def test_a_missing_gradio_is_reported_in_one_line(runs: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    line = command(runs[0], main=demo.main).refused()
    assert line == "error: lmzoo demo needs gradio, which is not installed; pip install 'lmzoo-torch[demo]'"
