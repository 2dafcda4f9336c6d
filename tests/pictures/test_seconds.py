"""docs/pictures/seconds.py: what a run was made from counts once."""

import json

import pytest

pytest.importorskip("matplotlib")

from seconds import DOCS, parts, seconds

RESULTS = DOCS / "results"


def own(name: str) -> float:
    return json.loads((RESULTS / name / "results.json").read_text())["seconds"]


def test_what_a_run_was_made_from_counts_once():
    chain = ["lstm_2x512", "lstm_2x512_again", "lstm_2x512_end"]
    assert seconds(RESULTS / "ngram") == own("ngram")
    assert seconds(RESULTS / "lstm_2x512_end") == pytest.approx(sum(map(own, chain)))
    both = [*chain, "lstm_2x512_end_cache", "lstm_2x512_end_dynamic", "lstm_2x512_end_both"]
    assert {part.name for part in parts(RESULTS / "lstm_2x512_end_both")} == set(both)
    assert seconds(RESULTS / "lstm_2x512_end_both") == pytest.approx(sum(map(own, both)))
