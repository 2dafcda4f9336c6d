"""What a command line calls a run: its path, what that begins with, or LATEST."""

from pathlib import Path

import pytest
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.api import load
from lmzoo.commands import compare, evaluate, label
from lmzoo.core.configs import saved
from lmzoo.core.errors import UserError
from lmzoo.runs.listing import LATEST, below, find, nearest

pytestmark = pytest.mark.usefixtures("folder")

NAMES = ["ptb/lstm", "ptb/lstm-3f2a1c", "ptb/lstm-3f77aa", "pydoc/lstm", "pydoc/ngram-01ab23", "deep/er/gru"]


@pytest.fixture
def runs(folder: Path) -> None:
    for run in [*(f"outputs/{name}" for name in NAMES), "other/rnn", "other/rnn-1", "outputs/.x/y", "outputs/ptb/.x/y"]:
        Path(run).mkdir(parents=True)
        Path(run, "config.yaml").touch()


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("outputs/ptb/lstm", "outputs/ptb/lstm"),
        ("outputs/ptb/lstm/", "outputs/ptb/lstm"),
        ("ptb/lstm", "outputs/ptb/lstm"),
        ("outputs/ptb/lstm-3f2", "outputs/ptb/lstm-3f2a1c"),
        ("lstm-3f7", "outputs/ptb/lstm-3f77aa"),
        ("ng", "outputs/pydoc/ngram-01ab23"),
        ("pydoc/n", "outputs/pydoc/ngram-01ab23"),
        ("gru", "outputs/deep/er/gru"),
        ("other/rnn", "other/rnn"),
        ("other/rnn-", "other/rnn-1"),
        ("other", "other"),  # a folder above runs
        ("absent", "absent"),
        ("3f2a", "3f2a"),
    ],
)
def test_a_run_is_found_by_what_its_path_begins_with(name: str, run: str):
    assert find(name) == Path(run)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("name", "number"), [("lstm", 2), ("lstm-3f", 2), ("ptb/lstm-", 2), ("outputs/ptb/l", 3)])
def test_a_beginning_of_several_runs_is_refused(name: str, number: int):
    with pytest.raises(
        UserError, match=f"^{name}: {number} runs begin with it, such as outputs/.*; write a longer prefix"
    ):
        find(name)


@pytest.mark.usefixtures("runs")
def test_runs_below_a_folder_are_found_but_for_hidden_ones():
    assert {str(run) for run in below(Path("outputs"))} == {f"outputs/{name}" for name in NAMES}
    assert below(Path("outputs/ptb/lstm")) == [Path("outputs/ptb/lstm")]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00\n", bytes(range(1, 256)) * 40, None])
def test_a_latest_run_that_is_damaged_stops_no_command(damage: bytes | None):
    """None: nothing can be written there."""
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    assert command(*small).code == 0
    LATEST.unlink()
    LATEST.write_bytes(damage) if damage is not None else LATEST.mkdir()
    command("LATEST", "valid", main=evaluate.main).refused()
    assert command(*small, "model.order=1").code == 0
    if damage is not None:
        assert command("LATEST", "valid", main=evaluate.main).code == 0


def test_a_comparison_makes_no_folder():
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    assert command(*small, "run_dir=mine").code == 0
    assert command("mine", main=compare.main).code == 0
    assert not Path("outputs").exists()


@pytest.mark.usefixtures("runs")
def test_the_nearest_run_is_named_where_there_is_none():
    assert nearest(Path("outputs/ptb/lsmt")) == Path("outputs/ptb/lstm")
    assert nearest(Path("other/rrn")) == Path("other/rnn")
    assert nearest(Path("zzz")) is None
    refused = command("outputs/pydoc/ngam-01ab23", main=evaluate.main).refused()
    assert "(there is no such folder; is it outputs/pydoc/ngram-01ab23?)" in refused


def test_every_name_of_a_run_is_that_run():
    small = [*TEXT, *QUICK[-1:], *MODELS["ngram"]]
    for order in (2, 1):
        assert command(*small, f"model.order={order}").code == 0
    folder = LATEST.read_text()
    for name in ("LATEST", "outputs/LATEST", Path(folder).name):
        whole, short = (command(given, "valid", "--json", main=evaluate.main) for given in (folder, name))
        assert (whole.code, whole.err) == (0, "")
        assert short.err == f"{name} is {folder}\n"
        assert short.out.partition('"seconds"')[0] == whole.out.partition('"seconds"')[0]
    assert str(load("LATEST").run.path) == folder
    assert load("LATEST").run.config()["model"]["order"] == 1


def test_options_take_the_names_that_commands_take():
    """Of language models, labels and word vectors; the configuration has the path."""
    for order in (3, 2, 1):
        assert command(*TEXT, *QUICK[-1:], *MODELS["ngram"], f"model.order={order}").code == 0
    latest = str(find("LATEST"))
    first, second = sorted({*map(str, below(Path("outputs")))} - {latest})
    mix = [*TEXT, *QUICK[-1:], "model=mixture"]
    names = {Path(first).name: first, Path(second).name: second, "LATEST": latest}
    done = command(*mix, f"model.runs=[{','.join(names)}]", "run_dir=mix")
    assert done.code == 0
    assert done.err.splitlines()[:3] == [f"{name} is {run}" for name, run in names.items()]
    assert saved("mix")["model"]["runs"] == [first, second, latest]
    assert "markov: 3 runs begin with it" in command(*mix, "model.runs=[markov/ngram]").refused().replace("/ngram", "")
    assert command(*TEXT, *QUICK, *MODELS["rnn"], "run_dir=outputs/mine/rnn").code == 0
    rnn = [*TEXT, *QUICK, *MODELS["rnn"]]
    on = command(*TEXT, *QUICK, "model.embedding=8", "trainer.from=mine", "run_dir=on")
    assert (on.code, on.err.splitlines()[0]) == (0, "mine is outputs/mine/rnn")
    assert saved("on")["model"]["name"] == "rnn"  # as that run has
    Path("own.txt").write_text("w1 w2 w3\n" * 50)
    own = ["corpus=text", "corpus.train=own.txt", "corpus.valid=own.txt", "corpus.vocabulary=rn"]
    on = command(*own, *QUICK[-1:], *MODELS["ngram"], "run_dir=words")
    assert (on.code, on.err.splitlines()[0]) == (0, "rn is outputs/mine/rnn")
    assert "trainer.from: mix has other weights (" in command(*rnn, "trainer.from=mix", "run_dir=no").refused()
    Path("pos.txt").write_text("the D\ndog N\n\nruns V\n\n" * 5)
    pos = ["task=pos", *(f"task.{split}=pos.txt" for split in ("train", "valid", "test"))]
    assert command(*pos, "labeller=majority", main=label.main).code == 0
    folder = str(find("LATEST"))
    pool = [*pos, "labeller=pool", "labeller.runs=[LATEST]", "run_dir=pool"]
    named = command(*pool, main=label.main).err.splitlines()
    assert named[0] == f"LATEST is {folder}"
    assert named[1].startswith(f"error: labeller.runs: {folder} has no probabilities")


def test_the_latest_run_stays_the_same_in_a_sweep():
    small = [*TEXT, *QUICK[-1:]]
    assert command(*small, *MODELS["ngram"]).code == 0
    before = str(find("LATEST"))
    assert command("-m", *small, "model=mixture", "model.runs=[LATEST]", "model.per=token,sentence").code == 0
    mixed = [run for run in below(Path("outputs")) if "mixture" in run.name]
    assert [saved(run)["model"]["runs"] for run in mixed] == [[before], [before]]


def test_links_to_folders_are_followed_once(folder: Path):
    (folder / "disk" / "run").mkdir(parents=True)
    (folder / "disk" / "run" / "config.yaml").touch()
    (folder / "outputs").mkdir()
    (folder / "outputs" / "linked").symlink_to(folder / "disk")
    (folder / "disk" / "above").symlink_to(folder)
    assert below(Path("outputs")) == [Path("outputs/linked/run")]


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(UserError, match=r"^x{79}…: cannot be read \(File name too long\)"):
        load("x" * 5000)
