"""The few names of PyTorch that signatures have, as an inventory for intersphinx: a build asks no network for it."""

import tempfile
import zlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

TORCH = "https://docs.pytorch.org/docs/stable/"

NAMES = {
    "torch.Tensor": "tensors.html",
    "torch.device": "tensor_attributes.html",
    "torch.dtype": "tensor_attributes.html",
    "torch.Generator": "generated/torch.Generator.html",
    "torch.nn.Module": "generated/torch.nn.Module.html",
    "torch.nn.modules.module.Module": "generated/torch.nn.Module.html",
    "torch.optim.Optimizer": "optim.html",
    "torch.optim.optimizer.Optimizer": "optim.html",
}
"""The page of each."""


def written() -> str:
    """A file in Sphinx's format 2, in a temporary folder."""
    lines = (f"{name} py:class 1 {page}#torch.{_last(name)} -\n" for name, page in NAMES.items())
    head = "# Sphinx inventory version 2\n# Project: PyTorch\n# Version: stable\n# compressed with zlib\n"
    file = Path(tempfile.gettempdir()) / "lmzoo-torch.inv"
    file.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
    return str(file)


def _last(name: str) -> str:
    """The name as PyTorch's pages have it, without modules that no page shows."""
    kind = {"Module": "nn.", "Optimizer": "optim."}.get(name.rpartition(".")[2], "")
    return kind + name.rpartition(".")[2]


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""

    def add(app: Sphinx, config: Config) -> None:
        config.intersphinx_mapping["torch"] = (TORCH, written())

    app.connect("config-inited", add, priority=400)  # before intersphinx reads it
    return {"parallel_read_safe": True}
