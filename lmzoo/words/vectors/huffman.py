"""Huffman's code of the words, the tree of hierarchical softmax."""

import heapq

import torch
from torch import Tensor


def huffman(counts: Tensor) -> tuple[Tensor, Tensor]:
    """The paths of words from the root of a binary tree with V - 1 inner nodes; frequent words have short ones.

    The two rarest subtrees are joined until one is left (Huffman 1952).

    Args:
        counts: (V,).

    Returns: (V, D) int64 inner nodes of the paths, 0 behind their ends; and (V, D) 1 where the path goes left there, -1
        where it goes right, 0 behind its end.
    """
    V = len(counts)
    heap = [(count, word) for word, count in enumerate(counts.tolist())]
    heapq.heapify(heap)
    parent: dict[int, tuple[int, float]] = {}
    for node in range(V - 1):
        total = 0
        for sign in (1.0, -1.0):
            count, child = heapq.heappop(heap)
            parent[child] = node, sign
            total += count
        heapq.heappush(heap, (total, V + node))
    paths = [_climb(word, parent, V) for word in range(V)]
    depth = max(map(len, paths))
    padded = torch.tensor([path + [(0, 0.0)] * (depth - len(path)) for path in paths], dtype=torch.float64)
    return padded[:, :, 0].long(), padded[:, :, 1].float()


def _climb(word: int, parent: dict[int, tuple[int, float]], V: int) -> list[tuple[int, float]]:
    """From the root to a word: the nodes, and which way to go there."""
    path, at = [], word
    while at in parent:
        node, sign = parent[at]
        path.append((node, sign))
        at = V + node
    return path[::-1]
