"""The log of a run takes the package's messages while it lasts, and then gives them back."""

import logging
from pathlib import Path

import pytest

from lmzoo.runs.log import log, logging_to


def test_after_a_run_messages_go_where_they_went_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    mine, root = logging.Handler(), logging.Handler()
    of_mine, of_root = [], []
    mine.emit, root.emit = of_mine.append, of_root.append
    monkeypatch.setattr(log, "handlers", [mine])
    monkeypatch.setattr(log, "level", logging.WARNING)
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(logging.getLogger(), "handlers", [root])
    with logging_to(tmp_path / "train.log"):
        log.info("within")
    assert capsys.readouterr().out == "within\n"
    assert (tmp_path / "train.log").read_text().endswith(" within\n")
    assert not of_mine + of_root
    log.info("of no interest")
    log.warning("after it")
    assert [record.getMessage() for record in of_mine] == [record.getMessage() for record in of_root] == ["after it"]
