"""A Gaussian linear dynamical system on one-hot words, learnt from co-occurrence counts alone.

Belanger & Kakade, "A linear dynamical system model for text", ICML 2015, https://arxiv.org/abs/1502.04081,
with the EM of Martens, "Learning the linear dynamical system with ASOS", ICML 2010. Pure tensor functions,
from the text to the state of every token:

    `statistics`     counts of words and of pairs up to a lag, and their covariances Ψ_k as operators
    `subspace`       a first system from the Ψ_k by subspace identification
    `steady_state`   the Kalman filter's limit, from h × h matrices alone
    `asos`           EM on the Ψ_k
    `projection`     the same with a given vector for each word instead of one-hot words
    `inference`      filter and smoother over batches of sentences; embeddings of tokens
    `fit`            all of it in turn

All estimation is in float64; nothing is larger than O(V h), V words and h the size of the state.
"""
