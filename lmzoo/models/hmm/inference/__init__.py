"""Inference in hidden Markov models: pure functions on tensors, log-probabilities in nats.

Where every state leads to every state, `dense` has the forward recursion and `baum_welch` its EM. Where only the states
of a word's cluster emit it, `blocks` has the recursion, `tiles` and `lowrank` the transitions, `emissions` the rest
(Chiu and Rush, "Scaling Hidden Markov Language Models", EMNLP 2020, https://aclanthology.org/2020.emnlp-main.103).
"""
