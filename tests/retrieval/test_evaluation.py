import numpy as np
import pytest

from lmzoo.core.errors import UserError
from lmzoo.retrieval.evaluation import cross_validated, measured


def test_measures_by_hand():
    judgements = {"q": {"a": 1, "b": 1, "x": 1, "c": 0}, "r": {"a": 0}, "s": {"a": 1}, "absent": {"a": 1}}
    found = measured(judgements, {"q": {"c": 3.0, "b": 2.0, "a": 1.0}, "r": {"a": 1.0}, "s": {}})
    discounted = (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3) + 1 / np.log2(4))
    np.testing.assert_allclose(found, [[(1 / 2 + 2 / 3) / 3, discounted, 0.2], [0, 0, 0]])
    with pytest.raises(UserError, match="no query has a relevant document"):
        measured(judgements, {"r": {"a": 1.0}})


def test_a_setting_is_chosen_on_the_other_folds():
    # Setting 1 is best on queries 0 and 2 alone, which are a fold: it is chosen for the other fold.
    figures = np.array([[0.1, 0.9, 0.1, 0.9], [0.5, 0.0, 0.5, 0.0]])
    assert cross_validated(figures, 2).tolist() == [0, 1, 0, 1]
