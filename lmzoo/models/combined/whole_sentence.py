"""Whole-sentence log-linear models.

Rosenfeld, "A whole sentence maximum entropy language model", ASRU 1997; Rosenfeld, Chen & Zhu, "Whole-sentence
exponential language models: a vehicle for linguistic-statistical integration", Computer Speech and Language 15, 2001.
"""

import logging
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, NonNegative, Size, Source, configured
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.corpus.lines import line_sums
from lmzoo.models.combined.contrast import Contrast, log_normaliser
from lmzoo.models.combined.sentence_features import FeatureOptions, SentenceFeatures, frequent, matrix
from lmzoo.models.combined.trained import WrapperModel
from lmzoo.numerics.sparse import SparseRows
from lmzoo.protocol.abilities import LogZ
from lmzoo.protocol.model import State, models
from lmzoo.protocol.perplexity import perplexity, text_logprobs
from lmzoo.protocol.sampling import sample_sentences
from lmzoo.protocol.state_dict import sized_by_estimate
from lmzoo.words.brown import cached_brown_clusters

log = logging.getLogger(__name__)

CHOICE = 5
"""Strengths are compared with Z from samples of their own, one for so many of those that the final Z is from."""


class WholeSentenceOptions(FeatureOptions):
    run: Source | None = None
    """folder of the trained run of p_0, whose model is loaded when training starts."""
    clusters: Sequence[Size] = (50,)
    """numbers of Brown clusters of words, one clustering each; [] for none."""
    min_count: Size = 5
    """features with lower counts both in train and in the noise samples are left out."""
    noise: Size = 4
    """k, the number of noise samples per sentence of train."""
    samples: Annotated[int, Bounds(low=2, high=2**31 - 1)] = 200_000
    """number of fresh samples for estimating Z; a single one has no standard error."""
    l2: Sequence[NonNegative] = (30.0, 60.0)
    """penalty coefficients, of which the one with the lowest validation perplexity is used."""


@models.register("whole_sentence")
class WholeSentence(WrapperModel):
    """p(x) = p_0(x) exp(w·φ(x)) / Z of a sentence x, with a trained model p_0 and features φ of the whole sentence.

    Rosenfeld, Chen & Zhu (2001), equation 3. `estimate` learns w by noise-contrastive estimation from samples of p_0,
    chooses the strength of the L2 penalty on valid, and estimates Z = E_0 exp(w·φ) from fresh samples of p_0.

    Only whole sentences have a probability. So `<eos>` has the log-probability of its sentence, other words have 0,
    and there is no `predict`. The state is the (B, L) words of the sentence that is open, -1 before them.
    """

    whole_sentences = True
    forgets_at_eos = True
    estimated_tensors = ("weights",)

    @configured(WholeSentenceOptions)
    def __init__(self, vocabulary_size: int, options: WholeSentenceOptions):
        super().__init__(vocabulary_size, options.run)
        self.kinds = options.inherited(FeatureOptions)
        self.clusters, self.min_count, self.noise = options.clusters, options.min_count, options.noise
        self.samples, self.l2 = options.samples, options.l2
        if not options.l2:
            raise UserError("model.l2=[]: a coefficient is needed", "set 'model.l2=[1]'")
        self.classes = nn.Buffer(torch.zeros(len(options.clusters), vocabulary_size, dtype=torch.int64))
        """(clusterings, V) the class of each word."""
        self.keys = nn.Buffer(torch.empty(0, dtype=torch.int64))
        """(F,) int64, ascending: which features there are."""
        self.weights = nn.Buffer(torch.zeros(0))
        """(F,) w."""
        self.estimated = nn.Buffer(torch.zeros(4))
        """(4,) log Z as in `LogZ`."""
        sized_by_estimate(self, "keys", "weights")

    @property
    def features(self) -> SentenceFeatures:
        """φ."""
        return SentenceFeatures(self.vocabulary_size, self.classes.cpu(), **self.kinds)

    @property
    def log_z(self) -> LogZ:
        """log Z as estimated."""
        value, error, effective, samples = self.estimated.tolist()
        return LogZ(value, error, effective, int(samples))

    def estimate(self, corpus: Corpus) -> None:
        p_0, device = self.inner, self.device
        train, valid = (corpus.splits[split].to("cpu", torch.int64) for split in ("train", "valid"))
        for of_word, number in zip(self.classes, self.clusters, strict=True):
            of_word.copy_(cached_brown_clusters(train, self.vocabulary_size, number, "model.clusters"))
        features = self.features  # before samples are drawn, as it refuses what is too much
        random = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        numbers = self.noise * int((train == EOS_ID).sum()), max(self.samples // CHOICE, 2), self.samples
        noise, trial, fresh = (sample_sentences(p_0, number, random) for number in numbers)
        self.keys = frequent(features, [train, noise], self.min_count)
        log.info("%s features, %s noise samples", f"{len(self.keys):,}", f"{numbers[0]:,}")
        self.weights = self._strongest(Contrast(self._matrix(train), self._matrix(noise)), valid, trial)
        self.estimated.copy_(torch.tensor(log_normaliser(self._matrix(fresh) @ self.weights)))
        self.keys, self.weights = self.keys.to(device), self.weights.to(device)

    def _strongest(self, contrast: Contrast, valid: Tensor, trial: Tensor) -> Tensor:
        """(F,) w of the strength with the highest probability of valid, Z being from samples for the choice alone."""
        base = float(text_logprobs(self.inner, valid, "sentence").double().sum())
        on_valid, on_trial, fits = self._matrix(valid), self._matrix(trial), []
        x = torch.zeros_like(contrast.curvature)
        for l2 in sorted(self.l2, reverse=True):
            x = contrast.minimum(x, l2)
            log_z = log_normaliser(on_trial @ x[:-1])
            logprob = base + float((on_valid @ x[:-1]).double().sum()) - on_valid.shape[0] * log_z.value
            fits.append((logprob, x[:-1]))
            reached = perplexity(logprob, len(valid))
            log.info("l2 %g: valid perplexity %.2f, log Z %.4f ± %.4f, in the contrast %.4f",
                     l2, reached, log_z.value, log_z.error, float(x[-1]))  # fmt: skip
        return max(fits, key=lambda fit: fit[0])[1]

    def _matrix(self, tokens: Tensor) -> SparseRows:
        """(S, F) φ of the sentences of a (N,) text, on the CPU."""
        return matrix(self.features, self.keys.cpu(), tokens)

    def initial_state(self, batch_size: int) -> State:
        return (torch.full((batch_size, 0), -1, device=self.device),)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        text = torch.cat([state[0], tokens], 1)  # (B, L + T)
        ends = text == EOS_ID
        closed = ends.flip(1).cummax(1).values.flip(1)
        scores = torch.zeros(text.shape, device=text.device)
        if bool(ends.any()):
            whole = text[closed & (text >= 0)]  # (N,) sentences, each closed by <eos>
            ratios = (self._matrix(whole.cpu()) @ self.weights.cpu()).double() - self.log_z.value
            of_p_0 = line_sums(text_logprobs(self.inner, whole, "sentence").double(), whole)
            scores[ends] = (of_p_0.cpu() + ratios).to(scores)
        longest = int((~closed & (text >= 0)).sum(1).max()) if len(text) else 0
        words = text.where(~closed, -1)[:, text.shape[1] - longest :]
        return scores[:, state[0].shape[1] :], (words,)

    def predict(self, state: State) -> Tensor:
        raise UserError("whole_sentence: assigns probabilities only to whole sentences, and predicts no next word",
                        "use it to evaluate, compare, rerank or mix per sentence")  # fmt: skip
