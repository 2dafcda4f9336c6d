"""Inference in hidden Markov models: pure functions on tensors, log-probabilities in nats.

Block-sparse ones: Chiu and Rush, "Scaling Hidden Markov Language Models", EMNLP 2020,
https://aclanthology.org/2020.emnlp-main.103.

- `dense`: the forward recursion where every state leads to every state; `baum_welch` is its EM.
- `blocks`: the forward recursion where only the states of a word's cluster emit it, which takes transitions as tiles.
- `tiles`, `lowrank`: those transition tiles, of full and of low rank.
- `emissions`: log-softmaxes over the words of a cluster.
- `paths`: which states a text went through: the likeliest path, posteriors, samples.
- `underflow`: sums of probabilities, exact where they underflow.
- `grouping`: what several of these share.
"""
