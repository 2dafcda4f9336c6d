"""Files of a run that would fill the memory, and training that cannot have come so far."""

import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import SMALL, command, edit, put

from lmzoo.commands import evaluate, train
from lmzoo.core.configs import parse
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs import loading
from lmzoo.runs.checkpoint import DamagedError, checkpoint_sha256, parts, read_checkpoint

LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
"""9**29 words in a kilobyte."""


def nested(depth: int) -> list:
    """A list that has 2**depth lists in it, all of them one."""
    tree: list = []
    for _ in range(depth):
        tree = [tree, tree]
    return tree


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUGHS, "it refers to its own parts"),
        ("[" * 60_000, "its groups are nested too deeply"),
        ("model: {name: lstm}\n" + "#" * (1 << 16), "larger than 65,536 bytes"),
    ],
)
def test_a_configuration_that_would_fill_the_memory(run: Path, text: str, reason: str):
    (run / "config.yaml").write_text(text)
    assert reason in command(str(run), main=evaluate.main).refused()


def test_a_configuration_is_what_its_text_says():
    assert parse("a: {b: [1, 2.5e-3, null], c: '${x}'}\n") == {"a": {"b": [1, 0.0025, None], "c": "${x}"}}


@pytest.mark.parametrize("name", ["config.yaml", "vocabulary.txt", "provenance.json", "results.json"])
def test_files_that_never_end(run: Path, name: str):
    (run / name).unlink(missing_ok=True)
    with (run / name).open("wb") as stream:
        stream.truncate(1 << 40)
    assert f"{name}: damaged, as it is larger than" in command(str(run), "train", main=evaluate.main).refused()


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


def rezipped(file: Path, compression: int, copies: int = 1) -> None:
    """Write a checkpoint anew, compressed, and the directory of the archive with entries more than once."""
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as old, zipfile.ZipFile(file, "w", compression) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
        new.filelist *= copies


@pytest.mark.parametrize(("compression", "copies"), [(zipfile.ZIP_DEFLATED, 1), (zipfile.ZIP_STORED, 9)])
def test_a_checkpoint_that_inflates_is_not_loaded(
    compression: int, copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """8 MB of zeros in some kilobytes; or few bytes that stand for many files."""
    file = tmp_path / "bomb.pt"
    torch.save({"model": torch.zeros(2_000_000 if copies == 1 else 4000)}, file)
    assert torch.equal(read_checkpoint(file)["model"], torch.load(file, weights_only=True)["model"])
    rezipped(file, compression, copies)
    assert file.stat().st_size < 100_000
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(DamagedError):
        read_checkpoint(file)


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
    with pytest.raises(DamagedError):
        read_checkpoint(file)


def test_a_model_that_is_larger_than_its_checkpoint_is_not_built(run: Path, monkeypatch: pytest.MonkeyPatch):
    """A few options would ask for gigabytes."""
    for option in ("embedding", "hidden"):
        edit(run / "config.yaml", put("model", option, value=20_000))
        edit(run / "best.pt", put("config", "model", option, value=20_000))
    build_model = loading.build_model

    def build(*arguments: Any) -> LanguageModel:
        assert torch.empty(0).device.type == "meta", "it would take memory"
        return build_model(*arguments)

    monkeypatch.setattr(loading, "build_model", build)
    assert "best.pt: not this model's weights" in command(str(run), main=evaluate.main).refused()


NO_NUMBERS = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0)
LARGE: dict[str, Callable[[], Any]] = {
    "expanded": lambda: torch.zeros(1).expand(1 << 40),
    "sparse": lambda: torch.sparse_coo_tensor(*NO_NUMBERS, (1 << 40,), check_invariants=True),
    "meta": lambda: torch.empty(1 << 40, device="meta"),
    "nested": lambda: nested(60),
    "repeated": lambda: ["x" * 1000] * 10_000,
}


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_values_that_are_larger_than_their_file(value: str, tmp_path: Path):
    torch.save({"model": LARGE[value]()}, tmp_path / "bomb.pt")
    assert (tmp_path / "bomb.pt").stat().st_size < 50_000
    with pytest.raises(DamagedError):
        read_checkpoint(tmp_path / "bomb.pt")


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
