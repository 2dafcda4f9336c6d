"""The command ``lmzoo map`` and its picture."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import TEXT, command, edit, put

from lmzoo.commands import map as map_command
from lmzoo.commands import vectors
from lmzoo.core.errors import UserError
from lmzoo.core.files import sha256
from lmzoo.reports.map import named, picture, tsne


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run, and the first two dimensions in place of t-SNE's."""
    options = ["method=ppmi", "method.dim=3", "method.min_count=1", "run_dir=ppmi"]
    assert command(*TEXT, *options, main=vectors.main).code == 0
    monkeypatch.setattr("lmzoo.reports.map.tsne", lambda matrix, *_: matrix[:, :2].sigmoid().numpy())
    return "ppmi"


def test_the_map_is_written_into_the_run(run: str):
    pytest.importorskip("matplotlib")
    done = command(run, "--words", "12", "--clusters", "3", main=map_command.main)
    assert done.code == 0, done
    assert Path(run, "map.png").read_bytes().startswith(b"\x89PNG")


def test_names_cover_no_more_frequent_name():
    places = np.array([[0.5, 0.5], [0.52, 0.505], [0.5, 0.52], [0.6, 0.5], [0.501, 0.5]])
    assert named(["common", "covered", "above", "beside", "a"], places) == [0, 2, 3]


def test_the_picture_tells_what_its_colours_mean(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    seen = []
    monkeypatch.setattr("lmzoo.reports.map.rendered", lambda figure, _: seen.append(figure.axes[0]) or b"")
    words = ["the", "$a$", "of", "b", "a"]
    places = np.array([[0.1 * row, 0.5] for row in range(5)])
    picture("$title$", words, places, [0, 2, 0, 0, 0])
    (axes,) = seen
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["the of b", "$a$"]
    points = axes.collections
    assert [len(each.get_offsets()) for each in points] == [4, 1]
    assert len({tuple(each.get_facecolor()[0]) for each in points}) == 2
    assert [text.get_text() for text in axes.texts] == [words[row] for row in named(words, places)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "absent: not a run directory"),
        (["ppmi", "--words", "2"], "--words 2: must be at least 3"),
        (["ppmi", "--perplexity", "nan"], "--perplexity nan: must be a number"),
        (["ppmi", "--clusters", "99"], "--clusters=99: must be 1 to"),
        (["ppmi", "--out", "absent"], "absent/map.png: cannot be written"),
    ],
)
def test_mistakes_are_reported_in_a_line(run: str, arguments: list[str], message: str):
    assert message in command(*arguments, main=map_command.main).refused()


def test_a_file_of_vectors_has_no_map(tmp_path: Path):
    (tmp_path / "glove.txt").write_text("a 1 0\nb 0 1\n")
    refused = command(str(tmp_path / "glove.txt"), main=map_command.main).refused()
    needs = "a map needs the run that made them, with its text for Brown clusters"
    assert refused.endswith(f"glove.txt: is a file of vectors; {needs}")


def test_a_run_of_a_language_model_has_no_map(runs: list[str]):
    refused = command(runs[0], main=map_command.main).refused()
    assert "has no vectors.bin; lmzoo vectors makes one; with method=type" in refused


def test_another_map_takes_the_place_of_the_first(run: str):
    pytest.importorskip("matplotlib")
    for words in ("12", "9"):
        done = command(run, "--words", words, "--clusters", "3", main=map_command.main)
        assert done.out == "ppmi/map.png\n"


def test_a_map_has_two_dimensions():
    with pytest.raises(UserError, match="a single dimension"):
        tsne(torch.rand(9, 1), 3, 0)


def test_tsne_keeps_groups_together():
    pytest.importorskip("sklearn")
    random = torch.Generator().manual_seed(0)
    matrix = torch.cat([torch.randn(30, 10, generator=random) + 10 * torch.eye(10)[i] for i in range(2)])
    places = tsne(matrix, 10, 0)
    assert places.min() == 0
    assert places.max() == 1
    first, second = places[:30], places[30:]
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > first.std(0).max() + second.std(0).max()


def test_a_word_that_the_text_does_not_have_is_reported(run: str, tmp_path: Path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    data = (other / "vectors.bin").read_bytes()
    (other / "vectors.bin").write_bytes(data.replace(b"w3 ", b"zz ", 1))
    edit(other / "results.json", put("files", "vectors.bin", value=sha256((other / "vectors.bin").read_bytes())))
    line = command(str(other), main=map_command.main).refused()
    assert f"{other}/vectors.bin: 'zz' is no word of corpus" in line


def test_vectors_in_a_run_of_another_kind_make_no_map(run: str, tmp_path: Path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    edit(other / "results.json", lambda results: None)
    (other / "config.yaml").write_text("task: {name: pos}\nlabeller: {name: majority}\nrun_dir: other\nseed: 0\n")
    assert "other: " in command(str(other), main=map_command.main).refused()
