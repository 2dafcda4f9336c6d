"""Subjects of commits: imperative, begun by a capital letter, at most 72 characters."""

import shutil
import subprocess
from pathlib import Path

import pytest

BASE = "991d69a5"
"""The last commit before these rules."""

IMPERATIVES = {
    "Address", "Bypass", "Compress", "Cross", "Discuss", "Dismiss", "Express", "Focus", "Pass", "Press", "Process",
    "Bring", "Embed", "Exceed", "Feed", "Seed", "Shed", "Speed",
}  # fmt: skip
"""Verbs that end as other forms do."""


def fault(subject: str) -> str | None:
    """Why a subject is against the rules; None where it is not."""
    verb = subject.split(" ", 1)[0]
    if len(subject) > 72:
        return f"has {len(subject)} characters, more than 72"
    if not verb[:1].isupper():
        return "does not begin with a capital letter"
    if verb.endswith(("s", "ed", "ing")) and verb not in IMPERATIVES:
        return f"begins with {verb}, which is not imperative"
    return None


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ("Reject a list where text is expected", True),
        ("Process texts in blocks", True),
        ("Embed lines", True),
        ("rejects a list", False),
        ("Rejects a list", False),
        ("Rejected a list", False),
        ("Rejecting a list", False),
        ("Reject " + "x" * 65, True),
        ("Reject " + "x" * 66, False),
    ],
)
def test_a_subject_is_imperative_and_short(subject: str, allowed: bool) -> None:
    assert (fault(subject) is None) == allowed


def test_new_commits_have_imperative_subjects() -> None:
    git, root = shutil.which("git"), Path(__file__).parents[1]
    if git is None or not (root / ".git").exists():
        pytest.skip("no git history")
    log = [git, "-C", str(root), "log", "--no-merges", "--format=%s", f"{BASE}..HEAD"]
    found = subprocess.run(log, capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(f"no commit {BASE} in the history")
    assert [f"{subject}: {why}" for subject in found.stdout.splitlines() if (why := fault(subject))] == []
