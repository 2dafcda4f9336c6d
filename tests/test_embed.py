"""The commands that write and print embeddings of a text, and print which words follow which."""

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo import embed, load, transitions
from lmzoo.embed import EmbeddedText
from lmzoo.models.lds.directions import singular_words
from lmzoo.models.lds.lds import LinearDynamicalSystem

LINES = ["w1 w2 w3", "w4", "", "w1 w5 w6 w7 w8 w1", "w2 w9"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("lds", "ngram"):
        done = command(*TEXT, *QUICK, *MODELS[name], f"run_dir={folder / name}")
        assert done.code == 0, done
    return folder / "lds"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path / "text.txt"


def test_writes_the_embedding_of_every_token_in_the_order_of_the_text(run: Path, text: Path):
    out = text.with_name("out.npz")
    done = command(str(run), str(text), str(out), "--device", "cpu", main=embed.main)
    assert done.code == 0, done
    assert "12 tokens of 4 lines, 6 dimensions" in done.out
    written = np.load(out)
    assert written["words"].tolist() == " ".join(LINES).split()
    assert written["lines"].tolist() == [0] * 3 + [1] + [3] * 6 + [4] * 2
    model, vocabulary = load(run)
    assert isinstance(model, LinearDynamicalSystem)
    expected = torch.cat([model.embed(vocabulary.encode([line])[None])[0, :-1] for line in LINES]).detach()
    torch.testing.assert_close(torch.from_numpy(written["embeddings"]), expected)
    first, again = written["embeddings"][[4, 9]]
    assert not np.allclose(first, again)  # w1 twice in one line


def test_neighbours_are_the_nearest_tokens_of_other_words():
    angles = torch.tensor([0.0, 0.1, -0.05, 1.5, 0.3, 0.2])
    text = EmbeddedText(
        ["bank", "shore", "bank", "money", "shore", "river"], torch.tensor([0, 0, 1, 1, 1, 1]),
        torch.stack([angles.cos(), angles.sin()], dim=1),
    )  # fmt: skip
    assert [place for _, place in text.neighbours(0, 3)] == [1, 5, 3]
    assert [place for _, place in text.neighbours(0, 9)] == [1, 5, 3]
    assert [cosine for cosine, _ in text.neighbours(0, 3)] == pytest.approx(angles[[1, 5, 3]].cos().tolist())
    assert text.passage(2) == "[bank] money shore river"
    assert text.passage(1) == "bank [shore]"


def test_prints_the_neighbours_of_each_occurrence(run: Path, text: Path):
    out = command(str(run), str(text), "--neighbours", "w1", main=embed.main).out.splitlines()
    assert [line for line in out if not line.startswith("  ")] == [
        "line 1: [w1] w2 w3", "line 4: [w1] w5 w6 w7", "line 4: w6 w7 w8 [w1]",
    ]  # fmt: skip
    shown = [line.split("[")[1].split("]")[0] for line in out if line.startswith("  ")]
    assert len(shown) == 15
    assert all("w1" not in shown[i : i + 5] and len(set(shown[i : i + 5])) == 5 for i in (0, 5, 10))
    text.write_text("w1 w2\n" * 7)
    assert command(str(run), str(text), "--neighbours", "w1", main=embed.main).out.endswith("… and 2 more of 'w1'\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["{run}/../ngram", "{text}", "out.npz"],
            "ngram: is a run of model=ngram, and this command needs a model with vectors of tokens",
        ),
        (["{run}/absent", "{text}", "out.npz"], "absent"),
        (["{run}", "{text}.absent", "out.npz"], "no such file"),
        (["{run}", "{text}", "{text}/no/out.npz"], "cannot be written (no such folder)"),
        (["{run}", "{text}", "."], "cannot be written (is a folder)"),
        (["{run}", "{text}", "{text}"], "is the text to be read; name another file"),
        (["{run}", "{text}", "{run}/best.pt"], "is a part of the run in"),
        (["{run}", "{text}"], "required"),
        (["{run}", "{text}", "out.npz", "--neighbours", "w1"], "not allowed with"),
        (["{run}", "{text}", "--neighbours", "w15"], "does not contain 'w15'"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Path, text: Path, arguments: list[str], message: str):
    done = command(*(argument.format(run=run, text=text) for argument in arguments), main=embed.main)
    assert message in done.refused()


def test_prints_the_words_that_follow(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transitions, "COMMON", 10)
    model, vocabulary = load(run)
    parts = (model.A.double(), model.C[:10].double(), model.spherical.double())
    expected = [
        f"{sigma:.2f}  {'  →  '.join(' '.join(vocabulary.words[word] for word in end) for end in ends)}"
        for sigma, *ends in singular_words(*parts, pairs=10, words=6)
    ]
    assert command(str(run), main=transitions.main).out.splitlines() == expected
    assert len(expected) == 12
    assert "needs a linear dynamical system" in command(f"{run}/../ngram", main=transitions.main).refused()


def test_words_of_which_one_is_very_long_are_refused(run: Path, text: Path, monkeypatch: pytest.MonkeyPatch):
    """numpy takes 4 bytes for each of the 12 words' 2 signs."""
    arguments = [str(run), str(text), str(text.with_name("out.npz")), "--device", "cpu"]
    monkeypatch.setattr(embed, "MOST_BYTES", 12 * 2 * 4)
    assert command(*arguments, main=embed.main).code == 0
    text.write_text(text.read_text().replace("w9", "w19"))
    line = command(*arguments, main=embed.main).refused()
    assert "text.txt, line 5: a word of 3 signs" in line


@pytest.mark.parametrize(
    ("error", "message"),
    [(MemoryError(), "not enough memory"), (OSError(errno.ENOSPC, "No space left on device"), "No space left")],
)
def test_a_file_that_finds_no_room_is_told_in_one_line(
    run: Path, text: Path, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    assert message in command(str(run), str(text), str(text.with_name("out.npz")), main=embed.main).refused()
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]
