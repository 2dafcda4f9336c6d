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
    children = []
    for node in range(V - 1):
        (count, left), (other, right) = heapq.heappop(heap), heapq.heappop(heap)
        children.append((left, right))
        heapq.heappush(heap, (count + other, V + node))
    paths: dict[int, list[tuple[int, float]]] = {2 * V - 2: []}
    for node, (left, right) in reversed([*enumerate(children)]):
        path = paths.pop(V + node)
        paths[left], paths[right] = [*path, (node, 1.0)], [*path, (node, -1.0)]
    depth = max(map(len, paths.values()))
    rows = [paths[word] + [(0, 0.0)] * (depth - len(paths[word])) for word in range(V)]
    padded = torch.tensor(rows, dtype=torch.float64)
    return padded[:, :, 0].long(), padded[:, :, 1].float()
