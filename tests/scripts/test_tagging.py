"""What scripts/tagging.py does before and after the embeddings."""

import pytest
import tagging
import torch
from tagging import (
    Embedder,
    Tagged,
    Tags,
    accuracy,
    embedders,
    evaluate,
    most_frequent_tag,
    normalise,
    read_conll2000,
    read_conllu,
    train_tagger,
    windowed,
)  # fmt: skip

from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.lds.estimation.fit import fit
from lmzoo.models.lds.estimation.statistics import Counts
from lmzoo.protocol.encoder import embed_lines


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


def test_tags_that_follow_from_the_words_are_learnt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Tags in test alternate from line to line, so a row of the table is wrong where lines and tags are mixed up."""
    monkeypatch.setattr(tagging, "EPOCHS", 30)
    sentences = [[("a", "X"), ("b", "Y"), ("a", "X")], [("b", "Y"), ("c", "Z")]] * 50
    vocabulary = Vocabulary.of(["a b c"])
    one_hot = Embedder(lambda tokens, _: torch.nn.functional.one_hot(tokens, len(vocabulary)).float())
    evaluate("one-hot", one_hot, vocabulary, {"toy": Tagged(sentences, sentences[:9], sentences[9:])}, 0, seed=0)
    assert capsys.readouterr().out == "| one-hot | 0 | 100.00 | 100.00 |\n"


def test_embedders_see_the_word_or_the_words_up_to_it_or_the_line():
    text = torch.randint(6, (2000,), generator=torch.Generator().manual_seed(0))
    ways = embedders(fit(Counts.of(text, 6, 3), 3, 2, 3, 1.0, 2))
    line, other_end, other_start = (torch.tensor([*words, 0]) for words in ([1, 2, 3], [1, 2, 4], [5, 2, 3]))
    same = {}
    for name, way in ways.items():
        middle = embed_lines(way, line)[1]
        assert float(middle.norm()) == pytest.approx(1, abs=1e-6)
        same[name] = [torch.allclose(embed_lines(way, text)[1], middle) for text in (other_end, other_start)]
    assert same == {"by type": [True, True], "filtered": [True, False], "smoothed": [False, False]}
