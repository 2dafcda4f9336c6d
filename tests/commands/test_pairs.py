"""Minimal pairs: which sentence a model prefers."""

import gzip
import json
from pathlib import Path

import pytest
import torch
from command_line import command
from predictions import by_hand

from lmzoo.commands import pairs
from lmzoo.protocol.lines import Line


def test_minimal_pairs(run: Path, tmp_path: Path):
    rows = [
        {"UID": "order", "sentence_good": "The dog ran.", "sentence_bad": "Dog the ran."},
        {"UID": "order", "sentence_good": "A cat saw the dog.", "sentence_bad": "Dog the saw cat a."},
        {"UID": "order", "sentence_good": "Cat saw a dog the.", "sentence_bad": "The cat saw a dog."},
        {"UID": "tie", "sentence_good": "a cat", "sentence_bad": "a cat"},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [str(run), str(tmp_path / "pairs.jsonl"), "--tokenize", "ptb"]
    out = command(*asked, main=pairs.main).out
    assert [row.split("\t") for row in out.splitlines()] == [
        ["percent", "pairs", "ties", "by_unknown", "paradigm"],
        [" 66.7", "3", "0", "0", "order"],
        ["  0.0", "1", "1", "0", "tie"],
        [" 33.3", "4", "1", "0", "mean of 2 paradigms"],
    ]
    found = json.loads(command(*asked, "--json", main=pairs.main).out)
    assert found["mean"] == pytest.approx(1 / 3)
    assert found["paradigms"] == {
        "order": {"pairs": 3, "right": 2, "ties": 0, "by_unknown": 0},
        "tie": {"pairs": 1, "right": 0, "ties": 1, "by_unknown": 0},
    }
    first = found["pairs"][0]
    assert first["UID"] == "order"
    assert first["logprob_good"] == pytest.approx(sum(by_hand(run, "the dog ran")), abs=1e-3)
    assert first["logprob_bad"] == pytest.approx(sum(by_hand(run, "dog the ran")), abs=1e-3)
    assert [each["logprob_good"] > each["logprob_bad"] for each in found["pairs"]] == [True, True, False, False]


def test_pairs_that_are_there_twice_are_reported(run: Path, tmp_path: Path):
    rows = [{"UID": "x", "sentence_good": "the dog", "sentence_bad": f"{word} the"} for word in ("dog", "cat", "cat")]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n\n" for row in rows[:2]))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def told(*names: str) -> str:
        return command(str(run), *(str(tmp_path / name) for name in names), main=pairs.main).err

    assert told("a.jsonl") == ""
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"sentence_good": "the dog", "sentence_bad": "dog the"}\n'))
    assert command(str(run), str(tmp_path / "d.jsonl.gz"), main=pairs.main).out.splitlines()[1].endswith("\td")
    assert told("a.jsonl", "./a.jsonl") == "warning: 2 of 4 pairs are duplicates, which are counted, too\n"
    assert told("a.jsonl", "b.jsonl") == "warning: 2 of 4 pairs are duplicates, which are counted, too\n"
    assert told("c.jsonl") == "warning: 1 of 3 pairs are duplicates, which are counted, too\n"


def test_sentences_that_are_read_alike_are_a_tie_whatever_rounding_makes_of_them():
    words, known = ["a", "x", "<eos>"], torch.tensor([True, False, True])
    good = Line(words, torch.tensor([-1.0, -2.0, -1.0]), known, -4.0, -2.0, 1)
    bad = good._replace(words=["a", "y", "<eos>"], logprob=-4.0000001, logprob_of_known=-2.0000001)
    other = bad._replace(words=["b", "x", "<eos>"])
    rows = [pairs.Pair(name, "", "") for name in ("alike", "unlike", "alike")]
    found = pairs.preferences(rows, iter([good, bad, good, other, bad, good]))
    assert found == {"alike": (2, 0, 2, 0), "unlike": (1, 1, 0, 0)}


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("{}\n", [], "line 1: is not JSON with sentence_good and sentence_bad"),
        ('{"sentence_good": 1, "sentence_bad": "a"}\n', [], "line 1: is not JSON"),
        ('{"sentence_good": "a\\nb", "sentence_bad": "a"}\n', [], "line 1: is not JSON"),
        ('{"sentence_good": "b", "sentence_bad": "a", "UID": 3}\n', [], "line 1: its UID is no string"),
        ('{"sentence_good": " ", "sentence_bad": "a"}\n', [], "line 1: is not JSON"),
        ("[" * 100_000 + "\n", [], "line 1: is not JSON"),
    ],
)
def test_mistakes(run: Path, tmp_path: Path, text: str, more: list[str], message: str):
    (tmp_path / "text").write_text(text)
    assert message in command(str(run), str(tmp_path / "text"), *more, main=pairs.main).refused()
