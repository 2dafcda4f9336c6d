"""What came out of runs, in words."""

import json
import math
from pathlib import Path

import pytest

from lmzoo.core.checksums import CHECKSUM, with_checksum
from lmzoo.core.errors import UserError
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import summary
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


def test_results_are_those_that_a_run_wrote(tmp_path: Path):
    (tmp_path / "results.json").write_text(json.dumps(with_checksum(RESULTS)))
    assert Run(tmp_path).results() == RESULTS
    for wrong in ([], RESULTS, with_checksum(RESULTS) | {"seed": 4}, RESULTS | {CHECKSUM: "0"}):
        (tmp_path / "results.json").write_text(json.dumps(wrong))
        with pytest.raises(UserError, match="changed since the run wrote it"):
            Run(tmp_path).results()


def test_a_model_without_parameters_has_no_number_of_them():
    assert summary(RESULTS | {"parameters": 0}).splitlines()[1].startswith("3 s of training at 1,234,568 tokens/s")
