"""The rows of scripts/benchmarks/waits.py have jobs, which the peers do as well."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from command_line import ROOT


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "benchmarks")


def test_every_row_of_a_job_names_one_that_is_there():
    waits, known = importlib.import_module("waits"), importlib.import_module("waits_jobs").JOBS
    rows = [row for rows in waits.jobs(Path()).values() for row in rows]
    asked = {command[2] for row in rows for command in (row.ours, row.peer, row.floor) if command}
    assert asked == known.keys()


def test_a_text_of_new_words_has_the_numbers_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch):
    jobs = importlib.import_module("waits_jobs")
    monkeypatch.setattr(jobs, "TOKENS", 1200)
    (ours, units), (loop, same) = jobs.encoded(), jobs.dictionary()
    lexicon, numbers = ours(), loop()
    assert units == same == len(lexicon) == len(numbers) == 1260
    assert torch.equal(torch.unique(lexicon, return_inverse=True)[1].bincount().sort()[0], numbers.bincount().sort()[0])


def test_a_row_has_the_medians_of_its_rounds(tmp_path: Path):
    waits = importlib.import_module("waits")
    work = [sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.05: pass"]
    row = waits.Row("work", "ms", 1000, work, [*work[:-1], work[-1].replace("0.05", "0.1")], "1")
    name, unit, ours, peer, ratio, spread, share, *mib, asked = waits.line(row, 3)
    assert (name, unit, share, asked) == ("work", "ms", "", "1")
    assert 50 <= float(ours) < float(peer)
    assert 0.4 < float(spread.split(" to ")[0]) <= float(ratio) <= float(spread.split(" to ")[1]) < 1
    assert all(float(most) > 1 for most in mib)


def test_a_row_whose_peer_is_not_installed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    waits = importlib.import_module("waits")
    monkeypatch.setattr(waits.importlib.util, "find_spec", lambda name: None if name in ("numba", "jax") else name)
    rows = waits.jobs(tmp_path) | waits.commands(tmp_path, tmp_path / "kenlm", tmp_path / "english")
    absent = {name: [waits.missing(row) for row in each] for name, each in rows.items()}
    assert absent["retrieve"] == ["numba"]
    assert absent["dense"] == ["jax"] * 4
    assert absent["surprisal"] == absent["sweep"] + absent["start"] * 2 == [None] * 4
    assert absent["train"] == [str(tmp_path / "kenlm" / "lmplz")]
    assert absent["subwords"] == [str(tmp_path / "english")] * 2
