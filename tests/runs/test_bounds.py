"""Files of a run that are pipes or claim more than they hold; checkpoints of other versions of PyTorch."""

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import SMALL, command, edit

from lmzoo.commands import evaluate, train
from lmzoo.core.configs import parse
from lmzoo.runs.checkpoint import checkpoint_sha256, parts, read_checkpoint


def test_a_configuration_is_what_its_text_says():
    assert parse("a: {b: [1, 2.5e-3, null], c: '${x}'}\n") == {"a": {"b": [1, 0.0025, None], "c": "${x}"}}


@pytest.mark.parametrize("name", ["config.yaml", "vocabulary.txt", "provenance.json", "best.pt"])
def test_a_pipe_is_no_file_of_a_run(run: Path, name: str):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert "not an ordinary file" in command(str(run), "train", main=evaluate.main).refused()


def test_a_log_that_is_a_pipe_is_not_waited_for(run: Path):
    (run / "train.log").unlink()
    os.mkfifo(run / "train.log")
    assert "train.log: cannot be written" in command(*SMALL, f"run_dir={run}").refused()


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_log_that_cannot_be_written_in_a_folder_named_from_here(
    kind: str, run: Path, monkeypatch: pytest.MonkeyPatch
):
    """A relative run_dir: logging names its file by the absolute path."""
    (run / "train.log").unlink()
    (run / "train.log").symlink_to(run / "elsewhere") if kind == "link" else (run / "train.log").mkdir()
    monkeypatch.chdir(run.parent)
    assert "train.log: cannot be written" in command(*SMALL, f"run_dir={run.name}").refused()
    assert not (run / "elsewhere").exists()


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex128])
def test_tensors_that_say_they_are_larger_are_not_loaded(kind: torch.dtype, tmp_path: Path):
    """Without a mapped file some versions of PyTorch take what lies behind them in memory."""
    file = tmp_path / "claims.pt"
    tensor = torch.zeros(1000, dtype=kind)
    torch.save({"model": tensor}, file)
    assert torch.equal(read_checkpoint(file)["model"], tensor)
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as old, zipfile.ZipFile(file, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("data.pkl"):
                data = data.replace(b"M" + struct.pack("<H", 1000), b"J" + struct.pack("<i", 2**31 - 1))
            new.writestr(entry.filename, data)
    assert read_checkpoint(file) is None


def test_the_parts_of_a_tree():
    assert sorted(map(str, parts({"a": [1, (2, "b")]}))) == sorted(
        ["{'a': [1, (2, 'b')]}", "a", "[1, (2, 'b')]", "1", "(2, 'b')", "2", "b"]
    )


def test_options_that_pytorch_has_got_since_are_its_own(run: Path, finished: Path):
    def earlier(saved: dict) -> None:
        del saved["optimizer"]["param_groups"][0]["foreach"]
        saved["optimizer"]["param_groups"][0]["former"] = saved["schedule"]["former"] = 1

    edit(run / "last.pt", earlier)
    assert command(*SMALL, f"run_dir={run}").code == 0
    ended, whole = (torch.load(path / "last.pt", weights_only=True)["model"] for path in (run, finished))
    assert all(map(torch.equal, ended.values(), whole.values()))


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, IndexError])
def test_a_mistake_of_the_program_is_named_by_its_line(run: Path, error: type, monkeypatch: pytest.MonkeyPatch):
    """It cannot be told from damage that no checksum shows."""

    def fail(*_: Any, **__: Any) -> None:
        raise error("mine")

    monkeypatch.setattr(torch.optim.Optimizer, "load_state_dict", fail)
    line = command(*SMALL, f"run_dir={run}", main=train.main).refused()
    assert f"{run}/last.pt: cannot be restored: " in line
    assert "test_bounds.py:" in line
    assert error.__name__ in line


def test_the_checksum_of_a_tensor_does_not_depend_on_its_strides():
    whole = torch.arange(6.0, dtype=torch.float64).view(2, 3)
    one = torch.tensor(2.0, dtype=torch.float64)
    for tensor in (one.expand(1), whole.T, whole[:, :1], whole[:0], whole.expand(2, 2, 3)):
        copied = torch.tensor(tensor.tolist(), dtype=torch.float64).view(tensor.shape)
        assert checkpoint_sha256({"a": tensor}) == checkpoint_sha256({"a": copied})


def test_the_checksum_of_a_set_does_not_depend_on_its_order():
    one, other = {0, 8}, {8, 0}
    assert [*one] != [*other]
    assert checkpoint_sha256({"a": one}) == checkpoint_sha256({"a": other}) != checkpoint_sha256({"a": {0}})
