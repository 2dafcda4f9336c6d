"""scripts/checks/mutants.py: every mutant of its list can still be made, and names tests that are there."""

from pathlib import Path

import pytest
from mutants import ROOT, Mutant, outcome, read


def test_every_mutant_can_be_made_and_names_its_tests():
    listed = read()
    assert len(listed) > 120
    for mutant in listed:
        mutant.applied()
        assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in listed}) == len(listed)


@pytest.mark.parametrize("old", ["text that is gone", "import"])
def test_a_mutant_whose_text_is_not_there_once_is_refused(old: str):
    times = (ROOT / "lmzoo/api/model.py").read_text().count(old)
    assert times != 1
    with pytest.raises(ValueError, match=rf"lmzoo/api/model\.py: what: '{old}' is there {times} times"):
        Mutant("lmzoo/api/model.py", "what", old, "", []).applied()


@pytest.mark.parametrize(("body", "expected"), [("pass", "passed"), ("assert 0", "failed"),
                                                ("while True: pass", "timed out")])  # fmt: skip
def test_tests_without_end_are_distinguished_from_those_that_fail(tmp_path: Path, body: str, expected: str):
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    assert outcome(tmp_path, ["test_it.py"], 3) == expected
