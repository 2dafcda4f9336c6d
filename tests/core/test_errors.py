"""Errors: what Python and PyTorch say where there is no memory left, and numbers in words."""

from pathlib import Path

import pytest

from lmzoo.core.errors import UserError, out_of_memory, pluralize
from lmzoo.core.extras import import_optional


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("Storage size calculation overflowed with sizes=[1]"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_too_little_memory_is_distinguished_from_other_errors(error: Exception, expected: bool):
    assert out_of_memory(error) is expected


def test_a_package_may_be_missing_or_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken.py").write_text("raise ImportError('no libx.so')")
    with pytest.raises(UserError, match="it needs broken, which cannot be imported"):
        import_optional("broken", "it", "broken")
    with pytest.raises(UserError, match="it needs missing, which is not installed; pip install missing"):
        import_optional("missing", "it", "missing")


def test_one_thing_is_no_plural():
    assert [pluralize(n, "line") for n in (0, 1, 2000)] == ["0 lines", "1 line", "2,000 lines"]
