"""The output layer of the neural models: a softmax over words, over classes and then a class's words, or several."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Idle, Initial, Options, Size
from lmzoo.models.neural.softmax import token_logprobs
from lmzoo.numerics.gpu_sync import on_host
from lmzoo.numerics.precision import at_least_float32, in_autocast_type
from lmzoo.protocol.abilities import TeacherPredictions
from lmzoo.words.brown import Clustering, word_clusters


class OutputOptions(Options):
    classes: Size | None = None
    """number of word classes of a two-level softmax: first over the classes, then over the words of one, which is
    faster on a CPU. None: one softmax over all words."""
    clustering: Annotated[Clustering, Idle(("model.classes", None)), Initial()] = "brown"
    """how words are assigned to classes: Brown clustering, uniformly at random, or by frequency so that all have an
    equal share of the text, which is cheap."""


class WordClasses(nn.Module):
    """The first level of a two-level softmax: p(c | h) = softmax(S h + s)_c, c the class of a word.

    The words of a class share the second level: p(w | h) = p(c | h) p(w | h, c), where p(w | h, c) is the softmax of
    W h + b over the words of c. So a token costs a logit for every class and for every word of its own class, in place
    of one for every word. Classes: Brown et al. (1992). Two levels: Goodman, *Classes for fast maximum entropy
    training*, ICASSP 2001; in neural models Morin & Bengio (2005) and Mikolov et al. (2011).

    Args:
        features: the size of h.
        classes: C, their number.
        clustering: how they are found: see `word_clusters`.

    Raises: UserError where there are more classes than words.
    """

    def __init__(self, vocabulary_size: int, features: int, classes: int, clustering: Clustering):
        super().__init__()
        self.clustering: Clustering = clustering
        if classes > vocabulary_size:
            raise UserError(f"model.classes={classes}: there are only {vocabulary_size} words", "choose fewer")
        self.S = nn.Linear(features, classes)  # its bias is s
        self.word_class = nn.Buffer(torch.arange(vocabulary_size) % classes)
        """(V,) int64 class of every word."""

    def estimate(self, tokens: Tensor) -> None:
        """Find the classes in a (N,) text; a UserError where it has fewer different words than Brown classes."""
        types, classes = len(self.word_class), self.S.out_features
        self.word_class.copy_(word_clusters(self.clustering, tokens.long(), types, classes, "model.classes"))


class Output(nn.Module):
    """p(x | h) = softmax(W h + b)_x over all words, or in two levels: see `WordClasses`.

    Args:
        weight: W, a (V, d) parameter. Another module may hold it too, such as the embedding that W is tied to.
        bias: b, a (V,) parameter.
        classes, clustering: see `OutputOptions`.

    Raises: UserError where there are more classes than words.
    """

    def __init__(self, weight: Tensor, bias: Tensor, classes: int | None, clustering: Clustering = "brown"):
        super().__init__()
        self.weight, self.bias = weight, bias
        self.classes = None if classes is None else WordClasses(len(weight), weight.shape[1], classes, clustering)

    def estimate(self, tokens: Tensor) -> None:
        """Find the classes in a (N,) text, where the softmax has two levels; see `WordClasses.estimate`."""
        if self.classes is not None:
            self.classes.estimate(tokens)

    @torch.no_grad()
    def start_from_frequencies(self, frequency: Tensor) -> None:
        """Set the biases to the log-frequencies of words and classes, given the (V,) frequencies of the words."""
        self.bias.copy_(frequency.log())
        if self.classes is not None:
            s = self.classes.S.bias
            s.copy_(torch.zeros_like(s).index_add(0, self.classes.word_class, frequency.to(s)).log())

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """(N, d) h and (N,) int64 x -> (N,) log p(x | h) in nats, float32 at least; see `token_logprobs`.

        Under autocast, products are rounded to its type and sums are kept in float32. The softmax within a class is
        small, and so it is in float32 altogether.
        """
        classes = self.classes
        if classes is None:
            return token_logprobs(*in_autocast_type(hidden, self.weight, self.bias), tokens=tokens)
        c = classes.word_class[tokens]
        of_class = token_logprobs(*in_autocast_type(hidden, classes.S.weight, classes.S.bias), tokens=c)
        with torch.autocast(hidden.device.type, enabled=False):
            hidden = hidden.to(self.weight.dtype)
            return of_class + token_logprobs(hidden, self.weight, self.bias, tokens, classes.word_class)

    def predict(self, hidden: Tensor) -> Tensor:
        """(N, d) h -> (N, V) log p(x | h) of every word x in nats."""
        scores = at_least_float32(F.linear(hidden, self.weight, self.bias))
        if self.classes is None:
            return scores.log_softmax(1)
        of_class = self.classes.S(hidden).to(scores.dtype).log_softmax(1)  # (N, C)
        c = self.classes.word_class.expand_as(scores)  # (N, V)
        largest = torch.full_like(of_class, -torch.inf).scatter_reduce(1, c, scores, "amax")  # (N, C)
        totals = torch.zeros_like(of_class).scatter_add(1, c, (scores - largest.gather(1, c)).exp())
        return scores + (of_class - largest - totals.log()).gather(1, c)

    def predict_clusters(self, hidden: Tensor, cluster: Tensor, clusters: int) -> TeacherPredictions:
        """What a model that predicts clusters first can learn; cheap where the clusters are the classes.

        Args:
            hidden: (N, d) h.
            cluster: (V,) the cluster of each word.
            clusters: M, their number.
        """
        classes = self.classes
        if classes is not None and on_host(classes.word_class).equal(on_host(cluster)):
            share = at_least_float32(classes.S(hidden)).softmax(1)
            return TeacherPredictions(
                share, lambda n, words: at_least_float32(F.linear(hidden[n], self.weight[words], self.bias[words]))
            )
        each = at_least_float32(self.predict(hidden))
        share = each.exp() @ F.one_hot(cluster, clusters).to(each.dtype)
        return TeacherPredictions(share, lambda n, words: each[n][:, words])


class MixtureOfSoftmaxes(Output):
    """p(x | h) = Σ_k π_k(h) softmax(W tanh(U_k h + u_k) + b)_x with π(h) = softmax(P h + p).

    Yang, Dai, Salakhutdinov & Cohen, "Breaking the softmax bottleneck", ICLR 2018, https://arxiv.org/abs/1711.03953

    Args:
        weight, bias: (V, e) W and (V,) b, as in `Output`.
        features: the size of h.
        softmaxes: K.
    """

    def __init__(self, weight: Tensor, bias: Tensor, features: int, softmaxes: int):
        super().__init__(weight, bias, classes=None)
        self.P = nn.Linear(features, softmaxes)
        self.U = nn.Linear(features, softmaxes * weight.shape[1])

    def _parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(N, d) h -> (N, K) log π and (N K, e) vectors, all of a row together."""
        with torch.autocast(hidden.device.type, enabled=False):
            prior = self.P(hidden.to(self.weight.dtype)).log_softmax(1)
        return prior, torch.tanh(self.U(hidden)).view(-1, self.weight.shape[1])

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """(N, d) h and (N,) int64 x -> (N,) log p(x | h) in nats."""
        prior, vectors = self._parts(hidden)
        tensors = in_autocast_type(vectors, self.weight, self.bias)
        each = token_logprobs(*tensors, tokens=tokens.repeat_interleave(prior.shape[1]), alike=False)
        return (prior + each.view_as(prior)).logsumexp(1)

    def predict(self, hidden: Tensor) -> Tensor:
        """(N, d) h -> (N, V) log p(x | h) of every word x in nats."""
        prior, vectors = self._parts(hidden)
        each = at_least_float32(F.linear(vectors, self.weight, self.bias)).log_softmax(1)
        return (prior[..., None] + each.view(*prior.shape, len(self.weight))).logsumexp(1)
