"""The page "Models as PyTorch modules": its loop learns, and what it imports is there."""

import inspect
import re
from pathlib import Path

import pytest

import lmzoo.labels
import lmzoo.models
import lmzoo.words.vectors
from lmzoo.labels.model import labellers
from lmzoo.models import LSTM
from lmzoo.protocol.model import models
from lmzoo.words.vectors.method import methods

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def test_the_loop_learns(capsys: pytest.CaptureFixture[str]):
    (loop,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(loop, str(PAGE), "exec"), {})
    (first, true), (second, _) = (re.findall(r"[\d.]+", line) for line in capsys.readouterr().out.splitlines())
    assert float(true) < float(second) < float(first) < 100


@pytest.mark.parametrize(("module", "registry"), [(lmzoo.models, models), (lmzoo.labels, labellers),
                                                  (lmzoo.words.vectors, methods)])  # fmt: skip
def test_every_class_is_imported_by_its_name(module, registry):
    for entry in registry.entries.values():
        if inspect.isclass(entry) and entry.__module__.startswith("lmzoo."):
            assert getattr(module, entry.__name__) is entry


def test_a_model_needs_the_options_alone_that_are_unlike_the_defaults():
    model = LSTM(vocabulary_size=100, hidden=10)
    assert model.embedding.weight.shape == (100, 10)
    assert model.embedding.weight is model.output.weight
    assert LSTM(100, hidden=10, last=6, layers=2).embedding.weight.shape == (100, 6)
