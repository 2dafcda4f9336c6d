"""The log of a run takes the package's messages while it lasts, and then gives them back."""

import logging
from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
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


def test_a_mistake_before_the_first_line_is_not_logged(tmp_path: Path):
    file = tmp_path / "train.log"

    def work(error: Exception, *lines: str) -> None:
        with logging_to(file):
            for line in lines:
                log.info(line)
            raise error

    with pytest.raises(UserError):
        work(UserError("mine"))
    assert not file.exists()
    with pytest.raises(UserError):
        work(UserError("mine"), "begun")
    assert [line.split(" ", 2)[2] for line in file.read_text().splitlines()] == ["begun", "failed: mine"]
    with pytest.raises(ZeroDivisionError):
        work(ZeroDivisionError("ours"))
    assert "ZeroDivisionError: ours" in file.read_text()
