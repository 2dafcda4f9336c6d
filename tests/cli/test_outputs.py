"""What commands write: nothing over what they read, and nothing through a link inside a run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import MODELS, TEXT, command

from lmzoo.cli.command import check_output
from lmzoo.commands import cluster, compare, embed, export, inspect, probe, reading, retrieve, tag, vectors
from lmzoo.commands import map as map_command
from lmzoo.core.errors import UserError

Main = Callable[[], int]

INPUTS = {
    "vectors.txt": "the 1 2\nof 2 1\na 1 1\n",
    "sets.txt": "the of 3\nthe a 4\nof a 1\n",
    "questions.txt": ": section\nthe of a the\n",
    "text.txt": "the of a\nof the\n",
    "prior.txt": "d1 1\n",
}
COMMANDS: list[tuple[Main, list[str]]] = [
    (probe.main, ["vectors.txt", "--sets", "sets.txt", "--csv", "OUT sets.txt"]),
    (probe.main, ["vectors.txt", "--analogies", "questions.txt", "--csv", "OUT questions.txt"]),
    (probe.main, ["vectors.txt", "--neighbours", "the", "--csv", "OUT vectors.txt"]),
    (export.main, ["vectors.txt", "OUT vectors.txt"]),
    (cluster.main, ["--text", "text.txt", "--clusters", "2", "OUT text.txt"]),
    (retrieve.main, ["text.txt", "prior.txt", "--run", "OUT prior.txt"]),
    (embed.main, ["lds", "text.txt", "OUT text.txt"]),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(*TEXT, *MODELS["ngram"], "run_dir=ngram").code == 0
        options = ["method=ppmi", "method.dim=3", "method.min_count=1", "run_dir=ppmi"]
        assert command(*TEXT, *options, main=vectors.main).code == 0
    return folder


@pytest.fixture
def runs(folder: Path, trained: Path) -> Path:
    """A folder with the runs ``ngram`` and ``ppmi``."""
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("way", ["same", "symbolic link", "hard link", "other name"])
@pytest.mark.parametrize(("main", "line"), COMMANDS)
def test_nothing_is_written_over_an_input(main: Main, line: list[str], way: str, folder: Path):
    for name, text in INPUTS.items():
        Path(name).write_text(text)
    source = line[-1].removeprefix("OUT ")
    out = {"same": source, "other name": f"./x/../{source}"}.get(way, "out.txt")
    Path("x").mkdir()
    if way == "symbolic link":
        Path(out).symlink_to(source)
    elif way == "hard link":
        Path(out).hardlink_to(source)
    assert f"{out.removeprefix('./')}: is the text to be read" in command(*line[:-1], out, main=main).refused()
    assert {name: Path(name).read_text() for name in INPUTS} == INPUTS


def test_files_that_a_command_finds_itself_are_inputs_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LMZOO_DATA", "data")
    Path("data/wordsim").mkdir(parents=True)
    Path("data/wordsim/a.txt").write_text(INPUTS["sets.txt"])
    Path("vectors.txt").write_text(INPUTS["vectors.txt"])
    out = command("vectors.txt", "--csv", "data/wordsim/a.txt", main=probe.main)
    assert "data/wordsim/a.txt: is the text to be read; name another file" in out.refused()
    assert not out.out
    assert Path("data/wordsim/a.txt").read_text() == INPUTS["sets.txt"]
    assert command("vectors.txt", "--csv", "data/wordsim/b.txt", main=probe.main).code == 0


def test_two_outputs_are_two_files_or_a_device(runs: Path):
    told = "is to be written twice; name another file"
    assert told in command("ngram", "--csv", "x.png", "--plot", "./x.png", main=compare.main).refused()
    with pytest.raises(UserError, match=told):
        check_output(Path("x"), Path("./x"))
    check_output(Path("/dev/null"), Path("/dev/null"))


@pytest.mark.parametrize("ending", ["zst", "xz", "BZ2", "zip"])
@pytest.mark.parametrize(
    ("main", "line"),
    [(compare.main, ["ngram", "--csv"]), (probe.main, ["ppmi", "--csv"]), (export.main, ["ngram"])],
)
def test_no_file_is_called_packed_that_is_not(main: Main, line: list[str], ending: str, runs: Path):
    told = f"x.{ending}: its suffix stands for an unsupported compression; let it end in .gz"
    assert told in command(*line, f"x.{ending}", main=main).refused()


@pytest.mark.parametrize("name", ["results.json", "config.yaml", "best.pt"])
@pytest.mark.parametrize(
    ("main", "line"),
    [(compare.main, ["ngram", "--csv"]), (probe.main, ["ppmi", "--csv"]), (export.main, ["ngram"])],
)
def test_a_link_to_a_part_of_a_run_is_that_part(main: Main, line: list[str], name: str, runs: Path):
    Path("out").symlink_to(runs / "ngram" / name)
    before = Path("ngram", name).read_bytes()
    assert "out: is a part of the run in" in command(*line, "out", main=main).refused()
    assert Path("ngram", name).read_bytes() == before


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (compare.main, ["ngram", "--csv", "ngram/table"]),
        (compare.main, ["ngram", "--csv", "ngram/deep/table"]),
        (export.main, ["ngram", "ngram/table"]),
        (export.main, ["ppmi", "ngram/table"]),
        (map_command.main, ["ppmi", "--out", "ngram/deep"]),
    ],
)
def test_nothing_is_written_through_a_link_inside_a_run(main: Main, line: list[str], runs: Path):
    Path("mine").mkdir()
    for name in ("table", "map.png"):
        Path("mine", name).write_text("mine")
    Path("ngram/table").symlink_to(runs / "mine/table")
    Path("ngram/deep").symlink_to(runs / "mine")
    assert (
        "is a symbolic link inside a run, which is not allowed; delete the link" in command(*line, main=main).refused()
    )
    assert {Path("mine", name).read_text() for name in ("table", "map.png")} == {"mine"}


def test_a_map_is_not_drawn_through_a_link(runs: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("lmzoo.reports.map.tsne", lambda matrix, perplexity, seed: matrix[:, :2].sigmoid().numpy())
    line = ["ppmi", "--words", "12", "--clusters", "3"]
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    place = Path("ppmi/map.png")
    place.symlink_to(runs / "mine/file")
    assert "ppmi/map.png: is a symbolic link inside a run" in command(*line, main=map_command.main).refused()
    assert Path("mine/file").read_text() == "mine"
    place.unlink()
    assert command(*line, main=map_command.main).code == 0


def test_a_run_is_read_through_links(runs: Path):
    """Its weights may lie on another disk; what is written takes the link's place."""
    Path("ngram/best.pt").rename("elsewhere.pt")
    Path("ngram/best.pt").symlink_to(runs / "elsewhere.pt")
    assert command("ngram", "out.arpa", main=export.main).code == 0


def test_inputs_are_those_of_one_command(folder: Path):
    """A notebook may read a file and write it later."""
    for name, text in INPUTS.items():
        Path(name).write_text(text)
    line = ["vectors.txt", "--sets", "sets.txt", "--csv"]
    assert command(*line, "table.csv", main=probe.main).code == 0
    assert command("vectors.txt", "--neighbours", "the", "--csv", "sets.txt", main=probe.main).code == 0


@pytest.mark.parametrize(
    ("main", "line"),
    [(inspect.main, ["run"]), (tag.main, ["run"]), (reading.main, ["run", "table"]), (compare.main, ["run"]),
     (compare.main, ["--tokens", "a", "b"]), (compare.main, ["run", "--sentence", "w1"])],
)  # fmt: skip
def test_the_ending_of_a_picture_is_checked_before_anything_is_read(main: Main, line: list[str], folder: Path):
    pytest.importorskip("matplotlib")
    refused = command(*line, "--plot", "a.txt", main=main).refused()
    assert "--plot a.txt: .txt is not a supported image format; choose from: " in refused
