"""Huffman's code of the words, the tree of hierarchical softmax."""

import heapq
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Huffman:
    """The path of each word from the root of a binary tree with V - 1 inner nodes; frequent words have short paths.

    Attributes:
        nodes: (V, D) int64 inner nodes of the path, 0 behind its end.
        signs: (V, D) 1 where the path goes left, -1 where it goes right, 0 behind its end.
    """

    nodes: Tensor
    signs: Tensor

    @classmethod
    def of(cls, counts: Tensor) -> "Huffman":
        """(V,) counts -> the tree, by Huffman (1952): the two rarest subtrees are joined until one is left."""
        V = len(counts)
        heap = [(count, word) for word, count in enumerate(counts.tolist())]
        heapq.heapify(heap)
        parent: dict[int, tuple[int, float]] = {}
        for node in range(V - 1):
            joined = 0
            for sign in (1.0, -1.0):
                count, child = heapq.heappop(heap)
                parent[child] = node, sign
                joined += count
            heapq.heappush(heap, (joined, V + node))
        paths = [_climb(word, parent, V) for word in range(V)]
        depth = max(map(len, paths))
        padded = torch.tensor([path + [(0, 0.0)] * (depth - len(path)) for path in paths], dtype=torch.float64)
        return cls(padded[:, :, 0].long(), padded[:, :, 1].float())

    def to(self, device: torch.device) -> "Huffman":
        """The same on a device."""
        return Huffman(self.nodes.to(device), self.signs.to(device))

    def path(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) words -> (N, D) nodes and signs."""
        return self.nodes[words], self.signs[words]


def _climb(word: int, parent: dict[int, tuple[int, float]], V: int) -> list[tuple[int, float]]:
    """From the root to a word: the nodes, and which way to go there."""
    path, at = [], word
    while at in parent:
        node, sign = parent[at]
        path.append((node, sign))
        at = V + node
    return path[::-1]
