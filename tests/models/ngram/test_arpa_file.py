"""ARPA files that are malformed, too large, or whose probabilities do not sum to one."""

import bz2
import gzip
import math
import os
from itertools import product
from pathlib import Path

import pytest
import torch
from arpa_model import WORDS, model_of
from arpa_text import KENLM

from lmzoo.core import files
from lmzoo.core.errors import UserError
from lmzoo.models.ngram.arpa import check_sums
from lmzoo.models.ngram.arpa_file import holds_arpa, read_arpa
from lmzoo.models.ngram.table import NGramTable


def replaced(old: str, new: str) -> str:
    assert KENLM.count(old) == 1
    return KENLM.replace(old, new)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, r"expected \\data\\, but the file ends here"),
        ("x\n" * 5000, 1001, r"expected \\data\\ by now"),
        ("\\data\\\n\\1-grams:\n", 2, r"expected ngram 1=…, found '\\1-grams:'"),
        (replaced("ngram 2=4", "ngram 3=4"), 3, "expected the number of 2-grams, found 'ngram 3=4'"),
        (replaced("\\1-grams:", "\\one-grams:"), 6, r"expected \\1-grams:, found '\\one-grams:'"),
        ("\\data\\\nngram 1=0\n\\1-grams:\n\\end\\\n", 3, "expected </s> among the 1-grams"),
        (replaced("ngram 1=5", "ngram 1=6"), 12, "expected 1 more 1-grams, .* found ''"),
        (replaced("ngram 2=4", "ngram 2=3"), 17, r"expected \\3-grams:, found '-0.6 a </s> 0'"),
        (replaced("-0.8\tb\t-0.3", "-0.8\tb\t-0.3\tc"), 11, "expected 1 more 1-grams, .* found '-0.8 b -0.3 c'"),
        (KENLM + "\n" + KENLM, 25, r"expected nothing after \\end\\, found '\\data\\'"),
        (replaced("-0.9\ta", "x\ta"), 10, "expected a log10 probability of at most 0, found 'x'"),
        (replaced("-0.9\ta", "0.9\ta"), 10, "expected a log10 probability of at most 0, found '0.9'"),
        (replaced("-0.9\ta", "nan\ta"), 10, "expected a log10 probability of at most 0, found 'nan'"),
        (replaced("b\t-0.1", "b\t--1"), 15, "expected a log10 backoff, found '--1'"),
        (replaced("-0.8\tb", "-0.8\ta"), 11, "expected another 1-gram, found 'a' again"),
        (replaced("-1\t</s>", "-1\tz"), 11, "expected </s> among the 1-grams"),
        (replaced("a </s>\t0", "a z\t0"), 17, "expected words that are among the 1-grams, found 'z'"),
        (replaced("-0.6\ta </s>", "-0.6\tb </s>"), 17, "expected another 2-gram, found that of line 16 again"),
        (replaced("<s> a b", "b a b"), 20, "expected the first 2 words of this 3-gram among the 2-grams"),
        (replaced("ngram 3=2", "ngram 101=2"), 4, "expected the number of 3-grams, found 'ngram 101=2'"),
        (replaced("ngram 3=2", "ngram 3=" + "9" * 5000), 4, r"expected \\1-grams:, found 'ngram 3=9+…'"),
        (replaced("\\1-grams:\n", "\n" * 2000), 1004, r"expected ngram 1=… by now"),
        (replaced("-0.9\ta", f"-0.9\t{'a' * 70_000}"), 10, "expected a line of fewer than 65,536 bytes"),
        (replaced("-0.9\ta\t-0.4", "0.0000001\ta\t-0.4"), 10, "expected a log10 probability of at most 0"),
        (KENLM[: KENLM.index("-0.05")], 21, "expected 1 more 3-grams, but the file ends here"),
        (KENLM[: KENLM.index("\\end")], 23, r"expected \\end\\, but the file ends here"),
    ],
)
def test_a_malformed_file_is_shown_where(tmp_path: Path, text: str, line: int, problem: str):
    path = tmp_path / "bad.arpa"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"bad\.arpa, line {line}: {problem}"):
        read_arpa(path)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"mmap lm http://kheafield.com/code format version 5\n\0", "is a binary file of KenLM; give the ARPA file"),
        (KENLM.encode("utf-16"), "is UTF-16, no ARPA file; convert it first"),
        (bz2.compress(KENLM.encode()), "is bzip2, no ARPA file; decompress it first"),
    ],
)
def test_what_is_no_arpa_file_is_reported_as_what_it_is(tmp_path: Path, data: bytes, problem: str):
    (tmp_path / "m.arpa").write_bytes(data)
    with pytest.raises(UserError, match=rf"m\.arpa: {problem}"):
        read_arpa(tmp_path / "m.arpa")
    if data.startswith(b"mmap"):
        with pytest.raises(UserError, match=problem):
            holds_arpa(tmp_path / "m.arpa")
    else:
        assert not holds_arpa(tmp_path / "m.arpa")


def test_a_file_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(UserError, match="no such file"):
        read_arpa(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read"):
        read_arpa(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not an ordinary file"):
        read_arpa(tmp_path / "pipe")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(KENLM.encode())[:-20])
    with pytest.raises(UserError, match="no whole file of gzip; pack it again"):
        read_arpa(tmp_path / "cut.gz")
    (tmp_path / "latin").write_bytes(KENLM.replace("\tb", "\té").replace(" b", " é").encode("latin-1"))
    with pytest.raises(UserError, match=r"line 11: expected UTF-8"):
        read_arpa(tmp_path / "latin")


@pytest.mark.parametrize("repeated", ["-1 a\n", "\n", "a"])
def test_a_file_that_inflates_without_measure_is_refused_early(
    repeated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """20 MB of which gzip makes 20 kB; what is read of them is counted."""
    monkeypatch.setattr(files, "SMALL", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(
        gzip.compress(b"\\data\\\nngram 1=90000000\n\n\\1-grams:\n" + repeated.encode() * (20_000_000 // len(repeated)))
    )
    inflated: list[int] = []
    whole = gzip.GzipFile.read

    def read(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        block = whole(file, size)
        inflated.append(len(block))
        return block

    monkeypatch.setattr(gzip.GzipFile, "read", read)
    with pytest.raises(UserError, match=r"line \d+: |more than 50 times as large"):
        read_arpa(tmp_path / "bomb.gz")
    assert sum(inflated) < 2_000_000


def total(table: NGramTable, history: list[int]) -> float:
    """Σ_w p(w | h), by the definition of backing off."""
    rows = {(word,): word for word in range(table.vocabulary_size)}
    for key in table.keys.tolist():
        prefix = next(words for words, row in rows.items() if row == key // table.vocabulary_size)
        rows[*prefix, key % table.vocabulary_size] = len(rows)

    def p(word: int, h: tuple[int, ...]) -> float:
        if (*h, word) in rows:
            return math.exp(table.logprob[rows[*h, word]])
        backoff = table.backoff[rows[h]] if h in rows else torch.tensor(0.0)
        return math.exp(backoff) * p(word, h[1:])

    return sum(p(word, tuple(history)) for word in range(table.vocabulary_size))


def test_probabilities_that_do_not_sum_to_one_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The file made by hand has sums below one. Of all of them the one told is the farthest off."""
    with caplog.at_level("WARNING"):
        model_of(KENLM, WORDS, tmp_path)
    (message,) = caplog.messages
    words, table = read_arpa(tmp_path / "model.arpa")
    sums = {h: total(table, list(h)) for h in product(range(len(words)), repeat=2)}
    (farthest,) = {
        f"{value:.4g}" for value in sums.values() if abs(value - 1) == max(abs(v - 1) for v in sums.values())
    }
    assert message.endswith(f"sum to {farthest}, not to 1")


@pytest.mark.parametrize("file", ["trigram", "pruned"])
def test_files_of_lmplz_sum_to_one(file: str, caplog: pytest.LogCaptureFixture):
    path = Path(__file__).parent / "lmplz" / f"{file}.arpa"
    words, table = read_arpa(path)
    check_sums(str(path), words, table)
    assert not caplog.messages
    rows = torch.arange(len(table.backoff))
    contexts = table.contexts(rows, words.index("<unk>"))
    again = rows.new_zeros(len(rows)) + contexts[:, 0]
    for column in contexts.unbind(1)[1:]:
        longer = table.child(again, column)
        again = torch.where(longer >= 0, longer, column)
    assert torch.equal(again, rows)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("-0.35\ta b\t-0.1", "0\ta b\t-0.1", "a"),  # p(b | a) = 1, p(</s> | a) = 0.25
        ("-0.8\tb\t-0.3", "-0.8\tb\t40", "b"),
        ("-0.9\ta\t-0.4", "0\ta\t-0.4", "a b"),  # p(a | a b) is high
    ],
)
def test_probabilities_that_sum_to_far_more_than_one_are_refused(tmp_path: Path, old: str, new: str, after: str):
    with pytest.raises(UserError, match=rf"of all words after '.*{after}' sum to .*; those of a model sum to 1"):
        model_of(replaced(old, new), WORDS, tmp_path)


def test_a_file_of_srilm_s_that_sums_to_one_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """-99 for <s>, no <unk>, six digits, no backoff where nothing is left for other words."""
    unigrams = "-0.30103\t</s>\n-99\t<s>\t-0.1760913\n-0.60206\ta\t-99\n-0.60206\tb\n"
    bigrams = "-0.30103\t<s> a\n-0.30103\ta a\n-0.60206\ta b\n-0.60206\ta </s>\n"
    text = f"\\data\\\nngram 1=4\nngram 2=4\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n{bigrams}\n\\end\\\n"
    model = model_of(text, ["<eos>", "a", "b"], tmp_path)
    assert not caplog.messages
    assert float(model.predict(model.initial_state(1)).exp().sum()) == pytest.approx(1, abs=1e-6)
