"""What ``--help`` prints of options."""

import re
from typing import Any

import pytest
from omegaconf import OmegaConf

from lmzoo.cli.help import options_help
from lmzoo.core.configs import defaults


def help_of(**options: Any) -> str:
    hydra = {"runtime": {"choices": {"model": "hmm", "hydra/launcher": "basic"}}}
    return options_help("train", OmegaConf.create({"hydra": hydra, "seed": 0, **options}))


def test_an_option_has_its_value_and_its_sentence_in_the_words_of_yaml(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "300")
    printed = help_of(model=defaults("model", "hmm"), plug={"name": "in", "rate": [0.1, "a$b"]})
    lines = [re.sub(" {3,}", "   ", line) for line in printed.splitlines()]
    assert lines[2].startswith("model: arpa, cache, ")
    assert "model.states: 64   Z, the number of hidden states." in lines
    assert any(line.startswith("model=hmm: ") for line in lines)
    assert "model=hmm (lstm): Long short-term memory, " in help_of(model=defaults("model", "lstm"))  # as of a preset
    assert "`" not in printed
    assert not any(line.startswith(("hydra", "model.name")) for line in lines)
    assert "plug.rate: [0.1, a$b]" in lines
    assert "   dropout rate before the layers; null: dropout.\n" in help_of(model=defaults("model", "lstm"))


def test_lines_fit_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "70")
    lines = help_of(model=defaults("model", "dynamic") | {"run": "outputs/a/folder/with/a/long/name"}).splitlines()
    assert all(len(line) <= 70 for line in lines)
    assert lines[lines.index("model.run: outputs/a/folder/with/a/long/name") + 1].startswith(" " * 38 + "folder of a")
