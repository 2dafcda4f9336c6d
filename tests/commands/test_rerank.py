"""N-best lists in the order of a weighted sum."""

import math
from pathlib import Path

import pytest
from command_line import command
from predictions import by_hand

import lmzoo
from lmzoo.commands import rerank
from lmzoo.commands.rerank import Hypothesis, best_first, totals
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.protocol.lines import scored

NBEST = """\
1 ||| a cat saw the dog ||| -1.0
1 ||| cat a the saw dog ||| -0.5
2 ||| ran dog the ||| -2
2 ||| the dog ran ||| -2.5
"""


def test_an_n_best_list_is_ordered_by_the_weighted_sum(run: Path, tmp_path: Path):
    (tmp_path / "nbest").write_text(NBEST)
    out = command(str(run), str(tmp_path / "nbest"), "--weights", "0.5", "2", main=rerank.main).out
    rows = [[part.strip() for part in row.split("|||")] for row in out.splitlines()]
    assert [row[1] for row in rows] == ["a cat saw the dog", "cat a the saw dog", "the dog ran", "ran dog the"]
    for _, text, scores, total in rows:
        other, logprob = map(float, scores.split())
        assert logprob == pytest.approx(sum(by_hand(run, text)), abs=1e-3)
        assert float(total) == pytest.approx(0.5 * logprob + 2 * other, abs=1e-3)
    (tmp_path / "long").write_text(NBEST.replace("-1.0", "-1234.56789"))
    assert " ||| -1234.56789 " in command(str(run), str(tmp_path / "long"), main=rerank.main).out
    first = command(str(run), str(tmp_path / "nbest"), "--weights", "0", "1", main=rerank.main).out.splitlines()
    assert [row.split(" ||| ")[1] for row in first[::2]] == ["cat a the saw dog", "ran dog the"]


def test_an_n_best_list_of_moses_is_read_as_one_of_scores_alone(run: Path, tmp_path: Path):
    (tmp_path / "nbest").write_text(NBEST)
    plain = command(str(run), str(tmp_path / "nbest"), "--weights", "0.5", "2", main=rerank.main).out
    rows = [row.split(" ||| ") for row in NBEST.splitlines()]
    (tmp_path / "moses").write_text("".join(f"{key} ||| {text} ||| LM0= {s} ||| -7.5\n" for key, text, s in rows))
    assert command(str(run), str(tmp_path / "moses"), "--weights", "0.5", "2", main=rerank.main).out == plain
    (tmp_path / "own").write_text(plain)
    again = command(str(run), str(tmp_path / "own"), "--weights", "0.5", "2", "0", main=rerank.main).out
    assert [row.split(" ||| ")[:2] for row in again.splitlines()] == [r.split(" ||| ")[:2] for r in plain.splitlines()]


def test_hypotheses_are_printed_as_they_are_listed(run: Path, tmp_path: Path):
    (tmp_path / "nbest").write_text("1 ||| The dog, ran ||| -1\n")
    out = command(str(run), "--tokenize", "ptb", str(tmp_path / "nbest"), main=rerank.main).out
    assert out.startswith("1 ||| The dog, ran ||| -1 ")
    logprob = float(out.split(" ||| ")[2].split()[1])
    assert logprob == pytest.approx(lmzoo.load(run).score(TOKENIZERS["ptb"]("The dog, ran")), abs=1e-3)


def test_unknown_words_that_decide_are_reported(run: Path, tmp_path: Path):
    (tmp_path / "nbest").write_text("7 ||| the dog saw zebra zebra zebra\n7 ||| the dog saw a cat\n")
    done = command(str(run), str(tmp_path / "nbest"), main=rerank.main)
    without = [
        line.logprob_of_known
        for line in scored(*lmzoo.load(run), ["the dog saw zebra zebra zebra", "the dog saw a cat"], "sentence")
    ]
    assert ("unknown words decide for 1 of 1 ids, 7 the first" in done.err) == (without[0] > without[1])
    assert without[0] > without[1]


def test_the_best_has_the_largest_weighted_sum():
    entries = [Hypothesis("1", "a b", [0.0]), Hypothesis("1", "a c", [1.0]), Hypothesis("2", "d", [0.0])]
    logprobs = [-1.0, -3.0, -9.0]  # from weight 0.5 on, the first is the best
    assert best_first(entries, totals(entries, logprobs, [0.45, 1.0])) == [[1, 0], [2]]
    assert totals([Hypothesis("1", "", [2.0])], [-math.inf], [0, 1]) == [2.0]


def test_several_best_hypotheses_are_reported(run: Path, tmp_path: Path):
    (tmp_path / "nbest").write_text("1 ||| the zebra\n1 ||| the yak\n1 ||| dog dog dog\n2 ||| a cat\n2 ||| the a\n")
    done = command(str(run), str(tmp_path / "nbest"), main=rerank.main)
    assert [row.split(" ||| ")[1] for row in done.out.splitlines()[:2]] == ["the zebra", "the yak"]
    assert "1 of 2 ids have several best hypotheses, 1 the first; ties keep the order of the list\n" in done.err


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("1 || a\n", [], "line 1: is not 'id ||| text ||| score … ||| total'"),
        ("1 ||| a ||| 1 ||| x\n", [], "line 1: is not"),
        ("1 ||| a ||| 1 ||| 2 ||| 3\n", [], "line 1: is not"),
        ("1\n", [], "line 1: is not"),
        ("1 ||| a ||| 1\n1 ||| b ||| x\n", [], "line 2: is not"),
        ("1 ||| a ||| 1\n1 ||| b\n", [], "line 2: has 0 scores, and line 1 has 1"),
        ("a b ||| -1.5\na ||| -2e-05\n", [], "text: every text is a number, so ids are missing"),
        ("1 ||| a ||| nan\n", [], "line 1: has a score that is not finite"),
        (NBEST, ["--weights", "1"], "--weights: give 2 numbers, the first for log p"),
        (NBEST, ["--weights", "1", "inf"], "--weights: give 2 numbers"),
        ("1 ||| a <eos>\n", [], "<eos> is added at the end"),
    ],
)
def test_mistakes(run: Path, tmp_path: Path, text: str, more: list[str], message: str):
    (tmp_path / "text").write_text(text)
    assert message in command(str(run), str(tmp_path / "text"), *more, main=rerank.main).refused()
