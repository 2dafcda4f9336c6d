"""Inference in hidden Markov models: pure functions on tensors, log-probabilities in nats.

`blocks` walks from cluster to cluster, where a word is emitted by the states of its own cluster alone; `lowrank`
has transitions for it; `dense` goes from every state to every state; `baum_welch` is its EM; `paths` tells what the
states were.
"""
