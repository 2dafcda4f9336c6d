"""Emission tables against a masked softmax over the whole vocabulary."""

import pytest
import torch
from hmm_oracle import assert_same_gradients, normal

from lmzoo.models.hmm.inference.emissions import emission_table


@pytest.fixture
def cluster() -> torch.Tensor:
    """(V,) clusters of very different sizes, in no order."""
    sorted_by_cluster = torch.arange(6).repeat_interleave(torch.tensor([70, 1, 33, 5, 8, 7]))
    return sorted_by_cluster[torch.randperm(124, generator=torch.Generator().manual_seed(1))]


def masked_softmax(logits: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
    """(M, S, V) logits -> (V, S) log p(x | z), z of the word's cluster."""
    outside = cluster != torch.arange(len(logits))[:, None]  # (M, V)
    dense = logits.masked_fill(outside[:, None], -torch.inf).log_softmax(2)
    return dense[cluster, :, torch.arange(len(cluster))]


def test_emission_table_is_a_softmax_over_the_words_of_the_cluster(cluster):
    V = len(cluster)
    inputs = H, W, bias = [x.requires_grad_() for x in (normal(6, 2, 5), normal(V, 5), normal(V))]
    expected = masked_softmax((H.flatten(0, 1) @ W.T + bias).view(6, 2, V), cluster)
    assert_same_gradients([emission_table(H, W, bias, cluster)], [expected], [normal(V, 2, seed=1)], inputs)


def test_clusters_without_words_have_no_part_in_the_table():
    cluster = torch.tensor([3, 1, 1, 3, 1])
    H, W, bias = normal(5, 2, 4), normal(5, 4), normal(5)
    expected = masked_softmax((H.flatten(0, 1) @ W.T + bias).view(5, 2, 5), cluster)
    torch.testing.assert_close(emission_table(H, W, bias, cluster), expected, rtol=1e-9, atol=1e-9)
