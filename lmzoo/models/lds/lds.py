"""A linear dynamical system on words, fitted from counts: Belanger & Kakade, ICML 2015, arxiv.org/abs/1502.04081"""

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, Depth, Idle, Initial, NonNegative, Options, Size, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.lds.estimation.fit import Fit, fit
from lmzoo.models.lds.estimation.statistics import Counts
from lmzoo.models.lds.estimation.system import power_of_symmetric
from lmzoo.models.neural.output import Output, OutputOptions
from lmzoo.models.neural.pretrained import vectors_of
from lmzoo.protocol.model import LanguageModel, State, models


def scan(H: Tensor, inputs: Tensor, state: Tensor) -> Tensor:
    """(B, T, h) inputs u_1 … u_T and the (B, h) state f_0 -> (B, T, h) states f_t = H f_{t-1} + u_t."""
    states = []
    for u in inputs.unbind(1):
        state = torch.addmm(u, state, H.mT)
        states.append(state)
    return torch.stack(states, dim=1)


def smooth(J: Tensor, A: Tensor, filtered: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, T, h) filtered means f_t -> (B, T, h) smoothed means s_t = J s_{t+1} + (I - JA) f_t, from s_T = f_T.

    Args:
        mask: (B, T), False on padding. A row ends with its last token; the means of padding stay as they are.
    """
    rest = filtered - filtered @ (J @ A).mT  # (I - JA) f_t
    s = filtered[:, -1]
    smoothed = [s]
    for t in reversed(range(filtered.shape[1] - 1)):
        s = torch.addmm(rest[:, t], s, J.mT)
        if mask is not None:
            s = s.where(mask[:, t + 1, None], filtered[:, t])
        smoothed.append(s)
    return torch.stack(smoothed[::-1], dim=1)


WHITENING_FLOOR = 1e-8
"""Least variance that whitening divides by, as a share of the largest; means hardly vary in such directions."""


Unfitted = Idle(("model.dynamics", False), ("model.input", False))
"""Where an `LDSRNN` fits no system."""


class LDSOptions(Options):
    hidden: Size = 100
    """h, the dimension of the system's state; 200 in the paper."""
    blocks: Annotated[Depth, Unfitted, Initial()] = 4
    """r of subspace identification, which uses lags 1 … 2r - 1."""
    lags: Annotated[Depth, Unfitted, Initial()] = 7
    """L, the number of lags used by EM."""
    pseudocount: Annotated[NonNegative, Unfitted, Initial()] = 20.0
    """κ, added to the count of every word, with random neighbours."""
    iterations: Annotated[Count, Unfitted, Initial()] = 30
    """number of EM iterations; 50 in the paper."""
    vectors: Annotated[Source | None, Unfitted] = None
    """a run of ``lmzoo vectors`` or a file: the observations are word vectors, centred and whitened, instead of
    one-hot. A word without a vector is uninformative. None: one-hot words."""


def fit_text(model: LanguageModel, corpus: Corpus, options: LDSOptions) -> Fit:
    """`fit` a system to the training text on the model's device, but on the CPU in place of MPS, which has no float64.

    Raises: UserError where the options do not suit the text.
    """
    V, hidden, blocks = model.vocabulary_size, options.hidden, options.blocks
    lags = max(2 * blocks - 1, options.lags)
    if blocks < 2:
        raise UserError("model.blocks=1: subspace identification compares two blocks or more", "set model.blocks=4")
    if hidden >= V:
        raise UserError(f"model.hidden={hidden}: there are only {V} words", "set model.hidden below that")
    source, vectors = options.vectors, None
    if source is not None:
        vectors = vectors_of(source, corpus.vocabulary.words, "model.vectors")
        if hidden > (d := vectors[1].shape[1]):
            raise UserError(
                f"model.hidden={hidden}: the vectors of {source} have {d} dimensions", f"set it to {d} or less"
            )
    if (length := len(corpus.splits["train"])) < lags:
        problem = f"model.blocks={blocks} and model.lags={options.lags} count words {lags} apart"
        raise UserError(f"{problem}: train has only {length} tokens", "lower them")
    device = torch.device("cpu") if model.device.type == "mps" else model.device
    counts = Counts.of(corpus.splits["train"].to(device), V, lags)
    if options.pseudocount == 0 and bool((counts.words == 0).any()):
        raise UserError("model.pseudocount=0: some words never occur in train", "set model.pseudocount above 0")
    return fit(counts, hidden, blocks, options.lags, options.pseudocount, options.iterations, vectors)


def state_whitener(fitted: Fit) -> Tensor:
    """(h, h) XX_0^{-½}: the covariance of filtered means becomes I."""
    return power_of_symmetric(fitted.expectations.filtered, -0.5, WHITENING_FLOOR)


class SoftmaxLDSOptions(LDSOptions, OutputOptions):
    """The options of a linear dynamical system with a softmax head."""


@models.register("lds")
class LinearDynamicalSystem(LanguageModel):
    """p(x_t | x_<t) = softmax(O f̃_{t-1} + b), f̃ the whitened filtered mean of a linear dynamical system.

    `estimate` fits the system by subspace identification and EM on counts (`lmzoo.models.lds.estimation`). The system
    then stays as it is. O and b start at 0 and log μ, and are learnt by gradient, a convex problem. A rare word can
    move the mean very far, so a longer f̃ is cut to √h, its root mean square length. The log has the Gaussian
    log-density of the one-hot words under the system itself; no perplexity follows from it.

    The state is (B, h) f. It goes on across `<eos>`. Before a text it is what one `<eos>` leaves behind.
    """

    autocast = True

    estimated_tensors = ("A", "C")

    @configured(SoftmaxLDSOptions)
    def __init__(self, vocabulary_size: int, options: SoftmaxLDSOptions):
        super().__init__()
        self.vocabulary_size, self.options = vocabulary_size, options
        self.hidden = hidden = options.hidden
        square = (nn.Buffer(torch.zeros(hidden, hidden)) for _ in range(5))
        self.A, self.H, self.J, self.whitener, self.spherical = square
        self.C, self.gains = (nn.Buffer(torch.zeros(vocabulary_size, hidden)) for _ in range(2))
        linear = nn.Linear(hidden, vocabulary_size)
        self.output = Output(linear.weight, linear.bias, options.classes, options.clustering)

    def estimate(self, corpus: Corpus) -> None:
        fitted = fit_text(self, corpus, self.options)
        self.output.estimate(corpus.splits["train"])
        self.A.copy_(fitted.lds.A)
        self.C.copy_(fitted.words())
        self.H.copy_(fitted.steady.H)
        self.J.copy_(fitted.steady.J)
        self.gains.copy_(fitted.gains())
        self.whitener.copy_(state_whitener(fitted))
        self.spherical.copy_(power_of_symmetric(fitted.expectations.smoothed, -0.5, WHITENING_FLOOR))
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)
        self.output.start_from_frequencies(fitted.mu)

    def word_vectors(self) -> Mapping[str, Tensor]:
        """``input``: how a word moves the whitened mean, K y_t for that word. ``output``: O."""
        return {"input": self.gains @ self.whitener, "output": self.output.weight}

    def initial_state(self, batch_size: int) -> State:
        return (self.gains[EOS_ID].expand(batch_size, -1),)

    def filter(self, tokens: Tensor, state: State) -> Tensor:
        """(B, T) tokens -> (B, T, h) filtered means f_t, given the words up to and including the token."""
        return scan(self.H, F.embedding(tokens, self.gains), state[0])

    def features(self, f: Tensor) -> Tensor:
        """(…, h) filtered means -> (…, h) f̃."""
        white = f @ self.whitener
        return white * (self.hidden**0.5 / white.norm(dim=-1, keepdim=True)).clamp(max=1)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        with torch.autocast(self.device.type, enabled=False):  # rounding errors would add up from step to step
            f = torch.cat([state[0][:, None], self.filter(tokens, state)], dim=1)  # (B, T + 1, h)
            features = self.features(f[:, :-1]).flatten(0, 1)  # (BT, h)
        logprobs = self.output(features, tokens.flatten())
        return logprobs.view(tokens.shape), (f[:, -1],)

    def predict(self, state: State) -> Tensor:
        return self.output.predict(self.features(state[0]))

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens, a sentence a row -> (B, T, h) embeddings of unit length; ``mask`` is False on padding.

        They are the directions of SS_0^{-½} s, s the smoothed means; the covariance of SS_0^{-½} s over the text is I.
        Belanger & Kakade (ICML 2015), section 6.
        """
        f = self.filter(tokens, self.initial_state(len(tokens)))
        return F.normalize(smooth(self.J, self.A, f, mask) @ self.spherical, dim=-1)


def singular_words(
    A: Tensor, C: Tensor, spherical: Tensor, pairs: int, words: int
) -> list[tuple[float, Tensor, Tensor]]:
    """The words now and the words next that belong to the leading singular vectors of A.

    In coordinates x̃ = Rx with R = SS_0^{-½}, smoothed means vary equally in all directions. There A is
    RAR⁻¹ = Σ σuvᵀ, and C is C̃ = CR⁻¹. After a state along v comes a state along u. So the words now are those whose
    rows of C̃ have the largest cosine with v, and the words next have the largest cosine with u. The other end of the
    same pair has -v and -u. Belanger & Kakade (ICML 2015).

    Args:
        A, C: (h, h), and (V, h) or only the rows of some words.
        spherical: R, (h, h) and symmetric.
        pairs, words: how many pairs of singular vectors, and how many words for each end.

    Returns: for each of the 2·``pairs`` ends σ, the (words,) rows of C of the words now, and those of the words next.
    """
    back = torch.linalg.inv(spherical)
    U, S, Vh = torch.linalg.svd(spherical @ A @ back)
    C = F.normalize(C @ back)
    return [
        (sigma, (sign * C @ v).topk(words).indices, (sign * C @ u).topk(words).indices)
        for sigma, u, v in zip(S[:pairs].tolist(), U.mT, Vh, strict=False)
        for sign in (1, -1)
    ]
