"""The lexical features that models of words learn weights for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lookup import tell_known
from lmzoo.labels.model import StateDict, packed, unpacked
from lmzoo.labels.templates import templates
from lmzoo.numerics.sparse import SparseRows
from lmzoo.words.merging import read_paths


class Lexical:
    """Those of `templates` that train has often enough.

    Args:
        min_count: how often train must have a feature; rarer ones are left out.
        option: names ``min_count`` in errors.
        clusters: a file of ``lmzoo cluster --paths``: beginnings of words' paths in the tree of clusters are features.
            None: none are.

    Attributes:
        numbers: the number of each of F features.
    """

    def __init__(self, min_count: int, option: str, clusters: str | None):
        self.min_count, self.option, self.clusters = min_count, option, clusters
        self.paths: Mapping[str, str] = {}
        self.numbers: dict[str, int] = {}

    def start(self, sentences: Sequence[Sentence]) -> None:
        """Choose the features of train.

        Raises: UserError where the file of clusters cannot be read or has no word of train, and where no feature is so
            frequent.
        """
        if self.clusters is not None:
            try:
                self.paths = read_paths(Path(self.clusters))
            except UserError as error:
                raise UserError(f"labeller.clusters: {error}") from None
            if not tell_known(self.clusters, self.paths, sentences):
                raise UserError(f"labeller.clusters: {self.clusters} has none of the words of train")
        counts = Counter(name for sentence in sentences for row in templates(sentence, self.paths) for name in row)
        self.numbers = {name: i for i, name in enumerate(n for n, c in counts.items() if c >= self.min_count)}
        if not self.numbers:
            raise UserError(f"{self.option}={self.min_count}: no feature is so frequent", "set it to 1")

    def rows(self, sentences: Sequence[Sentence]) -> SparseRows:
        """The features of all words of some sentences."""
        named = (names for sentence in sentences for names in templates(sentence, self.paths))
        known = ([self.numbers[name] for name in names if name in self.numbers] for names in named)
        return SparseRows.of(known, len(self.numbers))

    def state_dict(self) -> StateDict:
        words = {"clusters.words": packed([*self.paths]), "clusters.paths": packed([*self.paths.values()])}
        return (words if self.paths else {}) | {"features": packed([*self.numbers])}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if self.clusters is not None:
            words, paths = unpacked(state["clusters.words"]), unpacked(state["clusters.paths"])
            self.paths = dict(zip(words, paths, strict=True))
        features = unpacked(state["features"]) if "features" in state else []  # none in old runs without frequent ones
        self.numbers = {name: i for i, name in enumerate(features)}
