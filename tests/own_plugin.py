"""A plug-in of a user in the current folder, ``zoo.own``, for the tests of `lmzoo.core.plugins`."""

import sys
from pathlib import Path

import pytest

from lmzoo.labels.model import labellers
from lmzoo.protocol.model import models
from lmzoo.words.vectors.method import methods

MODULE = """
from lmzoo.protocol.model import models
from lmzoo.models.ngram.ngram import NGram

@models.register("mine")
class Mine(NGram):
    pass
"""
OPTIONS = """
defaults: [ngram, _self_]
name: mine
order: 2
discount_fallback: true
"""


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module ``zoo.own`` and ``mine/model/mine.yaml``; nothing of it stays after a test."""
    (folder / "zoo").mkdir()
    (folder / "zoo/own.py").write_text(MODULE)
    (folder / "mine/model").mkdir(parents=True)
    (folder / "mine/model/mine.yaml").write_text(OPTIONS)
    monkeypatch.syspath_prepend(folder)
    for registry in (models, labellers, methods):
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
    for name in ("zoo", "zoo.own"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder
