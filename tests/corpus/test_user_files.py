"""What a run writes of its words is read again exactly; a user's list may be of any editor, or an ARPA file."""

from collections import Counter
from pathlib import Path

import pytest
from command_line import QUICK, command

from lmzoo.commands import evaluate
from lmzoo.core.errors import UserError
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import joined
from lmzoo.corpus.user_files import read_vocabulary
from lmzoo.runs.directory import Run

MARK = "\ufeff"
LINES = [
    f"the {MARK}cat saw the cat",
    f"a dog{MARK} \\data\\ ran \\1-grams: fast",
    f"{MARK} the {MARK}{MARK} dog \u200f\u200b saw {MARK}the {MARK}the",
    "ngram 1=3 \\end\\ -1.5 <UNK> cat\u0301 c\u00e1t",
] * 8
"""The third begins with a mark, which is dropped there, as between files that were put together."""


def words_of(lines: list[str]) -> list[str]:
    """The words of a vocabulary, by the rule alone."""
    counts = Counter(word for line in lines for word in line.removeprefix(MARK).split())
    return ["<eos>", *(word for word, _ in counts.most_common())]


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("".join(f"{line}\n" for line in LINES), newline="")
    files = [f"corpus.{split}=text" for split in ("train", "valid", "test")]
    return ["corpus=text", *files, "model=ngram", "model.order=2", "model.discount_fallback=true", *QUICK]


@pytest.mark.parametrize("vocabulary", ["first", "first/vocabulary.txt"])
def test_the_words_of_a_run_are_read_as_it_wrote_them(vocabulary: str, options: list[str]):
    assert command(*options, "run_dir=first").code == 0
    done = command(*options, f"corpus.vocabulary={vocabulary}", "run_dir=second")
    assert done.code == 0, done
    assert "unknown" not in done.err
    assert Run(Path("second")).vocabulary().words == Run(Path("first")).vocabulary().words == words_of(LINES)
    assert Path("second/vocabulary.txt").read_bytes() == Path("first/vocabulary.txt").read_bytes()
    figures = [Run(Path(run)).results()["perplexity"]["valid"] for run in ("first", "second")]  # pyright: ignore[reportOptionalSubscript]
    assert figures[0] == figures[1]


@pytest.mark.parametrize("unit", ["char", "bpe", "unigram"])
def test_the_pieces_of_a_run_are_read_as_it_wrote_them(unit: str, options: list[str]):
    if unit != "char":
        pytest.importorskip("sentencepiece")
    form = [f"corpus.unit={unit}", *(["corpus.subwords=290"] if unit != "char" else [])]
    assert command(*options, *form, "run_dir=first").code == 0
    assert any(MARK in word for word in Run(Path("first")).vocabulary().words)
    done = command("first", "valid", main=evaluate.main)
    assert done.code == 0, done
    assert command(*options, *form, "corpus.vocabulary=first", "run_dir=second").code == 0
    assert Path("second/vocabulary.txt").read_bytes() == Path("first/vocabulary.txt").read_bytes()
    assert (unit == "char") != Path("second/scores.txt").exists()
    assert unit == "char" or Path("second/scores.txt").read_bytes() == Path("first/scores.txt").read_bytes()


def test_the_labels_of_a_run_are_read_as_it_wrote_them(options: list[str]):
    labels = ["good", f"{MARK}good", "a\u2028b", "x\x85y", "\u200f"]
    text = "".join(f" {labels[k % 5]}\t{line}\n" for k, line in enumerate(LINES))
    Path("text").write_text(text, newline="")
    given = [*options[:4], "corpus.condition=true", "corpus.context=sentence", "model=rnn", "model.embedding=4"]
    given += ["model.hidden=4", *QUICK]
    assert command(*given, "run_dir=first").code == 0
    assert sorted(Run(Path("first")).vocabulary().conditions) == sorted(labels)
    done = command(*given, "corpus.vocabulary=first", "run_dir=second")
    assert done.code == 0, done
    assert Path("second/conditions.txt").read_bytes() == Path("first/conditions.txt").read_bytes()


ARPA = (
    "made by hand\n\n\\data\\\nngram 1=6\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1 \ta\t-1\n-1\tten\u00a0km\n-1\t\\end\\\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{MARK}a\r\nb\r\n", ["a", "b"]),
        (f"a\n{MARK}b\nb", ["a", f"{MARK}b", "b"]),  # a word of a text, in which it may be inside a line
        ("a\n\\data\\\n\\1-grams:\n", ["a", "\\data\\", "\\1-grams:"]),
        (f"<eos>\na\n{MARK}b\n\\data\\\n\\1-grams:\n", ["a", f"{MARK}b", "\\data\\", "\\1-grams:"]),
        (f"{ARPA}-2 <UNK> 0\n\n\\end\\\n", ["a", "\\end\\", "<unk>"]),  # no text has a word with white space
        (f"{MARK}\\data\\\r\nngram  1 = 2\r\n\r\n\\1-grams:\r\n-1 <s>\r\n-1 </s>\r\n\r\n\\end\\\r\n", []),
    ],
)
def test_a_list_of_words(text: str, words: list[str], tmp_path: Path):
    (tmp_path / "list").write_text(text, newline="")
    assert read_vocabulary(str(tmp_path / "list")).words == ["<eos>", *words]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a b\nc\n", "corpus.vocabulary: .*list: line 1 is not one word; write a word a line"),
        (b"<eos>\n\na\n", "corpus.vocabulary: .*list: line 2 is not one word"),
        ("a\nb\x85\n".encode(), "list: line 2 is not one word"),
        (b"a\nb\na\n", "corpus.vocabulary: .*list: a vocabulary is a list of distinct words"),
        (b"<eos>\na\xff\n", r"list: not UTF-8 \(line 2, byte 7\)"),
        (b"a\n\\data\\\nngram 1=3\n", "list: line 3 is not one word"),
        (b"", "list: empty"),
    ],
)
def test_what_is_no_list_of_words(data: bytes, problem: str, tmp_path: Path):
    (tmp_path / "list").write_bytes(data)
    with pytest.raises(UserError, match=problem):
        read_vocabulary(str(tmp_path / "list"), Form())


@pytest.mark.parametrize("corpus", ["text", "pydoc"])
def test_a_list_that_lacks_words_of_the_text(corpus: str, options: list[str]):
    Path("list").write_text("the\n")
    files = options[1:4] if corpus == "text" else []
    refused = command(f"corpus={corpus}", *files, "model=ngram", "corpus.vocabulary=list").refused()
    assert "is not in the vocabulary, which has no <unk>; replace it, or set corpus.vocabulary to one" in refused
    assert "corpus.unknown" not in refused  # which excludes corpus.vocabulary


def test_bytes_that_no_line_has_are_no_part_of_one():
    assert joined(["▁a", "<0x0A>", "<0x00>", "<0xC3>", "<0xA9>", "<0x0D>"]) == "a\ufffd\ufffdé\ufffd"
