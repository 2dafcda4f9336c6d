"""The tree over clusters, beside the mutual information after every merge that could be made."""

from itertools import combinations
from pathlib import Path

import pytest
import torch

from lmzoo.core.errors import UserError
from lmzoo.words.brown import average_mutual_information
from lmzoo.words.merging import paths, read_paths


@pytest.mark.parametrize("seed", range(5))
def test_each_merge_leaves_the_most_information(seed: int):
    random = torch.Generator().manual_seed(seed)
    tokens = (torch.rand(300, generator=random) ** 2 * 12).long()
    tokens[1::3] = (tokens[::3] * 5 + 3) % 12  # so that words predict each other
    tokens[:12] = torch.arange(12)
    cluster = torch.tensor([0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 6])
    expected, now = [""] * 7, torch.arange(7)
    while len(now.unique()) > 1:
        pairs = list(combinations(now.unique().tolist(), 2))
        left = [torch.where(now == j, i, now) for i, j in pairs]
        known = [average_mutual_information(tokens, of.unique(return_inverse=True)[1][cluster]) for of in left]
        best = max(range(len(pairs)), key=known.__getitem__)
        i, j = pairs[best]
        expected = [("0" if of == i else "1" if of == j else "") + bits
                    for of, bits in zip(now.tolist(), expected, strict=True)]  # fmt: skip
        now = left[best]
    found = paths(tokens, cluster)
    assert found == expected
    assert len(set(found)) == 7


def test_files_of_paths_are_read(tmp_path: Path):
    file = tmp_path / "paths"
    file.write_text("0110\tthe\t12\n0\tof\t3\n")
    assert read_paths(file) == {"the": "0110", "of": "0"}
    file.write_bytes(b"0110\tthe\r\n0\tof\r\n")
    assert read_paths(file) == {"the": "0110", "of": "0"}
    file.write_text("0\tof\t3\n1\tof\t3\n")
    with pytest.raises(UserError, match="line 2 has another path of 'of' than a line before"):
        read_paths(file)
    file.write_text("0\tof\t3\nthe\t7\t12\n")
    with pytest.raises(UserError, match="line 2 has no path of 0s and 1s before a tab and a word; write"):
        read_paths(file)


def test_a_single_cluster_has_no_merges():
    assert paths(torch.tensor([1, 0]), torch.tensor([0, 0])) == [""]
