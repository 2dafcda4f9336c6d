"""docs/pictures/sentiment_tree.py: where nodes stand, and its mistakes."""

from pathlib import Path

from command_line import command
from sentiment_tree import main, places

from lmzoo.commands import label


def test_a_node_stands_midway_above_its_children():
    # (a ((b c) d)): nodes 0; 1 a; 2; 3; 4 b; 5 c; 6 d
    assert places([2, 0, 6, 5, 0, 0, 0]) == [(1.125, 3), (0, 0), (2.25, 2), (1.5, 1), (1, 0), (2, 0), (3, 0)]


def test_pictures_are_written_and_mistakes_are_reported(folder: Path):
    Path("a.txt").write_text("(3 (2 A) (4 (2 fine) (3 film)))\n")
    files = ["task.train=a.txt", "task.valid=null", "task.test=a.txt"]
    small = ["labeller.embedding=2", "labeller.epochs=1"]
    assert command("task=trees", "labeller=recursive", *files, *small, "run_dir=r", main=label.main).code == 0
    assert command("r", "a.png", main=main).code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert "--line 2: test has the lines 1 to 1" in command("r", "a.png", "--line", "2", main=main).refused()
