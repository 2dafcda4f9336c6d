"""Labellers of texts by n-grams: naive Bayes, logistic regression, and their combination.

Wang & Manning, "Baselines and bigrams: simple, good sentiment and topic classification", ACL 2012,
https://aclanthology.org/P12-2018. N-grams are binary features, as there. Training is by scikit-learn.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch

from lmzoo.core.errors import UserError
from lmzoo.core.extras import import_optional
from lmzoo.core.options import Bounds, Depth, Options, Probability, Seed, Size, configured
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, labellers
from lmzoo.numerics.sparse import SparseRows

Positive = Annotated[float, Bounds(low=1e-10, high=1e10)]

ITERATIONS = 10_000
"""The maximum number of iterations."""


class NGramTextOptions(Options):
    order: Depth = 2
    """maximum n-gram order."""
    prefixes: Sequence[Size] = ()
    """lengths of prefixes of longer words that count as n-grams, too, such as [4,5,6]."""


class NGramLabeller(Labeller):
    """Predicts the label k with the largest b_k + Σ_{f ∈ F} w_fk for the n-grams F of a text.

    Attributes:
        labels: K labels.
        grams: the index of each of F n-grams.
        weights: (F, K) w.
        bias: (K,) b.
    """

    kind = "text"
    saved = ("labels", "grams", "weights", "bias")

    @configured(NGramTextOptions)
    def __init__(self, options: NGramTextOptions):
        self.order, self.prefixes = options.order, options.prefixes

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        rows = [self._grams(sentence.words) for sentence in sentences]
        self.grams = {gram: i for i, gram in enumerate(dict.fromkeys(gram for row in rows for gram in row))}
        self.labels = sorted({sentence.labels[0] for sentence in sentences})
        if len(self.labels) < 2:
            raise UserError(f"all texts of train have the label {self.labels[0]}", "there must be two labels or more")
        columns = [[self.grams[gram] for gram in row] for row in rows]
        ends = np.cumsum([0, *map(len, columns)])
        ones = np.ones(ends[-1])
        shape = (len(columns), len(self.grams))
        sparse = import_optional("scipy.sparse", "labeller", "scikit-learn")
        matrix = sparse.csr_matrix((ones, np.concatenate(columns), ends), shape)
        weights, bias = self.fit(matrix, np.array([self.labels.index(s.labels[0]) for s in sentences]), seed)
        self.weights, self.bias = torch.from_numpy(weights).float().contiguous(), torch.from_numpy(bias).float()

    @abstractmethod
    def fit(self, matrix: Any, gold: np.ndarray, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
        """Train w (F, K) and b (K,) on a sparse (N, F) binary matrix and (N,) indices of labels."""

    def _grams(self, words: Sequence[str]) -> list[str]:
        grams = (" ".join(words[i : i + n]) for n in range(1, self.order + 1) for i in range(len(words) - n + 1))
        # a trailing blank distinguishes prefixes from n-grams
        beginnings = (f"{word[:k]} " for k in self.prefixes for word in words if len(word) > k)
        return list(dict.fromkeys([*grams, *beginnings]))

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        rows = ([self.grams[x] for x in self._grams(s.words) if x in self.grams] for s in sentences)
        scores = SparseRows.of(rows, len(self.grams)) @ self.weights + self.bias  # (N, K)
        return [[self.labels[k]] for k in scores.argmax(1).tolist()]


class NaiveBayesOptions(NGramTextOptions):
    alpha: Positive = 1.0
    """added to each count of an n-gram with a label."""


@labellers.register("naive_bayes")
class NaiveBayes(NGramLabeller):
    """Multinomial naive Bayes: w_fk = log p(f | k) and b_k = log p(k)."""

    @configured(NaiveBayesOptions)
    def __init__(self, options: NaiveBayesOptions):
        super().__init__(**options.inherited(NGramTextOptions))
        self.alpha = options.alpha

    def fit(self, matrix: Any, gold: np.ndarray, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
        module = import_optional("sklearn.naive_bayes", "labeller", "scikit-learn")
        model = module.MultinomialNB(alpha=self.alpha).fit(matrix, gold)
        return model.feature_log_prob_.T, model.class_log_prior_


class LogisticRegressionOptions(NGramTextOptions):
    l2: Positive = 1.0
    """penalty: half of this times the sum of the squared weights; with two labels, w is the difference of theirs."""


@labellers.register("logistic_regression")
class LogisticRegression(NGramLabeller):
    """p(k | text) ∝ exp(b_k + Σ w_fk); the weights minimise −Σ log p(k | text) + l2/2 Σ w²."""

    @configured(LogisticRegressionOptions)
    def __init__(self, options: LogisticRegressionOptions):
        super().__init__(**options.inherited(NGramTextOptions))
        self.l2 = options.l2

    def fit(self, matrix: Any, gold: np.ndarray, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
        linear = import_optional("sklearn.linear_model", "labeller", "scikit-learn")
        model = linear.LogisticRegression(C=1 / self.l2, max_iter=ITERATIONS, tol=1e-5).fit(matrix, gold)
        weights, bias = model.coef_.T, model.intercept_
        if len(bias) == 1:  # two labels
            return np.hstack([0 * weights, weights]), np.append(0, bias)
        return weights, bias


class NBSVMOptions(NGramTextOptions):
    alpha: Positive = 1.0
    """added to each count of an n-gram, with the label and without."""
    cost: Positive = 1.0
    """C of the squared hinge loss."""
    beta: Probability = 0.25
    """weight of the SVM's weights in an average with their mean magnitude. 0 is naive Bayes with the SVM's b and, for
    three labels or more, its scale."""


@labellers.register("nbsvm")
class NBSVM(NGramLabeller):
    """A support vector machine on naive Bayes' log-count ratios r, one label against the others (equations 3 to 5).

    Its weights v are shrunk towards their mean size: w = r ((1 − beta) mean |v| + beta v). The paper has two labels,
    with mirrored scores. With more labels, this scales each machine differently, those of rare labels the least. So
    each score is rescaled to the mean and standard deviation over train of its machine's score with v.
    """

    @configured(NBSVMOptions)
    def __init__(self, options: NBSVMOptions):
        super().__init__(**options.inherited(NGramTextOptions))
        self.alpha, self.cost, self.beta = options.alpha, options.cost, options.beta

    def fit(self, matrix: Any, gold: np.ndarray, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
        svm = import_optional("sklearn.svm", "labeller", "scikit-learn")
        columns, biases = [], []
        for k in range(len(self.labels)):
            p, q = (self.alpha + np.asarray(matrix[of].sum(0)).ravel() for of in (gold == k, gold != k))
            r = np.log(p / p.sum()) - np.log(q / q.sum())
            machine = svm.LinearSVC(C=self.cost, max_iter=ITERATIONS, random_state=seed)
            ratios = matrix.multiply(r).tocsr()
            machine.fit(ratios, gold == k)
            v, b = machine.coef_[0], machine.intercept_[0]
            w = (1 - self.beta) * np.abs(v).mean() + self.beta * v
            if len(self.labels) > 2:
                before, after = ratios @ v, ratios @ w  # (N,)
                scale = before.std() / (after.std() or 1)
                w, b = scale * w, b + (before.mean() - scale * after.mean())
            columns.append(r * w)
            biases.append(b)
        return np.stack(columns, 1), np.array(biases)
