"""Word vectors from counts and a singular value decomposition: latent semantic analysis, and shifted PPMI."""

import math
from abc import abstractmethod
from typing import Annotated

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, NonNegative, Size, configured
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.numerics.sparse import coo
from lmzoo.numerics.svd import truncated_svd
from lmzoo.words.vectors.cooccurrence import Cooccurrences, Weighting
from lmzoo.words.vectors.method import Method, MethodOptions, methods


class FactorisedOptions(MethodOptions):
    dim: Size = 200
    """d, the number of singular vectors."""
    eigenvalue: NonNegative = 0.5
    """p; vectors are U S^p. 0, ½ or 1 in Levy et al. (2015)."""


class Factorised(Method):
    """Rows of U S^p, the truncated singular value decomposition of a matrix of a row for each word."""

    saved = ("matrix",)

    @configured(FactorisedOptions)
    def __init__(self, options: FactorisedOptions):
        super().__init__(options.min_count)
        self.dim, self.eigenvalue = options.dim, options.eigenvalue

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        self.corpus = corpus
        self.random = torch.Generator().manual_seed(seed)
        self.matrix = torch.zeros(len(self.words), self.dim)
        if self.dim > len(self.words):
            raise UserError(f"method.dim={self.dim}: the text has only {len(self.words)} such words", "lower it")

    @abstractmethod
    def counts(self) -> Tensor:
        """The sparse (V, n) matrix that is factorised."""

    def step(self, number: int) -> dict[str, float]:
        U, S, _ = truncated_svd(self.counts(), self.dim, self.random)
        self.matrix[:, : len(S)] = U * S**self.eigenvalue
        return {f"singular value/{i + 1}": float(S[i]) for i in range(min(3, len(S)))}


def shifted_ppmi(counts: Cooccurrences, smoothing: float, shift: float) -> Tensor:
    """max(0, PMI(w, c) - log k) as a sparse (V, V) matrix, with PMI(w, c) = log [#(w, c) Σ_c' #(c')^α / (#(w) #(c)^α)].

    Levy & Goldberg (NIPS 2014), equation 10; Levy, Goldberg & Dagan (TACL 2015), equation 3. #(w) = Σ_c #(w, c).

    Args:
        smoothing: α, 0.75 in the papers; 1 leaves the contexts' frequencies as they are.
        shift: k, the number of negative samples that it stands for.
    """
    of_word = torch.zeros(counts.size, dtype=torch.float64).index_add_(0, counts.row, counts.weight.double())
    context = of_word**smoothing
    pmi = counts.weight.double().log()
    pmi += (context.sum().log() - context.log())[counts.column] - of_word.log()[counts.row] - math.log(shift)
    positive = (pmi > 0).nonzero()[:, 0]
    shape = (counts.size, counts.size)
    return coo(counts.row[positive], counts.column[positive], pmi[positive].float(), shape)


class PPMIOptions(FactorisedOptions):
    window: Size = 10
    """number of context words on each side."""
    weighting: Weighting = "flat"
    """weight of a context by its distance k: constant, linearly decreasing, or 1/k; see `Weighting`."""
    smoothing: NonNegative = 0.75
    """α, the exponent of context frequencies, see `shifted_ppmi`."""
    shift: Annotated[float, Bounds(low=1, high=1e30)] = 1
    """k, whose logarithm is subtracted; 5 corresponds to five negative samples."""


@methods.register("ppmi")
class PPMI(Factorised):
    """The truncated SVD of shifted positive pointwise mutual information, `shifted_ppmi`.

    Levy, Goldberg & Dagan, *Improving distributional similarity with lessons learned from word embeddings*, TACL 2015.
    """

    @configured(PPMIOptions)
    def __init__(self, options: PPMIOptions):
        super().__init__(**options.inherited(FactorisedOptions))
        self.window, self.smoothing, self.shift = options.window, options.smoothing, options.shift
        self.weighting: Weighting = options.weighting

    def counts(self) -> Tensor:
        return shifted_ppmi(Cooccurrences.of(self.text, self.window, self.weighting), self.smoothing, self.shift)


def log_entropy(row: Tensor, column: Tensor, count: Tensor, shape: tuple[int, int]) -> Tensor:
    """log(1 + #(w, d)) (1 + Σ_d p log p / log n), p = #(w, d) / #(w), as a sparse (V, n) matrix.

    Dumais, *Improving the retrieval of information from external sources*, 1991. A word that all documents have alike
    weighs 0, one of a single document 1.

    Args:
        row, column, count: (P,) words, documents and #(w, d) above 0, in the order of words.
    """
    total = torch.zeros(shape[0], dtype=torch.float64).index_add_(0, row, count.double())
    p = count / total[row]
    entropy = torch.zeros_like(total).index_add_(0, row, -p * p.log())
    weight = 1 - entropy / math.log(max(2, shape[1]))
    return coo(row, column, ((1 + count.double()).log() * weight[row]).float(), shape)


class LSAOptions(FactorisedOptions):
    dim: Size = 300
    eigenvalue: NonNegative = 1
    lines_per_document: Size = 20
    """number of consecutive lines per document."""


@methods.register("lsa")
class LSA(Factorised):
    """The truncated SVD of a word-document matrix with log-entropy weights.

    Deerwester, Dumais, Furnas, Landauer & Harshman, *Indexing by latent semantic analysis*, JASIS 1990; weights of
    `log_entropy`.
    """

    @configured(LSAOptions)
    def __init__(self, options: LSAOptions):
        super().__init__(**options.inherited(FactorisedOptions))
        self.lines_per_document = options.lines_per_document

    def counts(self) -> Tensor:
        ends = self.corpus.splits["train"].cpu() == EOS_ID
        document = (ends.cumsum(0) // self.lines_per_document)[self.text.places]
        document = document.unique_consecutive(return_inverse=True)[1]  # without those that have no word
        n = int(document[-1]) + 1
        codes, count = torch.unique(self.text.tokens * n + document, return_counts=True)
        return log_entropy(codes // n, codes % n, count, (len(self.words), n))
