"""Hidden Markov models, p(x) = Σ_z Π_t p(z_t | z_{t-1}) p(x_t | z_t), with hidden states z_t in 0, …, Z - 1.

Dense ones and block-sparse ones have the same methods. Their tables are the distributions; state dropout draws the
hidden states of each call of `tables` anew. ``chain``, ``words``, ``successors`` and ``next_words`` show what is
inside. They are meant for evaluation mode: in training some hidden states may be left out.
"""

from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.dense_hmm import DenseHMM

HiddenMarkovModel = DenseHMM | BlockHMM
