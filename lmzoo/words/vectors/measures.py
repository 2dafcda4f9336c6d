"""What word vectors are worth: similarity as people judge it, and analogies.

The protocol: words of a set and of the vectors are compared in lower case. A pair or a question with a word that has no
vector is left out and counted. An answer is any word of the vocabulary but those of the question.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import NUMBER, decompressed_name, read_lines
from lmzoo.words.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)

QUESTIONS, SCORES = 512, 1 << 24
"""The most analogies that are answered at once, and the most of their cosines with all words."""

PART_OF_SPEECH = r"[ANRV]"
"""What SimVerb-3500 has before a judgement."""

EPSILON = 0.001
"""ε of 3CosMul."""


Questions = Mapping[str, Sequence[tuple[str, ...]]]
"""Analogies "a is to a* as b is to b*" by section, in lower case."""


@dataclass(frozen=True)
class Pairs:
    """A word-similarity set: pairs of words in lower case, and what people judged."""

    name: str
    pairs: Sequence[tuple[str, str]]
    judged: Sequence[float]

    @classmethod
    def read(cls, file: Path) -> "Pairs":
        """A file of two words and a number a line, separated by a tab, else a semicolon, else a comma, else spaces.

        A part of speech may stand before the number, as in SimVerb-3500 (Gerz et al. 2016). What follows it is not
        read: there RareWords (Luong, Socher & Manning 2013) has what each judge said.
        """
        pairs, judged = [], []
        for number, line in enumerate(read_lines(file), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            by = next((sign for sign in "\t;," if sign in line), None)
            first, second, score, behind, *_ = [*map(str.strip, line.strip().split(by)), "", "", "", ""]
            score = behind if re.fullmatch(PART_OF_SPEECH, score) else score
            if first and second and NUMBER.fullmatch(score):
                pairs.append((first.lower(), second.lower()))
                judged.append(float(score))
            elif number == 1 and re.match(r"[^\d.+-]", score):
                log.warning("%s: its first line is read as a header", file)
            else:
                what = f"'{shortened(line, 40)}' is not two words and a number"
                raise UserError(f"{file}, line {number}: {what}", "use a decimal point, not a comma")
        if not pairs:
            raise UserError(f"{file}: has no pairs", "write two words and a number a line")
        return cls(decompressed_name(file).stem, pairs, judged)

    def measure(self, vectors: WordVectors) -> tuple[float, int, int]:
        """Spearman's ρ of cosines and judgements, over the pairs whose words both have vectors; NaN below three.

        Returns: ρ, the number of these pairs, and that of all.
        """
        covered, rows = vectors.lower_rows(self.pairs, 2)
        cosines = (vectors.unit[rows[:, 0]] * vectors.unit[rows[:, 1]]).sum(1)
        rho = spearman(cosines, torch.tensor([self.judged[i] for i in covered]))
        return rho, len(covered), len(self.pairs)


def spearman(x: Tensor, y: Tensor) -> float:
    """Pearson's correlation of ranks, equal values sharing the mean of theirs; NaN below three, as two have ±1."""
    if len(x) < 3:
        return torch.nan
    return float(torch.corrcoef(torch.stack([ranks(x), ranks(y)]))[0, 1])


def ranks(values: Tensor) -> Tensor:
    """(N,) values -> (N,) float64 ranks from 1."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    return (last - (count - 1) / 2)[place]


def read_questions(file: Path) -> Questions:
    """word2vec's format, four words a line below lines ``: SECTION``; a UserError that names another line."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    section = decompressed_name(file).stem
    for number, line in enumerate(read_lines(file), start=1):
        words = tuple(line.lower().split())
        if words[:1] == (":",):
            section = " ".join(words[1:])
        elif len(words) == 4:
            sections.setdefault(section, []).append(words)
        elif words:
            raise UserError(f"{file}, line {number}: '{shortened(line, 40)}' is not four words")
    if not sections:
        raise UserError(f"{file}: has no questions", "write four words a line")
    return sections


def answered(questions: Questions, vectors: WordVectors) -> list[tuple[str, int, int, int, int]]:
    """The questions of each section, and of all as ``total``, that are answered right; of words that differ in their
    case alone, the first is a possible answer.

    Returns: the name of each, those that are right by 3CosAdd and by 3CosMul, those whose words all have vectors, and
        all.
    """
    rows, first = [], torch.tensor(list(vectors.lower.values()))
    place, unit = torch.zeros(len(vectors.words), dtype=torch.int64), vectors.unit[first]
    place[first] = torch.arange(len(first))
    size = max(1, min(QUESTIONS, SCORES // len(first)))
    for section, asked in questions.items():
        covered, words = vectors.lower_rows(asked, 4)
        parts = place[words].split(size)
        right = [part[:, 3:] == scores(unit, part[:, :3]).argmax(2).T for part in parts]
        add, mul = torch.cat(right).sum(0).tolist() if right else (0, 0)
        rows.append((section, add, mul, len(covered), len(asked)))
    add, mul, covered, number = (sum(row[column] for row in rows) for column in range(1, 5))
    return [*rows, ("total", add, mul, covered, number)]


def scores(unit: Tensor, questions: Tensor) -> Tensor:
    """(V, d) unit vectors and (Q, 3) words a, a*, b -> (2, Q, V) how well each word answers, as b*; -inf for the three.

    3CosAdd: cos(b*, b - a + a*) times the length of that vector (Mikolov, Yih & Zweig, NAACL 2013). 3CosMul:
    cos(b*, b) cos(b*, a*) / (cos(b*, a) + ε) with cosines moved to 0 … 1 (Levy & Goldberg, CoNLL 2014).
    """
    a, a_star, b = (unit[questions[:, i]] @ unit.mT for i in range(3))  # (Q, V) cosines with every word
    add = b - a + a_star
    a, a_star, b = ((cosine + 1) / 2 for cosine in (a, a_star, b))
    mul = b * a_star / (a + EPSILON)
    return torch.stack([score.scatter(1, questions, -torch.inf) for score in (add, mul)])
