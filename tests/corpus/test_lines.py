"""Where the lines of a text begin and end."""

import torch

from lmzoo.corpus.lines import by_line, line_lengths, line_numbers, line_sums

TOKENS = torch.tensor([1, 2, 0, 0, 3, 0])


def test_lines_are_cut_after_their_ends():
    assert [line.tolist() for line in by_line(TOKENS + 1, TOKENS)] == [[2, 3, 1], [1], [4, 1]]


def test_a_text_without_tokens_has_no_lines():
    none = TOKENS[:0]
    assert by_line(none, none) == []
    assert line_numbers(none).tolist() == line_lengths(none).tolist() == []
    assert line_sums(none.double(), none).shape == (0,)
    assert line_sums(torch.empty(0, 3), none).shape == (0, 3)


def test_the_end_of_a_line_belongs_to_it():
    assert line_numbers(TOKENS).tolist() == [0, 0, 0, 1, 2, 2]
    assert line_numbers(TOKENS[:5]).tolist() == [0, 0, 0, 1, 2]
    assert line_sums(TOKENS + 0.5, TOKENS).tolist() == [4.5, 0.5, 4.0]
    assert line_lengths(TOKENS).tolist() == [3, 1, 2]
    assert line_sums(torch.stack([TOKENS, -TOKENS], 1).double(), TOKENS).tolist() == [[3, -3], [0, 0], [3, -3]]
