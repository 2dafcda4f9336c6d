"""Closed outputs, terminals without Unicode, devices and pipes, words that would control the terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import QUICK, ROOT, TEXT, command

from lmzoo.commands import compare, evaluate, export
from lmzoo.core.errors import LONGEST_MESSAGE, UserError, one_line, printable

NGRAM = ["model=ngram", "model.order=2", "model.discount_fallback=true"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert command(*TEXT, *QUICK, *NGRAM, f"run_dir={folder}").code == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run."""
    return shutil.copytree(trained, tmp_path / "run")


def shell(line: str, **surroundings: str) -> subprocess.CompletedProcess:
    """A shell's line with ``python`` in it, as a terminal would run it."""
    line = line.replace("python", sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **surroundings}
    return subprocess.run(line, shell=True, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_output_that_is_closed_is_dropped(run: Path):
    done = shell(f"python -m lmzoo evaluate {run} --device cpu >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_output_on_a_full_disk(run: Path):
    done = shell(f"python -m lmzoo evaluate {run} --device cpu >/dev/full")
    lost = "error: standard output: No space left on device; make room, or write elsewhere\n"
    assert (done.returncode, done.stderr) == (2, lost)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_for_which_there_is_room_in_part_alone(run: Path, tmp_path: Path, unbuffered: str):
    line = f"ulimit -f 1; python -m lmzoo score {run} train --device cpu >{tmp_path / 'out'}"
    done = shell(line, PYTHONUNBUFFERED=unbuffered)
    assert (tmp_path / "out").stat().st_size in (512, 1024)  # a block is so large, as the shell has it
    assert done.stderr.endswith("error: standard output: File too large; make room, or write elsewhere\n")
    assert done.returncode == 2


def test_a_terminal_without_unicode_gets_escapes(run: Path):
    done = shell(f"python -m lmzoo evaluate {run} Σ.txt", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (
        2,
        "error: \\u03a3.txt: neither a split (train, valid, test) nor a file\n",
    )


def test_the_written_default_of_the_experiment_can_be_written(run: Path):
    assert "already finished" in command(*TEXT, *QUICK, *NGRAM, "experiment=null", f"run_dir={run}").out


@pytest.mark.parametrize("file", [".", "/"])
def test_a_folder_is_no_output(run: Path, file: str):
    assert "cannot be written (is a folder)" in command(str(run), file, main=export.main).refused()


def test_a_symbolic_link_is_followed_and_not_replaced(run: Path, tmp_path: Path):
    (tmp_path / "link.arpa").symlink_to(tmp_path / "model.arpa")
    assert command(str(run), str(tmp_path / "link.arpa"), main=export.main).code == 0
    assert (tmp_path / "link.arpa").is_symlink()
    assert (tmp_path / "model.arpa").read_text().startswith("\\data\\")


def test_a_name_may_be_too_long(run: Path):
    assert "…: the name is too long" in command(str(run), "x" * 5000, main=export.main).refused()


def test_a_folder_may_be_closed():
    """The superuser, who runs some tests, may enter all."""

    def main() -> int:
        raise PermissionError(13, "Permission denied", "secret/text")

    assert command(main=main).refused() == "error: secret/text: Permission denied; ask for the right to use it"


@pytest.mark.parametrize(("name", "shown"), [("a\0b", r"a\x00b"), ("a\udcffb", r"a\udcffb")])
def test_a_name_may_be_none(run: Path, name: str, shown: str):
    """A null byte, and a byte that is no UTF-8."""
    assert f"{shown}: not a run directory" in command(name, main=evaluate.main).refused()
    text = command(str(run), name, main=evaluate.main).refused()
    assert f"{shown}: neither a split (train, valid, test) nor a file" in text


def test_a_null_byte_is_part_of_no_output(run: Path):
    assert "a null byte cannot be a part of a name" in command(str(run), "a\0b", main=export.main).refused()


def test_a_link_to_itself_is_no_output(run: Path, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(link)
    assert f"{link}: is a symbolic link to itself" in command(str(run), str(link), main=export.main).refused()
    assert f"{link}: is a symbolic link to itself" in command(str(run), "--csv", str(link), main=compare.main).refused()
    assert link.is_symlink()


def test_a_pipe_is_written_to_and_not_replaced(run: Path, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert command(str(run), str(pipe), main=export.main).code == 0
    assert reader.communicate()[0].startswith(b"\\data\\")
    assert pipe.is_fifo()


@pytest.mark.parametrize("text", ["/dev/zero", "pipe"])
def test_a_text_without_an_end_is_refused(run: Path, text: str, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    where = str(tmp_path / text)  # an absolute path stays as it is
    assert "not an ordinary file" in command(str(run), where, main=evaluate.main).refused()


def test_what_cannot_be_seen_is_escaped():
    assert printable("a\x1b[31m\tb\u202e") == "a\\x1b[31m\\tb\\u202e"
    assert printable("می\u200cخواهم, soft\u00adhyphen") == "می\u200cخواهم, soft\u00adhyphen"


def test_a_message_is_one_line_of_bounded_length():
    message = one_line(UserError("x\n" * 4000, "choose another"))
    assert len(message) <= LONGEST_MESSAGE
    assert "\n" not in message
    assert message.endswith("choose another")
    refused = command(*TEXT, "seed=" + "q" * 5000).refused()
    assert refused.endswith("must be an integer")
    assert len(refused) <= 300


def test_numbers_that_nothing_can_hold_are_refused():
    for option in ("model.hidden=" + "9" * 4000, f"model.layers={2**64}", "optimizer.lr=inf", "trainer.clip=1e400"):
        line = command(*TEXT, *QUICK, option).refused()
        assert option.partition("=")[0] in line
        assert "must be at most" in line
    assert "cannot be read" in command(*TEXT, *QUICK, "model.hidden=" + "9" * 5000).refused()


def test_a_model_that_does_not_fit_into_memory_is_refused(tmp_path: Path):
    sizes = ["model=rnn", "model.tied=false", "model.embedding=2000000000", "model.hidden=2000000000"]
    assert "not enough memory" in command(*TEXT, *QUICK, *sizes, f"run_dir={tmp_path / 'run'}").refused()
    assert not (tmp_path / "run").exists()


def test_a_text_may_come_through_a_pipe_of_the_shell(run: Path):
    done = shell(f"echo w1 w2 | python -m lmzoo evaluate {run} /dev/stdin --device cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert "over 3 tokens" in done.stdout


def test_an_output_may_lie_beside_a_configuration(run: Path, tmp_path: Path):
    for name, code in (("mine.arpa", 0), ("results.json", 2), ("last.pt", 2), ("events.out.tfevents.1", 2)):
        assert command(str(run), str(run / name), main=export.main).code == code
    assert command(str(run), str(run / "mine.arpa"), main=export.main).code == 0
