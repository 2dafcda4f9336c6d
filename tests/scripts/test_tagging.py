"""What scripts/tagging.py does before and after the embeddings."""

import pytest
import tagging
import torch
from tagging import Tags, accuracy, most_frequent_tag, normalise, read_conll2000, read_conllu, train_tagger, windowed


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("The", "the"),
        ("1,000.5", "N"),
        ("1\\/2", "N"),
        ("10:30", "N"),
        ("30-year", "30-year"),
        ("--", "--"),
        (".", "."),
    ],
)
def test_words_are_as_in_penn_treebank(word: str, expected: str):
    assert normalise(word) == expected


def test_conll_2000():
    lines = ["Sales NNS B-NP", "rose VBD B-VP", "5 CD B-NP", "", "He PRP B-NP", ""]
    assert read_conll2000(lines) == [[("sales", "NNS"), ("rose", "VBD"), ("N", "CD")], [("he", "PRP")]]


def test_conllu_leaves_out_what_is_no_token():
    rows = ["# text", "1\tI\tI\tPRON\tPRP", "2-3\tdon't\t_\t_\t_", "2\tdo\tdo\tAUX\tVBP", "3\tn't\tnot\tPART\tRB",
            "3.1\tsay\tsay\tVERB\tVB", "", "# new", "1\t12\t12\tNUM\tCD", ""]  # fmt: skip
    assert read_conllu(rows) == [[("i", "PRON"), ("do", "AUX"), ("n't", "PART")], [("N", "NUM")]]


def test_most_frequent_tag():
    train = [[("a", "X"), ("a", "Y"), ("a", "Y"), ("b", "X"), ("c", "X")]]
    assert most_frequent_tag(train, [[("a", "Y"), ("a", "X"), ("b", "X"), ("new", "X"), ("new", "Y")]]) == 3 / 5


def test_windows_end_with_the_line():
    rows = torch.arange(1.0, 6.0)[:, None]
    lines = torch.tensor([0, 0, 0, 1, 1])
    assert windowed(rows, lines, 0).tolist() == rows.tolist()
    assert windowed(rows, lines, 1).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0], [0, 4, 5], [4, 5, 0]]


def test_a_window_does_not_reach_round_the_text():
    assert windowed(torch.ones(3, 1), torch.zeros(3), 2).tolist() == [[0, 0, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 0, 0]]


def test_the_tagger_learns_what_no_linear_one_can(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tagging, "EPOCHS", 10)
    x = torch.randn(6000, 2, generator=torch.Generator().manual_seed(0))
    parts = [Tags(part, (part.prod(1) > 0).long()) for part in x.split(3000)]
    assert accuracy(train_tagger(parts[0], parts[1], 2, seed=0), parts[1]) > 0.9
