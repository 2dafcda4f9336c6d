"""Several processes train what one process trains, of the same rows."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import QUICK, ROOT, SMALL, TEXT, command, configuration, stop_at, train
from torch import distributed as dist

from lmzoo.core import ranks
from lmzoo.core.errors import UserError
from lmzoo.corpus.windows import SentenceWindows

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

TINY = ["model.embedding=8", "model.hidden=8", "model.dropout=0"]
BLOCKS = ["model.states=24", "model.clusters=6", "model.dim=8", "model.state_dropout=0"]
FAMILY = [*TEXT, *QUICK]
FAMILIES = {
    "rnn": ["model=rnn", *TINY],
    "gru": ["model=gru", *TINY, "model.classes=4", "trainer.average=ema"],
    "sentences": ["model=lstm", *TINY, "model.ar=1", "model.tar=1", "corpus.context=sentence"],
    "nnlm": ["model=nnlm", "model.dropout=0"],
    "logbilinear": ["model=logbilinear", "model.dropout=0"],
    "vlhmm": ["model=vlhmm", *BLOCKS],
    "vlhmm_sentences": ["model=vlhmm", *BLOCKS, "corpus.context=sentence"],
    "twolevel_hmm": ["model=twolevel_hmm", *BLOCKS],
    "lowrank_hmm": ["model=lowrank_hmm", *BLOCKS, "model.features=4"],
    "neural_hmm": ["model=neural_hmm", "model.states=8", "model.dim=8"],
    "lds_rnn": ["model=lds_rnn", "model.hidden=6", "model.iterations=3", "model.dropout=0"],
    "ngram": ["model=ngram", "model.order=2", "model.discount_fallback=true"],
}


def torchrun(number: int, *arguments: str) -> subprocess.Popen:
    """Processes on this machine, which know the package."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={number}", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def forked(number: int, work: Callable[[int], object]) -> None:
    """Work in forks of this process, which has imported everything: as torchrun does it, but for the start."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_join, args=(rank, number, port, work)) for rank in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * number


def _join(rank: int, number: int, port: int, work: Callable[[int], object]) -> None:
    meeting = {"RANK": rank, "WORLD_SIZE": number, "MASTER_ADDR": "localhost", "MASTER_PORT": port, "LOCAL_RANK": rank}
    os.environ.update({name: str(value) for name, value in meeting.items()})
    with ranks.process_group():
        work(rank)


def trained(number: int, folder: Path, *names: str) -> None:
    """Train by several processes, one run after the other."""
    configs = [configuration(folder / name, *FAMILY, *FAMILIES[name]) for name in names]
    forked(number, lambda _: [train(config) for config in configs])


def require_equal(one: Path, several: Path) -> None:
    """The same curves and figures, but for rounding."""
    results = [json.loads((folder / "results.json").read_text()) for folder in (one, several)]
    ours, theirs = ({**figures["perplexity"], **{f"{key} {i}": check[key] for i, check in enumerate(figures["checks"])
                     for key in ("tokens", "train", "valid")}} for figures in results)  # fmt: skip
    assert theirs == pytest.approx(ours, rel=1e-5)


def compare(number: int, folder: Path, *names: str) -> None:
    for name in names:
        train(configuration(folder / "one" / name, *FAMILY, *FAMILIES[name]))
    trained(number, folder / "several", *names)
    for name in names:
        require_equal(folder / "one" / name, folder / "several" / name)


def test_two_ranks_train_what_one_process_trains(folder: Path):
    compare(2, folder, "sentences", "vlhmm")


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
def test_ranks_train_every_family_as_one_process_does(folder: Path, number: int):
    compare(number, folder, *FAMILIES)


@pytest.mark.slow
def test_ranks_go_on_with_what_one_process_has_begun(folder: Path):
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3)
        assert command(*FAMILY, *FAMILIES["rnn"], "run_dir=several/rnn").code == 130
    compare(2, folder, "rnn")


@pytest.mark.slow
@pytest.mark.parametrize("later", [1, 2])
def test_a_killed_rank_ends_the_run_and_any_number_of_ranks_goes_on(folder: Path, later: int):
    options = ["model.dropout=0", "trainer.precision=float32", "corpus.train=40000", "trainer.checkpoint_seconds=0.2"]
    command_line = [*SMALL, *options, "run_dir=run"]
    process = torchrun(2, "-m", "lmzoo.train", *command_line)
    started = time.monotonic()
    while not (folder / "run" / "last.pt").exists():
        assert time.monotonic() - started < 120
        time.sleep(0.1)
    time.sleep(1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert re.search(r"^error: rank \d: another rank has ended", output, re.M) or "SIGTERM" in output, output
    assert not (folder / "run" / "results.json").exists()
    again = torchrun(later, "-m", "lmzoo.train", *command_line)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert command(*command_line[:-1], "run_dir=whole").code == 0
    require_equal(folder / "whole", folder / "run")


@pytest.mark.slow
def test_ranks_that_read_other_texts_are_refused(folder: Path):
    texts = [f"{rank}.txt" for rank in range(2)]
    for rank, name in enumerate(texts):
        (folder / name).write_text("a b c\n" * (50 + rank))
    job = "import os, sys; os.rename(f\"{os.environ['RANK']}.txt\", own := f\"own{os.environ['RANK']}.txt\"); " \
          "sys.path.insert(0, sys.argv[1]); from command_line import command; " \
          "print(command('corpus=text', 'corpus.label=text', f'corpus.train={own}', f'corpus.valid={own}', " \
          "'model=rnn', 'trainer.batch_size=2', 'run_dir=run').err)"  # fmt: skip
    (folder / "job.py").write_text(job)
    output, _ = torchrun(2, "job.py", str(ROOT / "tests")).communicate(timeout=120)
    assert "rank 1: has another configuration than rank 0" in output
    assert not (folder / "run" / "results.json").exists()


def test_one_process_needs_no_others():
    assert (ranks.rank(), ranks.world_size(), ranks.is_main()) == (0, 1, True)
    assert ranks.all_gather("x") == ["x"]
    assert ranks.any_rank(True, False) == [True, False]
    ranks.require_same("text", "x")


def test_a_port_in_use_is_an_error_of_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        for name, value in {"WORLD_SIZE": 2, "RANK": 0, "MASTER_ADDR": "localhost", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, str(value))
        assert f"the ranks cannot connect at localhost:{port}" in command(*SMALL).refused()


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stopped_rank_is_not_waited_for_for_ever(stopped: int, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LMZOO_PATIENCE", "6")

    def work(rank: int) -> None:
        ranks.all_reduce(torch.ones(1))  # both are there
        if rank == stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        ranks.all_reduce(torch.ones(1))

    def told(rank: int, port: int) -> None:
        with Path(f"{rank}.txt").open("w") as stream, contextlib.redirect_stderr(stream):
            try:
                _join(rank, 2, port, work)
            except UserError as error:
                print(error, file=stream)
        os._exit(0)  # at an end by way of PyTorch the other one is waited for

    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)  # as torchrun keeps one
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=told, args=(rank, store.port)) for rank in range(2)]
    for process in processes:
        process.start()
    other = 1 - stopped
    try:
        processes[other].join(120)
        assert processes[other].exitcode == 0
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert (
        Path(f"{other}.txt")
        .read_text()
        .startswith(f"rank {other}: another rank has ended, or did not answer within 0:00:06; see its output")
    )


def test_a_rank_that_never_comes_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {"WORLD_SIZE": 2, "RANK": 0, "MASTER_ADDR": "localhost", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("LMZOO_PATIENCE", "1")
    assert command(*SMALL).refused().startswith(f"error: the ranks cannot connect at localhost:{port} (")


@pytest.mark.parametrize("wrong", ["soon", "0", "nan", "inf"])
def test_patience_is_a_number_of_seconds(wrong: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LMZOO_PATIENCE", wrong)
    assert f"LMZOO_PATIENCE={wrong}: not a number of seconds" in command(*SMALL).refused()


def test_the_parts_of_a_window_are_its_rows():
    text = torch.tensor([1, 2, 3, 0, 4, 0, 5, 6, 0])
    (window,) = SentenceWindows(text, max_tokens=12, seed=None, conditions=torch.tensor([7, 8, 9])).epoch(0)
    parts = [window.part(rank, 2) for rank in range(2)]
    assert [part.count for part in parts] == [6, 3]
    assert [part.conditions.tolist() for part in parts] == [[7, 8], [9]]  # pyright: ignore[reportOptionalMemberAccess]
    assert torch.equal(parts[1].tokens, window.tokens[1::2])
    assert torch.equal(parts[1].positions, window.positions[1::2])
