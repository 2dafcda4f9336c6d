"""Latent variable distillation: the hidden states of an HMM start from clusters of another model's embeddings.

Liu, Zhang & Van den Broeck, "Scaling up probabilistic circuits by latent variable distillation", ICLR 2023,
https://arxiv.org/abs/2210.04398. The encoder reads the text, and k-means of its vectors gives every token a hidden
state. With the states known, parameters maximise the complete-data likelihood

    log p(z, x) = Σ_t log p(z_t | z_{t-1}) + log p(x_t | z_t),

which needs no forward algorithm. Training by the likelihood of the words alone goes on from there.
"""

import logging
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from lmzoo.core.iterations import StateDict, iterations
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.numerics.kmeans import kmeans
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.encoder import embed_lines

if TYPE_CHECKING:
    from lmzoo.models.hmm.block_hmm import BlockHMM

log = logging.getLogger(__name__)

KMEANS_ITERATIONS = 15
RATE, WEIGHT_DECAY, WARMUP, CLIP = 0.006, 0.4, 100, 5.0
"""Of AdamW: learning rate, decay, steps of warm-up before a cosine to 0, and the limit of the gradient's norm."""
STEP_TOKENS, EPOCH_STEPS, ROW_TOKENS = 6144, 100, 64
"""Most tokens of a step; least steps of an epoch, for short texts; length of the pieces of text that are shuffled."""


def state_labels(vectors: Tensor, cluster: Tensor, clusters: int, size: int) -> Tensor:
    """Give each token one of the hidden states of its cluster, by k-means of the tokens' vectors.

    Args:
        vectors: (N, h).
        cluster: (N,) int64 the cluster of each token's word.
        clusters: M.
        size: S, the number of states of a cluster.

    Returns: (N,) int64 states, S c to S c + S - 1 in cluster c.
    """
    labels = torch.empty_like(cluster)
    of_clusters = cluster.argsort(stable=True).split(cluster.bincount(minlength=clusters).tolist())
    for c, tokens in enumerate(of_clusters):
        labels[tokens] = c * size + kmeans(vectors[tokens], size, KMEANS_ITERATIONS).to(labels)
    return labels


def previous_states(states: Tensor, tokens: Tensor, context: str) -> Tensor:
    """(N,) the state before each token of a (N,) text; -1 where a chain begins, which is every line by ``sentence``."""
    before = states.roll(1)
    before[0] = -1
    if context == "sentence":
        before[1:][tokens[:-1] == EOS_ID] = -1
    return before


def distil(model: "BlockHMM", corpus: Corpus, encoder: Encoder, epochs: int) -> None:
    """Label train by the encoder, and maximise its complete-data likelihood. A run that is resumed goes on in it."""
    tokens, seed = corpus.splits["train"].cpu(), torch.initial_seed()
    pieces = -(-len(tokens) // ROW_TOKENS)
    per_step = max(1, min(STEP_TOKENS // ROW_TOKENS, pieces // EPOCH_STEPS))
    per_epoch = -(-pieces // per_step)
    optimizer = AdamW(model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    states = previous = torch.empty(0, dtype=torch.int64)
    order, mean = torch.empty(0, dtype=torch.int64), math.nan

    def set_states(labels: Tensor) -> None:
        nonlocal states, previous
        states, previous = labels, previous_states(labels, tokens, corpus.context)

    def start() -> None:
        log.info("the hidden states start from clusters of the embeddings of %s tokens", f"{len(tokens):,}")
        vectors = embed_lines(encoder, tokens)
        set_states(state_labels(vectors, model.cluster.cpu()[tokens.long()], model.clusters, model.size))

    def load_state_dict(saved: StateDict) -> None:
        set_states(saved["states"])
        optimizer.load_state_dict(saved["optimizer"])

    def notes() -> list[str]:
        return [f"complete-data log-likelihood of {mean:.4f} nats per token"]

    total, training = epochs * per_epoch, model.training
    model.train()
    for step in iterations(
        total, "distillation", lambda: {"states": states, "optimizer": optimizer.state_dict()}, load_state_dict,
        start=start, notes=notes,
    ):  # fmt: skip
        epoch, number = divmod(step, per_epoch)
        if number == 0 or not len(order):  # a new epoch, or a resumed one
            order = torch.randperm(pieces, generator=torch.Generator().manual_seed(seed + epoch))
        first = order[number * per_step : (number + 1) * per_step, None] * ROW_TOKENS
        places = (first + torch.arange(ROW_TOKENS)).flatten()
        places = places[places < len(tokens)]
        torch.manual_seed(seed + step)  # the dropout of a step that is done again after an interruption
        source, target, words = (part[places].long().to(model.device) for part in (previous, states, tokens))
        loss = -model.distributions.joint_logprobs(source, target, words, model.cluster).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min((step + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * step / total))
        optimizer.step()
        mean = -loss.item()
    torch.manual_seed(seed)
    model.train(training)
    if not math.isnan(mean):  # a resumed run may have taken all steps before
        log.info("distillation ended at a %s", *notes())
