"""The first second of a command: what it does not import, and Ctrl-C while it imports and while it closes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT

from lmzoo.cli import COMMANDS

CTRL_C = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def python(folder: Path, *arguments: str, **modules: str) -> subprocess.CompletedProcess:
    """A process that finds some modules by these texts."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
    )  # fmt: skip


def started(folder: Path, main: str) -> tuple[int, str, str]:
    """What the start of a command gives whose ``main`` has these lines."""
    lines = "".join(f"    {line}\n" for line in main.splitlines())
    module = f"import atexit, os, signal\n\ndef ctrl_c(): os.kill(os.getpid(), signal.SIGINT)\n\ndef main():\n{lines}"
    done = python(folder, "-c", "from lmzoo.cli.start import start; start('work')", work=module)
    return done.returncode, done.stdout, done.stderr


def test_the_package_and_the_options_of_training_need_no_pytorch(tmp_path: Path):
    assert python(tmp_path, "-c", "import lmzoo; lmzoo.__version__", torch="1 / 0").stderr == ""
    helped = python(tmp_path, "-m", "lmzoo.train", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "model.hidden: 200               size of h_t, the units per layer." in helped.stdout
    assert re.findall(r"^(\w+): \w+, ", helped.stdout, re.M) == [
        "corpus", "experiment", "model", "optimizer", "schedule", "trainer",
    ]  # fmt: skip
    assert "did you mean 'model.hidden'?" in python(tmp_path, "-m", "lmzoo.train", "model.hiden=3").stderr


def test_several_processes_are_refused_but_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for command in ("vectors", "label"):
        done = python(tmp_path, "-m", "lmzoo", command, "--help")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: only lmzoo train runs in several processes; start the others without torchrun\n"
    assert python(tmp_path, "-m", "lmzoo.train", "--help").returncode == 0


def test_the_package_loads_models():
    import lmzoo
    from lmzoo.api import load

    assert lmzoo.load is load
    with pytest.raises(AttributeError, match="module 'lmzoo' has no attribute 'lode'"):
        _ = lmzoo.lode


def test_what_a_command_imports_is_never_searched_for_garbage(tmp_path: Path):
    work = (
        "import gc\nat_import = gc.isenabled()\ndef main(): print(at_import, gc.isenabled(), gc.get_freeze_count())\n"
    )
    done = python(tmp_path, "-c", "from lmzoo.cli.start import start; start('work')", work=work)
    at_import, later, frozen = done.stdout.split()
    assert (at_import, later) == ("False", "True")
    assert int(frozen) > 1000
    main = "import gc\nfrom lmzoo.cli.start import exit_on_interrupt\ngc.unfreeze()\n" + 2 * (
        "with exit_on_interrupt(): import wave\nprint(gc.isenabled(), gc.get_freeze_count() > 1000)\ngc.unfreeze()\n"
    )
    assert started(tmp_path, main)[1] == "True True\nTrue False\n"  # the second time, nothing is imported


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_ctrl_c_while_a_command_imports_is_one_word(command: str, tmp_path: Path):
    swallowed = "try:\n    import interrupt\nexcept BaseException:\n    pass\nimport time\ntime.sleep(60)\n"
    done = python(tmp_path, "-m", "lmzoo", command, torch=swallowed, interrupt=CTRL_C)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert not (tmp_path / "outputs").exists()


def test_the_first_ctrl_c_lets_a_command_tidy_up(tmp_path: Path):
    main = "try: ctrl_c()\nfinally: print('tidied up')"
    assert started(tmp_path, main) == (130, "tidied up\n", "interrupted\n")


def test_the_second_ctrl_c_ends_a_command_that_is_slow_to_tidy_up(tmp_path: Path):
    main = "try: ctrl_c()\nfinally:\n ctrl_c()\n print('tidied up')"
    assert started(tmp_path, main) == (130, "", "interrupted\n")


@pytest.mark.parametrize(("end", "code", "err"), [("return 1", 1, ""), ("ctrl_c()", 130, "interrupted\n")])
def test_ctrl_c_does_nothing_to_a_process_that_closes(end: str, code: int, err: str, tmp_path: Path):
    assert started(tmp_path, f"atexit.register(ctrl_c)\n{end}") == (code, "", err)


def test_a_command_ignores_ctrl_c_where_a_shell_tells_it_to(tmp_path: Path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert started(tmp_path, "ctrl_c()\nprint('on')\nreturn 0") == (0, "on\n", "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_help_whose_reader_has_left_is_silent(tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "lmzoo.train", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_that_a_library_makes_an_error_of_its_own_is_one_word(tmp_path: Path):
    hydra = "try: ctrl_c()\nexcept KeyboardInterrupt: raise AttributeError('of the library')"
    assert started(tmp_path, hydra) == (130, "", "interrupted\n")
    assert "of the program" in started(tmp_path, "raise AttributeError('of the program')")[2]
