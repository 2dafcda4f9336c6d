"""A two-level HMM that also knows the clusters of the last words."""

from typing import Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.core.options import Dropout, Size
from lmzoo.models.hmm.block_hmm import BlockTables
from lmzoo.models.hmm.inference.emissions import within_cluster
from lmzoo.models.hmm.inference.grouping import grouped
from lmzoo.models.hmm.inference.paths import Chain
from lmzoo.models.hmm.inference.underflow import log_product
from lmzoo.models.hmm.neural_block_hmm import NeuralBlockHMMOptions
from lmzoo.models.hmm.state_vectors import Residual
from lmzoo.models.hmm.twolevel_hmm import TwoLevel, TwoLevelHMM
from lmzoo.numerics.precision import single
from lmzoo.protocol.model import State, models


def log_normaliser(logits: Tensor, logprobs: Tensor) -> Tensor:
    """(…, N, L) logits and (…, L, K) log-probs of L outcomes -> (…, N, K) log Σ_l exp(logits_nl + logprobs_lk)."""
    peak = logits.amax(-1, keepdim=True)
    return log_product(logits - peak, logprobs) + peak


@models.register("history_hmm")
class HistoryHMM(TwoLevelHMM):
    """A `TwoLevelHMM` each of whose distributions is multiplied by a factor of h, the clusters of the last k words:

        p(c | i, h)    ∝ p(c | i) exp(w_c·Res_c(y)) over the M clusters,
        p(j | c, i, h) ∝ p(j | c, i) exp(v_j·Res_t(y)) over the S states of c,
        p(x | j, h)    ∝ p(x | j) exp(w_x·Res_e(y)) over the words of j's cluster,
    where y = Σ_l E_l[c_{t-l}] has a vector for each of k clusters; before the sentence stands a cluster of its own.

    A hidden state determines its cluster, so this is an HMM whose hidden state is (z_t, c_{t-1}, …, c_{t-k}). All but
    z_t is seen in the text, and inference stays exact in the same blocks. Each distribution is a product of two experts
    (Hinton 2002), and its normaliser a matrix product of their probabilities.

    `words` and `successors` show a state's own expert alone; `next_words` takes it to have begun the sentence.

    Args:
        history: k.
        history_dropout: share of the numbers of y, and of the outputs of its networks, that is set to 0.
    """

    same_as_parent = (*TwoLevelHMM.same_as_parent, "history")

    def __init__(
        self,
        *,
        vocabulary_size: int,
        history: Size,
        history_dropout: Dropout,
        **options: Unpack[NeuralBlockHMMOptions],
    ):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        self.history = history
        self.past = nn.EmbeddingBag(history * (self.clusters + 1), self.dim, mode="sum")
        nn.init.normal_(self.past.weight, std=0.1)
        self.past_dropout = nn.Dropout(history_dropout)
        self.past_cluster, self.past_state, self.past_word = (Residual(self.dim, history_dropout) for _ in range(3))

    def initial_state(self, batch_size: int) -> State:
        belief, cluster = super().initial_state(batch_size)
        return belief, cluster, cluster[:, None].repeat(1, self.history)

    def state_after(self, z: int) -> State:
        past = self.initial_state(1)[2]
        past[:, -1] = z // self.size
        return *super().state_after(z), past

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs, after = super().forward(tokens, state)
        return logprobs, (*after, torch.cat([state[2], self.cluster[tokens]], 1)[:, -self.history :])

    def logits(self, past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, k) clusters of the last words -> (N, M) logits of clusters; (N, d) vectors, of which the dot products
        with those of states and words are their logits."""
        y = self.past_dropout(self.past(past + (self.clusters + 1) * torch.arange(self.history, device=self.device)))
        cluster = single(self.past_cluster(y) @ self.next_cluster.weight.T)
        return cluster, self.past_state(y), self.past_word(y)

    def chain_given(self, tables: BlockTables, tokens: Tensor, state: State) -> Chain:
        chain = super().chain_given(tables, tokens, state)
        (B, T), K = tokens.shape, chain.tiles.shape[1]
        clusters = torch.cat([state[2], chain.block], 1)
        source, target = clusters[:, -T - 1 : -1].flatten(), chain.block.flatten()  # (N,)
        cluster, to_state, to_word = self.logits(clusters[:, :-1].unfold(1, self.history, 1).flatten(0, 1))
        emission = chain.emission + self._of_words(to_word, tables.emission, tokens.flatten(), target).view(B, T, K)

        inside = (source < self.clusters).nonzero()[:, 0]  # the first step of a sentence has no history
        s, t = source[inside], target[inside]
        arrival, _, V = cast(TwoLevel, tables.transitions)
        states = single(grouped(torch.bmm, to_state[inside], V.mT.to(to_state.dtype), t))  # (n, K)
        departure = (
            cluster[inside, t][:, None]
            - grouped(log_normaliser, cluster[inside], arrival.mT, s)
            + arrival[s, :, t]  # a part of the tiles, which is none of p(j | c, i)
            - grouped(log_normaliser, states, chain.tiles.mT, chain.pair.flatten().to(inside.device)[inside])
        )
        whole = departure.new_zeros(B * T, K)
        return chain._replace(
            departure=whole.index_add(0, inside, departure).view(B, T, K),
            emission=emission + whole.index_add(0, inside, states).view(B, T, K),
        )

    def _of_words(self, vectors: Tensor, emission: Tensor, words: Tensor, cluster: Tensor) -> Tensor:
        """(N, K) log of the factor of p(x | j, h) for (N,) words and (N, d) vectors of their histories."""
        order, by_cluster = cluster.argsort(stable=True), self.cluster.argsort(stable=True)
        counts, sizes = (c.bincount(minlength=self.clusters).tolist() for c in (cluster, self.cluster))
        of_tokens = (x.split(counts) for x in (F.embedding(order, vectors), words[order]))
        of_words = (
            x.split(sizes) for x in (by_cluster, *(F.embedding(by_cluster, Y) for Y in (self.word.weight, emission)))
        )
        found = [emission.new_empty(0, emission.shape[1])]
        for h, chosen, some, W, p in zip(*of_tokens, *of_words, strict=True):
            if len(h):
                logits = single(h @ W.T.to(h.dtype))  # (n, w)
                place = torch.searchsorted(some, chosen)[:, None]
                found.append(logits.gather(1, place) - log_normaliser(logits, p))
        return F.embedding(order.argsort(), torch.cat(found))

    def predict(self, state: State) -> Tensor:
        tables, V = self.current(), self.vocabulary_size
        rows = [tables.emission.new_empty(0, V)]  # of a batch without rows
        transitions, beliefs = cast(TwoLevel, tables.transitions), self._kept_belief(state, tables.kept)
        for belief, previous, *logits in zip(beliefs, state[1].tolist(), *self.logits(state[2]), strict=True):
            cluster, to_state, to_word = logits
            if previous == self.clusters:
                prior = tables.start
            else:
                arrival = (transitions.arrival[previous] + cluster).log_softmax(1)  # (K, M)
                states = single(transitions.V @ to_state)
                within = (transitions.leaving(previous) + states).log_softmax(2)  # (K, M, K)
                prior = (belief[:, None, None] + arrival[:, :, None] + within).logsumexp(0)
            emission = within_cluster(tables.emission + single(self.word.weight @ to_word)[:, None], self.cluster)
            rows.append((prior[self.cluster] + emission).logsumexp(1)[None])
        return torch.cat(rows)
