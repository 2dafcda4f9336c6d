"""Tables of reading times for tests."""

from pathlib import Path

import numpy as np

from lmzoo.reports.reading import Times

HEADER = "word\tzone\titem\tmeanItemRT"
NAMES = {"word": "word", "time": "meanItemRT", "story": "item", "place": "zone"}


def table(file: Path, rows: list[tuple[object, ...]], header: str = HEADER) -> Path:
    file.write_text("\n".join([header, *("\t".join(map(str, row)) for row in rows)]) + "\n")
    return file


def times_of(*stories: list[list[str]]) -> Times:
    """Stories of sentences of words, all read in a second."""
    sentences = [(s, sentence) for s, story in enumerate(stories) for sentence in story]
    each = [(word, s, n) for n, (s, sentence) in enumerate(sentences) for word in sentence]
    words, of_story, of_sentence = zip(*each, strict=True)
    return Times([*words], np.array(of_story), np.array(of_sentence), np.ones(len(words)))
