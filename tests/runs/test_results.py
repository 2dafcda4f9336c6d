"""What came out of runs, in words."""

import math

import pytest

from lmzoo.core.checksums import CHECKSUM
from lmzoo.core.errors import UserError
from lmzoo.runs.kinds import checked, summary
from lmzoo.runs.results import finite

RESULTS = {
    "model": "ngram",
    "corpus": "ptb",
    "context": "sentence",
    "parameters": 12345,
    "perplexity": {"valid": 140.004, "test": None},
    "tokens": {"valid": 73760, "test": 82430},
    "seconds": 2.6,
    "tokens_per_second": 1234567.8,
    "device": "cpu",
    "seed": 3,
}


def test_infinity_is_kept_as_none():
    assert [finite(number) for number in (2.5, math.inf, math.nan)] == [2.5, None, None]


def test_a_summary_has_every_figure():
    assert summary(RESULTS).splitlines() == [
        "ngram on ptb (context sentence): valid perplexity 140.00, test perplexity inf",
        "12,345 parameters, 3 s of training at 1,234,568 tokens/s on cpu, seed 3",
    ]
    assert summary(RESULTS | {"precision": "bfloat16"}).splitlines()[1].endswith(" tokens/s on cpu in bfloat16, seed 3")
    more = {"impossible_tokens": {"test": 1000}, "true_perplexity": {"valid": 9.0, "test": 8.125}}
    assert summary(RESULTS | more).splitlines()[2:] == [
        "1,000 of 82,430 test tokens have probability 0: try smoothing, or <unk> where they are unknown words",
        "the text's own model: valid perplexity 9.00, test perplexity 8.12",
    ]


def test_results_are_those_of_a_kind_of_run():
    assert checked(RESULTS) == RESULTS
    diverged = {"epoch": 1.0, "tokens": 10, "seconds": 1.0, "train": math.exp(700), "valid": math.exp(700)}
    assert checked(RESULTS | {"checks": [diverged]})["checks"] == [diverged]
    for wrong in ([], {"seconds": 1}, RESULTS | {CHECKSUM: "0"}):
        with pytest.raises(UserError):
            checked(wrong)


def test_a_model_without_parameters_has_no_number_of_them():
    assert summary(RESULTS | {"parameters": 0}).splitlines()[1].startswith("3 s of training at 1,234,568 tokens/s")


def test_results_of_entities_are_checked_type_by_type():
    found = {"precision": 1.0, "recall": 0.5, "f1": 0.7, "found": 3}
    results = {
        "labeller": "crf", "task": "ner", "measure": "f1", "figures": {"test": 0.7}, "details": {}, "seed": 0,
        "seconds": 1.0, "labelling_seconds": 0.1, "device": "cpu", "words": {"test": 4},
    }  # fmt: skip
    assert "f1 70.00" in summary(checked(results))
    assert "3 found" in summary(checked(results | {"details": {"test": {"f1": 0.7, "types": {"PER": found}}}}))
    for wrong in ({}, {**found, "found": "x"}, {name: found[name] for name in ("recall", "f1", "found")}, 1):
        with pytest.raises(UserError, match="details"):
            checked(results | {"details": {"test": {"types": {"PER": wrong}}}})
