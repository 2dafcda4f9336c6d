"""Trees in brackets: read, written, refused, and how good their labels are by hand."""

from pathlib import Path

import pytest

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.tasks import tasks
from lmzoo.labels.trees import Tree, TreeText, parsed, polarity_accuracy

LINE = r"(3 (2 The) (4 (2 8 1\/2) ( 1  film)))"


def read(tmp_path: Path, text: str) -> TreeText:
    path = tmp_path / "trees.txt"
    path.write_text(text)
    return TreeText(path)


def test_a_tree_is_read_and_written_with_other_labels(tmp_path: Path):
    text = read(tmp_path, LINE + "\n(0 Bad)\r\n")
    first, second = text.sentences
    assert first == Tree(["The", r"8 1\/2", "film"], ["3", "2", "4", "2", "1"], [], [2, 0, 4, 0, 0])
    assert second == Tree(["Bad"], ["0"], [], [0])
    written = text.written([["a", "b", "c", "d", "e"], ["f"]]).decode()
    assert written == r"(a (b The) (c (d 8 1\/2) ( e  film)))" + "\n(f Bad)\r\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is empty"),
        ("(2 (2 a) (2 b)", "lacks 1 closing brackets"),
        ("(2 a))", "has text after its tree"),
        ("(2 a) (2 b)", "has text after its tree"),
        ("2 a", "does not begin with a bracket"),
        (")", "does not begin with a bracket"),
        ("(2 (3 a))", "has a node with 1 children, node 1, label 2"),
        ("(2 (3 a) (3 b) (3 c))", "has a node with 3 children, node 1, label 2"),
        ("(2 (a) (3 b))", "has a node with 0 children, node 2, label a"),
        ("((3 a) (3 b))", "has a node without a label, node 1"),
        ("(2 a b)", "has a word that is no node of its own, 'b'"),
        ("(2 (2 a) b)", "has a word that is no node of its own, 'b'"),
        ("(2 a (2 b))", "has a node with a word and a node, after 'a'"),
        ("(2 " * 100_000, "lacks 100000 closing brackets"),
    ],
)
def test_what_is_no_tree_is_reported_in_a_line(tmp_path: Path, line: str, message: str):
    with pytest.raises(UserError) as error:
        read(tmp_path, f"(2 a)\n{line}\n")
    assert str(error.value) == f"{tmp_path}/trees.txt: line 2 {message}; a tree a line, such as (3 (2 A) (2 film))"


def test_deep_trees_are_read():
    depth = 50_000
    _, labels, right = parsed("(2 (2 a) " * depth + "(3 b)" + ")" * depth)
    assert labels == ["2"] * 2 * depth + ["3"]
    assert right == [node + 2 if node % 2 == 0 else 0 for node in range(2 * depth)] + [0]


def test_measures_by_hand():
    trees = [Tree(["a"], [label], [], [0]) for label in "01234"]
    task = tasks.build(defaults("task", "trees"))
    assert task.figures(trees, [["0"], ["0"], ["2"], ["4"], ["4"]], ())["accuracy"] == 3 / 5
    three = [Tree(["a", "b"], ["0", "1", "2"], [], [2, 0, 0])]
    assert task.figures(three, [["0", "1", "1"]], ()) == {"accuracy": 1, "node_accuracy": 2 / 3}
    # very negative is right; negative is not, though 1 is its likeliest label; positive is right by its sum
    p = [[0.3, 0.3, 0, 0.2, 0.2], [0, 0.4, 0, 0.3, 0.3], [0, 0, 0, 0, 1], [0.2, 0, 0.5, 0.1, 0.2], [1, 0, 0, 0, 0]]
    assert polarity_accuracy(trees, p) == 2 / 4
    assert polarity_accuracy(trees[2:3], p[2:3]) is None
