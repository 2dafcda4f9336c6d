"""Two CUDA devices for tests, on a machine without one: ``pytest -p simulated``, before anything imports torch.

`cuda.cpp` has the kernels. Here are what builds and loads it, what Python's side of PyTorch asks of CUDA, and what
cuDNN's recurrent layers refuse.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DEVICES = 2
SOURCE = Path(__file__).with_name("cuda.cpp")
VERSIONS = ("2.13.",)
"""Of PyTorch, whose inner parts `cuda.cpp` uses; another is tried in a new environment and added here."""


class CannotBuildError(Exception):
    """Why this machine has no simulated devices."""


def built() -> Path:
    """The library for this PyTorch, made once on a machine, in the folder of temporary files.

    Raises: CannotBuildError.
    """
    version, compiler = importlib.metadata.version("torch"), shutil.which("g++")
    if not version.startswith(VERSIONS):
        raise CannotBuildError(f"the simulated devices are made for PyTorch {', '.join(VERSIONS)}, this is {version}")
    if compiler is None:
        raise CannotBuildError("the simulated devices need g++")
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    if (torch / "lib/libtorch_cuda.so").exists():  # it has registered what cuda.cpp registers
        raise CannotBuildError("the simulated devices need a PyTorch that was built without CUDA")
    key = hashlib.sha256(
        f"{version} {torch} {sys.platform} {os.uname().machine}\n{SOURCE.read_text()}".encode()
    ).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"lmzoo-simulated-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise CannotBuildError(f"{folder} is another user's")
    library = folder / f"{key}.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait for the first one
        if not library.exists():
            include = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
            libraries = [f"-L{torch / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch / 'lib'}"]
            part = library.with_suffix(".part")
            line = [
                compiler,
                "-std=c++20",
                "-O1",
                "-fPIC",
                "-shared",
                "-w",
                *include,
                str(SOURCE),
                "-o",
                str(part),
                *libraries,
            ]
            done = subprocess.run(line, capture_output=True, text=True)
            if done.returncode:
                raise CannotBuildError(f"g++ cannot build the simulated devices: {done.stderr[:500]}")
            part.rename(library)
    return library


if "torch" in sys.modules:
    raise ImportError("simulated has to be imported before torch, which asks for CUDA once, when it starts")
_library = ctypes.CDLL(str(built()))
_when_waiting = ctypes.CFUNCTYPE(None, ctypes.c_char_p)

import torch  # noqa: E402
import torch._dynamo  # noqa: E402 - optimizers import it; it looks for CUDA's own module where there is CUDA
from torch.cuda.amp import common  # noqa: E402
from torch.nn.modules import rnn  # noqa: E402


@contextlib.contextmanager
def waits() -> Iterator[Counter[str]]:
    """How often the host waits for the device in this context, by operator and place: "nonzero blocks.py:52"."""
    seen: Counter[str] = Counter()

    @_when_waiting
    def note(name: bytes) -> None:
        frames = [frame for frame in traceback.extract_stack() if "/lmzoo/" in frame.filename]
        seen[f"{name.decode()} {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else name.decode()] += 1

    _library.lmzoo_on_wait(note)
    try:
        yield seen
    finally:
        _library.lmzoo_on_wait(None)


def _index(device: Any = None) -> int:
    number = device if isinstance(device, int) or device is None else torch.device(device).index
    return torch.ops.simulated.set_device(-1) if number is None else number


class _On:
    """`torch.cuda.device`."""

    def __init__(self, device: Any):
        self.index = _index(device)

    def __enter__(self) -> None:
        self.before = torch.ops.simulated.set_device(self.index)

    def __exit__(self, *_: object) -> None:
        torch.ops.simulated.set_device(self.before)


def _storage_on(storage: torch.UntypedStorage, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    """A copy of a storage; PyTorch's constructor of storages needs CUDA itself."""
    size = storage.nbytes()
    return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage().copy_(storage, non_blocking)


def _install() -> None:
    ops, nothing = torch.ops.simulated, lambda *_, **__: None
    properties = types.SimpleNamespace(
        name="simulated", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132
    )
    for name, value in {
        "_is_compiled": lambda: True,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": nothing,
        "init": nothing,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: DEVICES,
        "current_device": _index,
        "set_device": lambda device: ops.set_device(_index(device)),
        "device": _On,
        "_device": _On,
        "synchronize": nothing,
        "empty_cache": nothing,
        "reset_peak_memory_stats": nothing,
        "max_memory_allocated": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "mem_get_info": lambda *_: (60 << 30, 80 << 30),
        "get_device_name": lambda *_: "simulated",
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: properties,
        "is_bf16_supported": lambda *_, **__: True,
        "is_current_stream_capturing": lambda: False,
        "manual_seed": ops.seed,
        "manual_seed_all": ops.seed,
        "get_rng_state": lambda device="cuda": ops.state(_index(device)),
        "set_rng_state": lambda state, device="cuda": ops.set_state(_index(device), state),
        "default_generators": (),
    }.items():
        setattr(torch.cuda, name, value)
    torch.cuda.random.manual_seed = torch.cuda.random.manual_seed_all = ops.seed
    common.amp_definitely_not_available = lambda: False
    torch.storage._to = lambda storage, device, non_blocking=False: (
        storage if storage.device == torch.device(device) else _storage_on(storage, device, non_blocking)
    )
    torch.UntypedStorage.clone = lambda storage: _storage_on(storage, storage.device)
    torch.backends.cudnn.is_acceptable = lambda _: False  # or its absence is a warning
    names = ("lstm", "gru", "rnn_tanh", "rnn_relu")
    checked = {name: _as_cudnn(getattr(rnn._VF, name)) for name in names}
    own = {name: getattr(rnn._VF, name) for name in dir(rnn._VF) if not name.startswith("__")}
    rnn._VF = types.SimpleNamespace(**(own | checked))
    rnn._rnn_impls.update(RNN_TANH=checked["rnn_tanh"], RNN_RELU=checked["rnn_relu"])


class _TrainingAlone(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, training: bool) -> torch.Tensor:
        ctx.training = training
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
        if not ctx.training:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        return upstream[0], None


def _as_cudnn(layers: Callable[..., Any]) -> Callable[..., Any]:
    """Recurrent layers that refuse what cuDNN's refuse."""

    def run(inputs: torch.Tensor, *rest: Any) -> Any:
        if not (inputs.is_cuda and torch.backends.cudnn.enabled):
            return layers(inputs, *rest)
        packed = isinstance(rest[0], torch.Tensor) and rest[0].dtype == torch.int64
        hidden, *_, training = rest[1:7] if packed else rest[:6]
        if packed and rest[0].is_cuda:
            raise RuntimeError("batch_sizes must be on the CPU")
        if inputs.numel() == 0:
            raise RuntimeError("rnn: the input is empty")
        for part in [hidden] if isinstance(hidden, torch.Tensor) else hidden:
            if not part.is_contiguous():
                raise RuntimeError("rnn: hx is not contiguous")
            if part.dtype != inputs.dtype:
                raise RuntimeError(f"rnn: hx is {part.dtype}, the input {inputs.dtype}")
        outputs, *after = layers(inputs, *rest)
        return (_TrainingAlone.apply(outputs, training), *after)

    return run


_install()
