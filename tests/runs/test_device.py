"""Where a model computes, by the names of devices."""

import os

import pytest
import torch

from lmzoo.core import ranks
from lmzoo.core.errors import UserError
from lmzoo.runs.device import resolve_device


@pytest.mark.parametrize(
    ("gpus", "mps", "names"),
    [
        (0, False, {"auto": "cpu", "cpu": "cpu"}),
        (0, True, {"auto": "cpu", "mps": "mps"}),
        (1, False, {"auto": "cuda", "cuda": "cuda", "cuda:0": "cuda:0", "cpu": "cpu"}),
        (2, False, {"auto": "cuda", "cuda:1": "cuda:1"}),
    ],
)
def test_a_name_is_a_device_that_is_there(gpus: int, mps: bool, names: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert {name: str(resolve_device(name)) for name in names} == names
    assert "cuda" not in "".join(names) or os.environ["CUBLAS_WORKSPACE_CONFIG"], "deterministic=true needs it later on"
    absent = f"cuda:{gpus}"
    with pytest.raises(UserError, match=f"device={absent}: no such device on this machine; choose from: auto, cpu"):
        resolve_device(absent)
    if not gpus:
        with pytest.raises(UserError, match="device=cuda: no such device on this machine"):
            resolve_device("cuda")


def test_a_rank_has_the_gpu_of_its_number_on_its_machine(monkeypatch: pytest.MonkeyPatch):
    current = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(ranks, "world_size", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert {name: str(resolve_device(name)) for name in ("auto", "cpu")} == {"auto": "cuda:1", "cpu": "cpu"}
    assert current == ["cuda:1"]
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(UserError, match="LOCAL_RANK does not say which GPU"):
        resolve_device("cuda")
