"""The commands that write and print embeddings of a text, and print which words follow which."""

import csv
import errno
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command, edit

from lmzoo import load
from lmzoo.commands import embed
from lmzoo.core import files
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.protocol.encoder import EmbeddedText

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


def table(array: Path) -> list[tuple[int, str]]:
    """The line and the word of each row."""
    with array.with_suffix(".tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [(int(row["line"]), row["word"]) for row in rows]


def test_writes_the_embedding_of_every_token_in_the_order_of_the_text(run: Path, text: Path):
    out = text.with_name("out.npy")
    done = command(str(run), str(text), str(out), "--device", "cpu", main=embed.main)
    assert done.code == 0, done
    assert "12 tokens of 4 lines, 6 dimensions" in done.out
    written = np.load(out)
    assert table(out) == [*zip([0] * 3 + [1] + [3] * 6 + [4] * 2, " ".join(LINES).split(), strict=True)]
    model, vocabulary = load(run)
    assert isinstance(model, LinearDynamicalSystem)
    expected = torch.cat([model.embed(vocabulary.encode([line])[None])[0, :-1] for line in LINES]).detach()
    torch.testing.assert_close(torch.from_numpy(written), expected)
    first, again = written[[4, 9]]
    assert not np.allclose(first, again)  # w1 twice in one line


def test_words_that_the_model_does_not_know_are_reported(folder: Path):
    Path("train").write_text("a b\nb a b\n")
    Path("text").write_text("a never\n\nb <unk>\n")
    own = ["corpus=text", "corpus.train=train", "corpus.valid=train", "corpus.unknown=true"]
    done = command(*own, "model=hmm", "model.states=2", "model.iterations=1", "run_dir=run")
    assert done.code == 0, done
    for arguments in (["out.npy"], ["--neighbours", "b"]):
        done = command("run", "text", *arguments, main=embed.main)
        assert done.err == "warning: text: 2 of 4 tokens are unknown words, which the model reads as <unk>\n"
    assert not command("run", "train", "out.npy", main=embed.main).err


def test_a_word_with_a_quote_is_a_cell_of_its_own(tmp_path: Path):
    words, file = ['"', "a", '"b', 'c"'], tmp_path / "out.npy"
    embed.write([EmbeddedText(words, torch.arange(4), torch.zeros(4, 2))], file)
    assert table(file) == [*enumerate(words)]


def test_vectors_that_are_no_numbers_are_not_written(run: Path, text: Path, tmp_path: Path):
    broken, out = shutil.copytree(run, tmp_path / "broken"), tmp_path / "out.npy"
    edit(broken / "best.pt", lambda saved: saved["model"].update(spherical=saved["model"]["spherical"] + torch.inf))
    assert "vectors of tokens are not finite" in command(str(broken), str(text), str(out), main=embed.main).refused()
    assert not out.exists()


def test_neighbours_are_the_nearest_tokens_of_other_words():
    angles = torch.tensor([0.0, 0.1, -0.05, 1.5, 0.3, 0.2])
    text = EmbeddedText(
        ["bank", "shore", "bank", "money", "shore", "river"], torch.tensor([0, 0, 1, 1, 1, 1]),
        torch.stack([angles.cos(), angles.sin()], dim=1),
    )  # fmt: skip
    first = text.embeddings[0]
    assert [place for _, place in text.neighbours(first, 3, "bank")] == [1, 5, 3]
    assert [place for _, place in text.neighbours(first, 9, "bank")] == [1, 5, 3]
    assert [place for _, place in text.neighbours(first, 3, "")] == [0, 1, 5]
    nearest = text.neighbours(first, 3, "bank")
    assert [cosine for cosine, _ in nearest] == pytest.approx(angles[[1, 5, 3]].cos().tolist())
    assert text.passage(2, 3) == "[bank] money shore river"
    assert text.passage(3, 1) == "bank [money] shore"
    assert text.passage(1, 3) == "bank [shore]"


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
            ["{run}/../ngram", "{text}", "out.npy"],
            "ngram: is a run of model=ngram, and this command needs a model with vectors of tokens",
        ),
        (["{run}/absent", "{text}", "out.npy"], "absent"),
        (["{run}", "{text}.absent", "out.npy"], "no such file"),
        (["{run}", "{text}", "{text}/no/out.npy"], "cannot be written (no such folder)"),
        (["{run}", "{text}", "."], "cannot be written (is a folder)"),
        (["{run}", "{text}", "{text}"], "is the text to be read; name another file"),
        (["{run}", "{text}", "{run}/best.pt"], "is a part of the run in"),
        (["{run}", "{text}", "out.npz"], "out.npz: does not end in .npy"),
        (["{run}", "{text}"], "either a file to write or --neighbours"),
        (["{run}", "{text}", "out.npy", "--neighbours", "w1"], "either a file to write or --neighbours"),
        (["{run}", "{text}", "--neighbours", "w15"], "does not contain 'w15'"),
    ],
)
def test_mistakes_are_reported_in_one_line(run: Path, text: Path, arguments: list[str], message: str):
    done = command(*(argument.format(run=run, text=text) for argument in arguments), main=embed.main)
    assert message in done.refused()


def test_a_text_is_embedded_by_parts_of_whole_lines(run: Path, text: Path, monkeypatch: pytest.MonkeyPatch):
    """The file is the same with parts of at most 5 tokens, `<eos>` among them; a longer line is a part by itself."""
    whole, parted = text.with_name("whole.npy"), text.with_name("parted.npy")
    assert command(str(run), str(text), str(whole), "--device", "cpu", main=embed.main).code == 0
    sizes, at_once = [], embed.embed_lines
    monkeypatch.setattr(embed, "PART_TOKENS", 5)
    monkeypatch.setattr(embed, "embed_lines", lambda model, part: sizes.append(len(part)) or at_once(model, part))
    done = command(str(run), str(text), str(parted), "--device", "cpu", main=embed.main)
    assert "12 tokens of 4 lines, 6 dimensions" in done.out
    assert sizes == [4, 3, 7, 3]
    assert table(parted) == table(whole)
    torch.testing.assert_close(*(torch.from_numpy(np.load(file)) for file in (parted, whole)))


def test_a_large_text_is_embedded_into_an_array_that_can_be_mapped(
    run: Path, text: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its lines come in several pieces, of which some end inside a line."""
    monkeypatch.setattr(files, "LONGEST_WORD", 64)
    spaces = " " * 200
    text.write_text("".join(f"{' '.join(['w1', 'w2'] * (200 if i == 2 else 20))}{spaces}\n\n" for i in range(5)))
    out = text.with_name("out.npy")
    done = command(str(run), str(text), str(out), "--device", "cpu", main=embed.main)
    assert "560 tokens of 5 lines, 6 dimensions" in done.out, done
    mapped = np.load(out, mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, np.load(out))
    lines, words = zip(*table(out), strict=True)
    assert [*Counter(lines).items()] == [(0, 40), (2, 40), (4, 400), (6, 40), (8, 40)]
    assert words == ("w1", "w2") * 280


@pytest.mark.parametrize(
    ("error", "message"),
    [(MemoryError(), "not enough memory"), (OSError(errno.ENOSPC, "No space left on device"), "No space left")],
)
def test_a_file_that_finds_no_room_is_reported_in_one_line(
    run: Path, text: Path, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fail)
    assert message in command(str(run), str(text), str(text.with_name("out.npy")), main=embed.main).refused()
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_a_line_that_fills_the_memory_is_refused_with_the_limit(run: Path, text: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embed, "PART_TOKENS", 2)
    monkeypatch.setattr(embed, "LONGEST_LINE", 5)
    line = command(str(run), str(text), "new.npy", main=embed.main).refused()
    assert f"{text}: a line has more than 5 words; part it" in line
    assert not text.with_name("new.npy").exists()
