"""BM25, against a loop over documents and words."""

import math
import random

import numpy as np
import pytest

from lmzoo.retrieval.bm25 import bm25
from lmzoo.retrieval.index import Index


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.0, 0.5), (3.0, 0.0), (2.0, 1.0)])
def test_scores_are_those_of_the_formula(k1: float, b: float):
    draw = random.Random(0)
    texts = {f"d{i}": draw.choices("abcdefgh", weights=range(1, 9), k=draw.randint(0, 12)) for i in range(40)}
    index, mean = Index(texts), sum(map(len, texts.values())) / len(texts)
    for query in ("ab", "aah", "h", "cdeh"):
        expected = []
        for text in texts.values():
            total = 0.0
            for word in query:
                having = sum(word in other for other in texts.values())
                rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
                if times := text.count(word):
                    total += rarity * times / (times + k1 * (1 - b + b * len(text) / mean))
            expected.append(total)
        found = bm25(index, index.numbers(query), k1=k1, b=b)
        assert found.documents.tolist() == [d for d, text in enumerate(texts.values()) if set(text) & set(query)]
        np.testing.assert_allclose(found.values, np.array(expected)[found.documents])
    assert not len(bm25(index, [], k1=k1, b=b).documents)
