"""Linear chains beside the enumeration of all labels of a sentence."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from lmzoo.labels.chain import Scores, batches, best, chain, log_partition, score
from lmzoo.models.hmm.inference import paths

LENGTHS = [1, 4, 2, 4]
LABELS = 3


@pytest.fixture(params=[1.0, 60.0], ids=["small", "large"])
def scores(request: pytest.FixtureRequest) -> Scores:
    """Large scores are far beyond what probabilities can be."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> Tensor:
        return request.param * torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Scores(drawn(len(LENGTHS), 4, LABELS), drawn(LABELS, LABELS), drawn(LABELS), torch.tensor(LENGTHS))


def everything(scores: Scores, row: int) -> dict[tuple[int, ...], Tensor]:
    """s(y) of all y of a sentence."""
    found = {}
    for path in product(range(LABELS), repeat=LENGTHS[row]):
        emitted = [scores.emission[row, t, k] for t, k in enumerate(path)]
        found[path] = torch.stack([*emitted, scores.start[path[0]], *(scores.moves[i, j] for i, j in pairwise(path))])
    return {path: parts.sum() for path, parts in found.items()}


def test_the_partition_function_and_its_gradient_are_those_of_all_paths(scores: Scores):
    leaves = [part.requires_grad_() for part in scores[:3]]
    ours = log_partition(scores)
    theirs = torch.stack([torch.stack([*everything(scores, i).values()]).logsumexp(0) for i in range(len(LENGTHS))])
    assert torch.allclose(ours, theirs, rtol=1e-12)
    weights = torch.arange(1.0, 5.0, dtype=torch.float64)
    for a, b in zip(*(torch.autograd.grad((z * weights).sum(), leaves) for z in (ours, theirs)), strict=True):
        assert torch.allclose(a, b, atol=1e-10)


def test_marginals_are_those_of_all_paths(scores: Scores):
    gamma = paths.posterior(chain(scores), scores.lengths)
    for row, length in enumerate(LENGTHS):
        every = everything(scores, row)
        shares = torch.stack([*every.values()]).softmax(0)
        expected = torch.zeros(4, LABELS, dtype=torch.float64)
        for path, share in zip(every, shares, strict=True):
            expected[torch.arange(length), list(path)] += share
        assert torch.allclose(gamma[row], expected, atol=1e-10)


def test_the_best_paths_are_the_best_of_all(scores: Scores):
    found = best(scores)
    for row in range(len(LENGTHS)):
        every = everything(scores, row)
        assert tuple(found[row]) == max(every, key=every.__getitem__)


def test_the_score_of_labels_is_that_of_the_enumeration(scores: Scores):
    labels = torch.tensor([[1, 0, 0, 0], [0, 2, 1, 1], [2, 2, 0, 0], [0, 1, 2, 0]])
    expected = [float(everything(scores, row)[tuple(labels[row, :n].tolist())]) for row, n in enumerate(LENGTHS)]
    assert score(scores, labels).tolist() == pytest.approx(expected)


def test_batches_have_all_sentences_and_no_more_words_than_asked():
    lengths = [3, 1, 9, 2, 2, 3]
    found = list(batches(lengths, 6))
    numbers = [number for batch in found for number in batch]
    assert sorted(numbers) == list(range(6))
    assert all(len(batch) * max(lengths[i] for i in batch) <= 6 or len(batch) == 1 for batch in found)
    assert found[0] == [1, 3, 4]
