"""Every mistake: one line that says what is wrong and the way out, no traceback, and nothing left behind."""

import errno
import io
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, ROOT, SMALL, command, contents, stop_at
from tensorboard.summary.writer.record_writer import RecordWriter

from lmzoo import evaluate
from lmzoo.core import files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is called: an empty folder, no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMZOO_DATA", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # misspelt options, groups and models
        ("model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("+model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("++model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("~model.hiden", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("sed=3", "sed: no such option; did you mean 'seed'?"),
        ("modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("+modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("++modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("modl.hidden=3", "modl.hidden: no such option; did you mean 'model'?"),
        ("model=lstmm", "model=lstmm: no such model; did you mean 'lstm'?"),
        ("corpus=pydocs", "corpus=pydocs: no such corpus; did you mean 'pydoc'?"),
        ("+model=lstm", "+model=lstm: every run has one model; choose it with model=NAME"),
        ("++model=lstm", "++model=lstm: every run has one model; choose it with model=NAME"),
        ("~model", "~model: every run has one model; choose it with model=NAME"),
        ("model=null", "model=null: no such model; "),
        ("model.name=lstmm", "model.name=lstmm: no such model; did you mean 'lstm'?"),
        ("model=gru model.order=3", "model.order: no such option; "),
        ("-m model=lstm,rn", "model=rn: no such model; did you mean 'rnn'?"),
        ("-m model=lstm,rnn modle.hidden=3", "modle.hidden: no such option; did you mean 'model'?"),
        ("-m model=lstm,rnn ++model.hiden=3,4", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("-m model=lstm,ngram model.hidden=3", "model.hidden: no such option"),
        ("-m model=glob(*x)", "model=glob(*x): no such model; "),
        ("hydra.swep.dir=x", "hydra.swep: no such option; did you mean 'hydra.sweep'?"),
        ("+hydra.swep.dir=x", "hydra.swep: no such option; did you mean 'hydra.sweep'?"),
        ("-m model=lstm,rnn hydra.sweep.dri=x", "Could not override 'hydra.sweep.dri'."),
        ("hydra/launcher=bsic", "Could not find 'hydra/launcher/bsic'"),
        # what is no option at all
        ("lstm", "'lstm': write options as key=value, such as model=lstm"),
        ("model.hidden=[1", "'model.hidden=[1': cannot be read"),
        ("--multirn model=rnn,lstm", "unrecognized arguments: --multirn; --help shows what there is"),
        ("model=rnn,lstm", "model=rnn,lstm: several values make a sweep, which needs -m before it"),
        ("--run --multirun", "Only one of --run, --multirun"),
        ("run_dir=${nope}", "Interpolation key 'nope' not found"),
        # wrong types and sizes
        ("model.hidden=many", "model.hidden=many: must be an integer"),
        ("model.hidden=", "model.hidden=: must be an integer"),
        ("model.hidden=1e2", "model.hidden=100.0: must be an integer"),
        ("model.hidden=true", "model.hidden=True: must be an integer"),
        ("model.tied=3", "model.tied=3: must be true or false"),
        ("run_dir=3", "run_dir=3: must be a string"),
        ("trainer.precision=float16", "trainer.precision=float16: must be one of float32, bfloat16"),
        ("~model.hidden", "model.hidden is missing: it must be an integer"),
        ("model.hidden=-3", "model.hidden=-3: must be at least 1"),
        ("model.dropout=1", "model.dropout=1: must be below 1"),
        ("model.dropout=-0.1", "model.dropout=-0.1: must be at least 0"),
        ("optimizer.lr=nan", "optimizer.lr=nan: must be a number"),
        ("trainer.epochs=0", "trainer.epochs=0: must be at least 1"),
        ("trainer.clip=-1", "trainer.clip=-1: must be at least 0"),
        ("corpus.train=-1", "corpus.train=-1: must be at least 1"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("seed=4294967296", "seed=4294967296: must be at most 4294967295"),
        ("trainer.batch_size=1000", "trainer.batch_size=1000: train has only "),
        ("model.embedding=9", "model.tied=true needs model.embedding=9 and model.hidden=8 to be equal"),
        # absent devices
        ("device=cuda:63", "device=cuda:63: there is no such device here; there are: auto, cpu"),
        ("device=gpu", "device=gpu: there is no such device here; there are: auto, cpu"),
    ],
)
def test_a_mistake_on_the_command_line(arguments: str, message: str, folder: Path):
    flags = [word for word in arguments.split() if word.startswith("-")]
    overrides = [word for word in arguments.split() if not word.startswith("-")]
    groups = [word for word in overrides if re.fullmatch(r"(\+\+|\+|~)?(model|corpus)(=.*)?", word)]
    small = SMALL if not groups else [word for word in SMALL if not word.startswith(("model", "corpus"))]
    assert message in command(*flags, *small, *overrides).refused()
    assert not list(folder.iterdir())


def text(**splits: bytes | None) -> list[str]:
    """Options for a corpus of three files; None leaves a file out."""
    for split, data in ({"train": b"a b a b\nb a\n" * 9, "valid": b"a b\n", "test": b"b\n"} | splits).items():
        if data is not None:
            Path(f"{split}.txt").write_bytes(data)
    return ["corpus=text", *(f"corpus.{split}={split}.txt" for split in ("train", "valid", "test"))]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"valid": None}, "valid.txt: no such file"),
        ({"train": b""}, "train.txt: empty; a split needs at least one line of text"),
        ({"test": b" \n\n"}, "test.txt: empty; a split needs at least one line of text"),
        ({"train": b"a b\nna\xefve\n"}, "train.txt: not UTF-8 (line 2, byte 6); convert it first"),
        ({"test": b"a\nc a\n"}, "text test, line 2: 'c' is not in the vocabulary, which has no <unk>"),
    ],
)
def test_a_text_that_cannot_be_read(splits: dict, message: str):
    assert message in command(*QUICK, *MODELS["lstm"], *text(**splits)).refused()
    assert not Path("outputs").exists()


def test_a_text_that_is_not_named_or_is_a_folder(folder: Path):
    assert "corpus=text needs corpus.train=FILE" in command("corpus=text").refused()
    Path("train.txt").mkdir()
    assert "train.txt: cannot be read (Is a directory)" in command(*text(train=None)).refused()
    assert not Path("outputs").exists()


def test_a_pinned_corpus_with_other_bytes(folder: Path):
    (folder / "data" / "ptb").mkdir(parents=True)
    (folder / "data" / "ptb" / "ptb.train.txt").write_text("a b\n")
    message = command("corpus=ptb", "corpus.urls=[]").refused()
    assert "data/ptb/ptb.train.txt: sha256 is" in message
    assert "delete the file to download it again, or use corpus=text" in message
    assert [path.name for path in folder.iterdir()] == ["data"]


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
def test_no_network_and_no_data(corpus: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LMZOO_DATA", "texts")
    urls = 'corpus.urls=["http://127.0.0.1:9/{file}","http://127.0.0.1:9/{split}"]'
    message = command(f"corpus={corpus}", urls).refused()
    assert "Connection refused" in message
    assert re.search(
        r"put the file into texts/[\w-]+, set LMZOO_DATA to the folder that has it, or use corpus=pydoc", message
    )
    assert not list(folder.iterdir())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped in its second epoch."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 7)
        outcome = command(*SMALL, f"run_dir={path}")
    assert outcome.code == 130, outcome
    assert outcome.err == "interrupted: everything is saved; the same command goes on from here\n"
    return path


@pytest.fixture
def run(stopped: Path, folder: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(stopped, folder / "run")


class Evil:
    """Unpickling it makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def randomise(file: Path) -> None:
    file.write_bytes(bytes(torch.randint(0, 256, (5000,), generator=torch.Generator().manual_seed(0)).tolist()))


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    weight = torch.load(file, weights_only=True)["model"]["recurrent.weight_hh_l0"]
    data[data.index(weight.numpy().tobytes()) + 100] ^= 4
    file.write_bytes(data)


def pickle_code(file: Path) -> None:
    file.write_bytes(pickle.dumps(Evil()))


def pickle_code_in_an_archive(file: Path) -> None:
    torch.save({"model": {}, "config": {}, "progress": Evil(), "state": (), "random": {}}, file)


def save_weights_alone(file: Path) -> None:
    buffer = io.BytesIO()
    torch.save(torch.load(file, weights_only=True)["model"], buffer)
    file.write_bytes(buffer.getvalue())


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (truncate, "damaged, or no checkpoint of lmzoo"),
        (randomise, "damaged, or no checkpoint of lmzoo"),
        (lambda file: file.write_bytes(b""), "damaged, or no checkpoint of lmzoo"),
        (flip_a_bit, "damaged, or no checkpoint of lmzoo"),
        (pickle_code, "damaged, or no checkpoint of lmzoo"),
        (pickle_code_in_an_archive, "damaged, or no checkpoint of lmzoo"),
        (save_weights_alone, "no checkpoint of lmzoo"),
        (lambda file: shutil.copy(file.with_name("best.pt"), file), "no checkpoint of lmzoo"),
    ],
)
def test_a_damaged_checkpoint(spoil: Callable, reason: str, run: Path):
    spoil(run / "last.pt")
    before = contents(run)
    assert command(*SMALL, f"run_dir={run}").refused() == (
        f"error: {run}/last.pt: {reason}; delete the folder to start again, or choose another run_dir"
    )
    assert contents(run) == before
    assert not Path("executed").exists()


def test_a_checkpoint_of_another_model(run: Path):
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 7)
        assert command(*SMALL, "model.hidden=4", "model.embedding=4", "run_dir=other").code == 130
    shutil.copy("other/last.pt", run / "last.pt")
    before = contents(run)
    assert command(*SMALL, f"run_dir={run}").refused() == (
        f"error: {run}/last.pt: a checkpoint of another run (model.embedding: 4 -> 8; model.hidden: 4 -> 8); "
        "delete the folder to start again, or choose another run_dir"
    )
    assert contents(run) == before


def test_damaged_best_weights_are_not_measured(run: Path):
    assert command(*SMALL, f"run_dir={run}").code == 0
    (run / "results.json").unlink()
    flip_a_bit(run / "best.pt")
    assert "best.pt: damaged, or no checkpoint" in command(*SMALL, f"run_dir={run}").refused()
    assert not (run / "results.json").exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("config.yaml", b"model: {", "config.yaml: cannot be read ("),
        ("config.yaml", b"\xff\xfe", "config.yaml: cannot be read ("),
        ("config.yaml", b"", "config.yaml: no configuration of a run; "),
        ("provenance.json", b"[{", "provenance.json: damaged ("),
        ("provenance.json", b"[]", "provenance.json: says nothing of a corpus; delete the folder"),
        ("results.json", b"{", "results.json: damaged ("),
    ],
)
def test_a_damaged_run_directory(name: str, data: bytes, message: str, run: Path):
    (run / name).write_bytes(data)
    before = contents(run)
    assert message in command(*SMALL, f"run_dir={run}").refused()
    assert contents(run) == before


def test_resuming_with_another_configuration_shows_the_difference(run: Path):
    before = contents(run)
    message = command(*SMALL, "optimizer.lr=0.5", "schedule=constant", f"run_dir={run}").refused()
    assert "holds a run with another configuration (optimizer.lr: 0.003 -> 0.5; schedule.name: cosine" in message
    assert message.endswith("choose another run_dir, or repeat the options it was started with")
    assert contents(run) == before


def test_resuming_on_another_text(folder: Path):
    options = [*QUICK, *MODELS["lstm"], *text(), "run_dir=run"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 1)
        assert command(*options).code == 130
    before = contents(folder / "run")
    text(train=b"b b a\n" * 18)
    message = command(*options).refused()
    assert "run: was trained on another text than corpus text is now" in message
    assert "bring that text back, or choose another run_dir" in message
    assert contents(folder / "run") == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file", "file is no folder that can be written to; choose another"),
        ("file/run", "file is no folder that can be written to; choose another"),
        ("/proc/none/run", "/proc/none: cannot be written (No such file or directory)"),
        ("a" * 300, "cannot be used (File name too long); choose another"),
        ("full", "run_dir=full: holds other files and no run; choose another"),
    ],
)
def test_a_run_directory_that_cannot_be_written(place: str, message: str, folder: Path):
    Path("file").write_text("text")
    Path("full").mkdir()
    Path("full/letter.txt").write_text("text")
    before = contents(folder)
    outcome = command(*SMALL, f"run_dir={place}")
    assert message in outcome.refused()
    assert "choose another" in outcome.err
    assert contents(folder) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(folder: Path):
    folder.chmod(0o555)
    assert "is no folder that can be written to" in command(*SMALL, "run_dir=run").refused()


def no_room(*_) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the ``number``-th file that is saved from now on, and all after it, find no room."""
    whole, saved = os.fsync, 0

    def sync(descriptor: int) -> None:
        nonlocal saved
        saved += 1
        if saved >= number:
            no_room()
        whole(descriptor)

    patch.setattr(files.os, "fsync", sync)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_disk_that_is_full_from_the_start_leaves_nothing(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch):
    fill_disk(monkeypatch, number)  # vocabulary, provenance, configuration, first checkpoint
    message = command(*SMALL, "run_dir=run").refused()
    assert re.match(r"error: run/[\w.]+: cannot be written \(No space left on device\); ", message)
    assert not list(folder.iterdir())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run, never stopped."""
    path = tmp_path_factory.mktemp("finished") / "run"
    assert command(*SMALL, f"run_dir={path}").code == 0
    return path


@pytest.mark.parametrize("number", [2, 3, 4])
def test_the_last_good_checkpoint_survives_a_full_disk(
    number: int, run: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
):
    before = contents(run)
    with monkeypatch.context() as patch:
        fill_disk(patch, number)  # after provenance: the last check's best and last weights, the results
        message = command(*SMALL, f"run_dir={run}").refused()
    assert "cannot be written (No space left on device); what was saved before is still good: make room" in message
    left = contents(run)
    assert not [name for name in left if name.endswith(".part")]
    if number <= 3:
        assert left["last.pt"] == before["last.pt"]
    assert command(*SMALL, f"run_dir={run}").code == 0
    for name in ("last.pt", "best.pt"):
        ended, whole = (torch.load(path / name, weights_only=True) for path in (run, finished))
        assert all(map(torch.equal, ended["model"].values(), whole["model"].values()))


def test_a_log_that_finds_no_room(folder: Path):
    Path("run").mkdir()
    Path("run/train.log").symlink_to("/dev/full")
    assert "cannot be written (No space left on device)" in command(*SMALL, "run_dir=run").refused()


def test_tensorboard_finds_no_room(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "write", no_room)
        assert "cannot be written (No space left on device)" in command(*SMALL, "run_dir=run").refused()
    assert command(*SMALL, "run_dir=run").code == 0


def test_estimation_that_fails_leaves_nothing(folder: Path):
    message = command(*QUICK, *text(), "model=ngram", "model.discount_fallback=false", "run_dir=run").refused()
    assert "set model.discount_fallback=true" in message
    assert not Path("run").exists()


def test_saved_files_follow_the_umask(run: Path):
    os.umask(umask := os.umask(0))
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()} == {0o666 & ~umask}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "config.yaml").unlink(), "not a run directory (it has no config.yaml)"),
        (lambda run: (run / "best.pt").unlink(), "has no best.pt yet; train it first"),
        (lambda run: flip_a_bit(run / "best.pt"), "best.pt: damaged, or no checkpoint of lmzoo; "),
        (lambda run: pickle_code(run / "best.pt"), "best.pt: damaged, or no checkpoint of lmzoo; "),
        (lambda run: (run / "vocabulary.txt").write_text("a\na\n"), "vocabulary.txt: damaged (a vocabulary is a list"),
        (lambda run: (run / "vocabulary.txt").write_text("<eos>\na\n"), "best.pt: not this model's weights ("),
        (lambda run: None, "nonsense: neither a split (train, valid, test) nor a file"),
    ],
)
def test_a_run_that_cannot_be_evaluated(spoil: Callable, message: str, run: Path):
    spoil(run)
    assert message in command(str(run), "nonsense", main=evaluate.main).refused()


# The front door itself.


def python(*arguments: str, shell: str = "exec") -> subprocess.CompletedProcess:
    words = ["sh", "-c", f'{shell} "$@"', "sh", sys.executable, "-m", "lmzoo.train", *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def test_the_command_itself_refuses_in_one_line(folder: Path):
    done = python("-m", "model=lstm,rnn", "++model.hiden=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: model.hiden: no such option; did you mean 'model.hidden'?\n"
    assert not list(folder.iterdir())


def test_files_that_grow_too_large_leave_the_last_good_checkpoint(run: Path):
    (run / "best.pt").unlink()
    before = contents(run)
    done = python(*SMALL, f"run_dir={run}", shell="ulimit -f 8; exec")
    assert done.returncode == 2, done
    assert re.fullmatch(r"error: .*/(last|best)\.pt: cannot be written \(File too large\); [^\n]*\n", done.stderr), done
    assert contents(run)["last.pt"] == before["last.pt"]
    assert command(*SMALL, f"run_dir={run}").code == 0
    assert json.loads((run / "results.json").read_text())["model"] == "lstm"
