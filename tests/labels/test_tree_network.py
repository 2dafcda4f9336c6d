"""Recursive networks beside loops over single nodes."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.configs import defaults
from lmzoo.labels.model import Labeller, labellers
from lmzoo.labels.tree_network import RNTN, Recursive, TreeLSTM, TreeNetwork, forest
from lmzoo.labels.trees import Tree, parsed
from lmzoo.training.labels import learner_of

TREES = [
    parsed(line)
    for line in ["(2 a)", "(3 (2 a) (4 (1 (0 b) (2 c)) (1 d)))", "(1 (2 (2 (1 b) (3 a)) (2 (0 d) (4 d))) (2 a))"]
]
CELLS = [Recursive, RNTN, TreeLSTM]


def network(cell: type[Recursive] | type[TreeLSTM]) -> TreeNetwork:
    torch.manual_seed(0)
    built = TreeNetwork(5, 5, 3, cell, 0.0, 1.0).double()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


def numbers(words: list[str]) -> Tensor:
    return torch.tensor([" abcd".index(word) for word in words])


def composed(net: TreeNetwork, children: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The parent of two nodes by the papers' equations, for one node, number by number of the tensors."""
    cell = net.cell
    a, b = (child[0] for child in children)
    pair = torch.cat([a, b])
    if isinstance(cell, Recursive):
        values = cell.W.weight @ pair + cell.W.bias
        if isinstance(cell, RNTN):
            values = values + torch.stack([pair @ slice_ @ pair for slice_ in cell.V])
        return (values.tanh(),)
    U_i, U_o, U_u, U_fl, U_fr = (cell.U.weight[k : k + 3] for k in range(0, 15, 3))
    b_i, b_o, b_u, b_f = cell.b
    i, o = torch.sigmoid(U_i @ pair + b_i), torch.sigmoid(U_o @ pair + b_o)
    u = torch.tanh(U_u @ pair + b_u)
    f = [torch.sigmoid(U_f @ pair + b_f) for U_f in (U_fl, U_fr)]
    c = i * u + f[0] * children[0][1] + f[1] * children[1][1]
    return o * torch.tanh(c), c


def one_by_one(net: TreeNetwork, words: list[str], right: list[int]) -> Tensor:
    """(N, K) scores of a tree, a node at a time."""
    rows = iter(net.embedding(numbers(words)))
    found: dict[int, tuple[Tensor, ...]] = {}

    def visit(node: int) -> tuple[Tensor, ...]:
        if right[node]:
            found[node] = composed(net, [visit(node + 1), visit(right[node])])
            return found[node]
        x = next(rows)
        if isinstance(net.cell, TreeLSTM):
            W_i, W_o, W_u = (net.cell.W.weight[k : k + 3] for k in range(0, 9, 3))
            b_i, b_o, b_u, _ = net.cell.b
            c = torch.sigmoid(W_i @ x + b_i) * torch.tanh(W_u @ x + b_u)
            found[node] = torch.sigmoid(W_o @ x + b_o) * torch.tanh(c), c
        else:
            found[node] = (x,)
        return found[node]

    visit(0)
    return torch.stack([net.output(found[node][0]) for node in range(len(right))])


@pytest.mark.parametrize("cell", CELLS)
def test_batched_trees_and_their_gradients_are_those_of_single_nodes(cell: type[Recursive] | type[TreeLSTM]):
    net = network(cell)
    gold = torch.tensor([int(label) for tree in TREES for label in tree[1]])
    words = numbers([word for tree in TREES for word in tree[0]])
    scores = net(words, forest([tree[2] for tree in TREES]))
    expected = torch.cat([one_by_one(net, tree[0], tree[2]) for tree in TREES])
    assert torch.allclose(scores, expected, atol=1e-12)
    ours, theirs = (
        torch.autograd.grad(F.cross_entropy(found, gold, reduction="sum"), list(net.parameters()))
        for found in (scores, expected)
    )
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-10)


def test_levels_go_down_from_the_roots():
    shape = forest([tree[2] for tree in TREES])
    assert [(inner, order.tolist()) for inner, order in shape.levels] == [
        (2, [2, 0, 1]), (2, [2, 0, 1, 3]), (3, [0, 3, 1, 2]), (0, [0, 1, 2, 3, 4, 5]),
    ]  # fmt: skip
    assert sorted(shape.places.tolist()) == list(range(17))
    assert shape.places[[0, 1, 8]].tolist() == [0, 1, 2]


@torch.no_grad()
def test_a_deep_tree_is_scored():
    depth = 2_000
    words, _, right = parsed("(2 (2 a) " * depth + "(2 b)" + ")" * depth)
    net = network(TreeLSTM)
    scores = net(numbers(words), forest([right]))
    assert scores.shape == (2 * depth + 1, 5)
    assert scores.isfinite().all()


@pytest.mark.parametrize("name", ["recursive", "rntn", "treelstm"])
def test_learning_goes_on_bit_for_bit_and_another_one_labels_alike(name: str):
    trees = [Tree(*tree[:2], [], tree[2]) for tree in TREES]
    options = defaults("labeller", name) | {"embedding": 4, "epochs": 4, "batch": 2, "dropout": 0.2, "unknown": 0.3}

    def begun() -> Labeller:
        labeller: Labeller = labellers.build(options)
        labeller.start(trees, seed=3)
        return labeller

    whole, second, other = begun(), begun(), labellers.build(options)
    one, two = learner_of(whole), learner_of(second)
    for number in range(3):
        one.step(number)
    two.restore(deepcopy(one.state()))
    torch.manual_seed(8)
    for number in range(3, 8):
        assert one.step(number) == two.step(number)
    other.load_state_dict(whole.state_dict())
    assert other.label(trees) == whole.label(trees) == second.label(trees)
    assert [len(labels) for labels in other.label(trees)] == [1, 7, 9]
