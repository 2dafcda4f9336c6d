"""A Gaussian linear dynamical system on one-hot words, learnt from co-occurrence counts only.

Belanger & Kakade, "A linear dynamical system model for text", ICML 2015, https://arxiv.org/abs/1502.04081,
with the EM of Martens, "Learning the linear dynamical system with ASOS", ICML 2010. Pure tensor functions:

    `statistics`     counts of words and of pairs up to a lag, and the covariances Ψ_k of one-hot words or of vectors
    `system`         the system and the small linear algebra that the others share
    `subspace`       a first system from the Ψ_k by subspace identification
    `steady_state`   the limits of Kalman filter and smoother, from h × h matrices only
    `asos`           EM on the Ψ_k
    `fit`            all steps in turn, for one-hot words

Everything is in float64. No matrix but the sparse Ψ_k has more than O(V h) numbers, for V words and states of size h.
"""
