"""What a run directory is, where it may be, and which run may go on in it."""

import io
import os
import re
import stat
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, command, contents, stop_at

from lmzoo.commands import evaluate, score
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.runs import directory
from lmzoo.runs.directory import Run

TEXT_FILE = ["corpus=text", *(f"corpus.{split}=text.txt" for split in ("train", "valid", "test"))]


def test_resuming_with_another_configuration_shows_the_difference(run: Path):
    before = contents(run)
    message = command(*SMALL, "optimizer.lr=0.5", "schedule=constant", f"run_dir={run}").refused()
    assert "contains a run with another configuration (optimizer.lr: 0.003 -> 0.5; schedule.name: cosine" in message
    assert message.endswith("choose another run_dir, or repeat the options it was started with")
    assert contents(run) == before


def test_resuming_on_another_text(folder: Path):
    Path("text.txt").write_text("a b a b\nb a\n" * 9)
    options = [*QUICK, *MODELS["lstm"], *TEXT_FILE, "run_dir=run"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 1)
        assert command(*options).code == 130
    before = contents(folder / "run")
    Path("text.txt").write_text("b b a\n" * 18)
    message = command(*options).refused()
    assert "run: was trained on another text than corpus text now (different: train, valid, test)" in message
    assert "restore that text, or choose another run_dir" in message
    assert contents(folder / "run") == before


@pytest.mark.parametrize(
    ("then", "told"),
    [({}, ")"), ({"python": "3.12"}, ")"), ({"python": "3.11"}, "; python then 3.11, now 3.12)")],
)
def test_another_text_is_reported_with_the_notes_that_differ(
    then: dict[str, str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corpus = Corpus("pydoc", "stream", Vocabulary(["<eos>"]), {}, {"train": "1"}, notes={"python": "3.12", "os": "any"})
    (tmp_path / "best.pt").touch()
    monkeypatch.setattr(Run, "recorded_corpus", lambda _: {"name": "pydoc", "sha256": {"train": "0"}, **then})
    with pytest.raises(UserError, match=re.escape(f"(different: train{told}")):
        Run(tmp_path).check_text(corpus)


def test_a_text_that_is_read_as_other_words_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "best.pt").touch()
    (tmp_path / "vocabulary.txt").write_text("<eos>\ncannot\n")
    monkeypatch.setattr(Run, "recorded_corpus", lambda _: {"name": "text", "sha256": {"train": "0"}})
    for words in (["cannot"], ["can", "not"]):
        corpus = Corpus("text", "stream", Vocabulary(["<eos>", *words]), {}, {"train": "0"})
        with nullcontext() if words == ["cannot"] else pytest.raises(UserError, match="trained on other words"):
            Run(tmp_path).check_text(corpus)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file", "run_dir=file: cannot be used (Not a directory); choose another"),
        ("file/run", "cannot be used (Not a directory); choose another"),
        ("/proc/none/run", "run_dir=/proc/none/run: cannot be made (No such file or directory)"),
        ("a" * 300, "cannot be used (File name too long); choose another"),
        ("full", "run_dir=full: contains other files and no run; choose another"),
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
    assert "is not a writable folder" in command(*SMALL, "run_dir=run").refused()


def test_estimation_that_fails_leaves_nothing(folder: Path):
    Path("text.txt").write_text("a b a b\nb a\n" * 9)
    message = command(*QUICK, *TEXT_FILE, "model=ngram", "model.discount_fallback=false", "run_dir=run").refused()
    assert "set model.discount_fallback=true" in message
    assert not Path("run").exists()


def test_saved_files_follow_the_umask(run: Path):
    os.umask(umask := os.umask(0))
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()} == {0o666 & ~umask}


@pytest.mark.parametrize("work", [score, evaluate])
def test_a_command_reads_and_sums_weights_once_and_opens_few_files(
    work: ModuleType, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "text").write_text("w1 w2\n")
    read, summed, opened = [], [], Counter[str]()
    load, checksum, opens = torch.load, directory.checkpoint_sha256, io.open
    monkeypatch.setattr(torch, "load", lambda file, **how: read.append(file.name) or load(file, **how))
    monkeypatch.setattr(directory, "checkpoint_sha256", lambda saved: summed.append(len(saved)) or checksum(saved))
    monkeypatch.setattr(io, "open", lambda file, *how, **more: opened.update([str(file)]) or opens(file, *how, **more))
    assert command(str(finished), str(tmp_path / "text"), main=work.main).code == 0
    assert (read, len(summed)) == (["best.pt"], 1)
    of_run = {Path(file).name: number for file, number in opened.items() if Path(file).parent == finished}
    assert opened[str(tmp_path / "text")] == 2  # one of them to compare its checksum with that of train
    assert of_run == {"best.pt": 1, "config.yaml": 3, "vocabulary.txt": 3, "results.json": 1, "provenance.json": 1}
