import re
from pathlib import Path

import pytest
from command_line import command

from lmzoo.commands.cluster import main
from lmzoo.words.merging import read_paths

# Three animals, each before three verbs. <eos> has neighbours like those of no other word.
TEXT = "\n".join(f"{who} {does}" for who in ("cat", "cat", "dog", "cow") for does in ("eats", "sleeps", "runs"))


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(f"{TEXT}\n")
    return tmp_path / "text.txt"


def test_prints_and_writes_the_clusters_of_a_file(text: Path):
    out = text.with_name("clusters.tsv")
    printed = command("--text", str(text), "--clusters", "3", str(out), main=main).out
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    groups = {number: [(word, int(count)) for word, n, count in rows if n == number] for _, number, _ in rows}
    assert groups["2"] == [("<eos>", 12)]
    animals, verbs = sorted((groups["0"], groups["1"]), key=lambda words: words[0][0])
    assert animals == [("cat", 6), ("dog", 3), ("cow", 3)]
    assert verbs == [("eats", 4), ("sleeps", 4), ("runs", 4)]
    assert "cat dog cow\n" in printed
    assert "3 clusters of 7 words in 36 tokens: average mutual information 1.0986 nats" in printed  # log 3


def test_writes_the_paths_of_clusters(text: Path):
    out = text.with_name("paths")
    single = ["--text", str(text), "--clusters", "1", "--paths", str(out)]
    assert "--paths: a single cluster has none" in command(*single, main=main).refused()
    assert command("--text", str(text), "--clusters", "3", "--paths", str(out), main=main).code == 0
    assert out.read_text().splitlines()[0].split("\t")[1:] in (["cat", "6"], ["eats", "4"])
    found = read_paths(out)
    assert len(found) == 7
    assert found["cat"] == found["cow"] != found["eats"]
    assert sorted(map(len, {found["cat"], found["eats"], found["<eos>"]})) == [1, 2, 2]


@pytest.mark.usefixtures("text")
def test_clusters_the_training_text_of_a_named_corpus(tmp_path: Path):
    printed = command("--corpus", "markov", "--clusters", "1", str(tmp_path / "out"), main=main).out
    assert len((tmp_path / "out").read_text().splitlines()) == 101
    assert "… (101 words)" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "{folder}/absent", "--clusters", "2", "{folder}/out"], "absent: no such file"),
        (["--text", "{folder}/text.txt", "--clusters", "8", "{folder}/out"], "--clusters=8: must be 1 to 7"),
        (["--text", "{folder}/text.txt", "--clusters", "2", "{folder}"], "cannot be written .is a folder"),
        (["--text", "{folder}/text.txt", "--clusters", "2", "{folder}/no/out"], "cannot be written .no such folder"),
        (["--text", "{folder}/text.txt", "--clusters", "2", "{folder}/../{name}/text.txt"], "is the text to be read"),
    ],
)
def test_mistakes_are_reported_in_one_line(text: Path, options: list[str], message: str):
    line = command(*(o.format(folder=text.parent, name=text.parent.name) for o in options), main=main).refused()
    assert re.search(message, line)
    assert not (text.parent / "out").exists()
    assert text.read_text() == f"{TEXT}\n"
