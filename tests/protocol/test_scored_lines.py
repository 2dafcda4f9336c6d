"""The words and texts of scored lines."""

import pytest
import torch

from lmzoo.corpus import EOS
from lmzoo.protocol.lines import Lines


@pytest.mark.parametrize(
    "text",
    [
        "the cat\na\n",
        "\n",
        "a\n\nb c\n",
        " a\n",
        "a \nb\n",
        "a  b\n",
        "a\tb\n",
        "a\u00a0b\n",
        "a\u3000b\x1cc\n",
        "é 日本\n",
    ],
)
def test_a_plain_text_has_the_words_and_texts_of_its_lines_split(text: str):
    words = [[*line.split(), EOS] for line in text.removesuffix("\n").split("\n")]
    none = torch.empty(0)
    plain = Lines(iter(words), none, none, none, text)
    assert plain.all_words() == [word for line in words for word in line]
    assert plain.texts() == [" ".join(line[:-1]) for line in words] == Lines(words, none, none, none).texts()
