"""Every test compares the tensors of inference with the shapes of its docstrings."""

from collections.abc import Iterator

import pytest
from shapes import compared


@pytest.fixture(autouse=True)
def _shapes() -> Iterator[None]:
    with compared():
        yield
