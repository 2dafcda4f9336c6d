"""A text from a known HMM, which a linear system describes exactly; tensors are compared with the docstrings."""

from collections.abc import Iterator

import pytest
from lds_oracle import HMM
from shapes import compared

from lmzoo.corpus import Corpus, Vocabulary


@pytest.fixture(autouse=True)
def _shapes() -> Iterator[None]:
    with compared():
        yield


@pytest.fixture(scope="session")
def hmm_corpus() -> Corpus:
    """20 words of an HMM of 4 states; `<eos>` is one of them."""
    hmm = HMM.draw(stay=0.3, turn=0.6)
    splits = {split: hmm.sample(20_000, seed) for seed, split in enumerate(("train", "valid", "test"))}
    words = ["<eos>", *(f"w{i}" for i in range(19))]
    return Corpus(name="hmm", context="stream", vocabulary=Vocabulary(words), splits=splits, sha256={})
