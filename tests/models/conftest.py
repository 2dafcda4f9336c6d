"""Small HMMs whose sentences are all scored, which tests of several folders read."""

import pytest
from pattern_oracle import KINDS, make, scores

from lmzoo.protocol.model import LanguageModel


@pytest.fixture(scope="session", params=KINDS)
def example(request: pytest.FixtureRequest) -> tuple[LanguageModel, dict[str, float]]:
    model = make(request.param)
    return model, scores(model)


@pytest.fixture(scope="session")
def dense() -> tuple[LanguageModel, dict[str, float]]:
    model = make("hmm")
    return model, scores(model)
