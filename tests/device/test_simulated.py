"""The tests of CUDA on simulated devices, in a process of their own: they have to be there before PyTorch starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import ROOT

HERE = Path(__file__).parent


def on_simulated_devices(*arguments: str) -> None:
    line = [sys.executable, "-m", "pytest", "-p", "simulated", "-n", "0", "-q", "-k", "cuda", *arguments]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(line, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    if reason := re.search("CannotBuildError: (.*)", done.stderr):
        pytest.skip(reason[1])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_models_train_on_simulated_devices():
    on_simulated_devices(str(HERE / "test_cuda.py"), "-k", "cuda and not two_ranks")  # which start more processes


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_models_and_labellers_compute_on_simulated_devices_as_on_a_cpu():
    places = (
        "device/test_cuda.py",
        "protocol",
        "models/combined",
        "training/test_stepped_device.py",
        "words/test_brown.py",
    )
    on_simulated_devices("-m", "", *(f"tests/{place}" for place in places))
