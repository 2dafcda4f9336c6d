"""The zoo: importing a family here registers its models."""

from lmzoo.models import (
    arpa,
    hmm,
    lds,
    lds_rnn,
    logbilinear,
    loglinear,
    lowrank_hmm,
    mixture,
    model_m,
    neural_hmm,
    ngram,
    nnlm,
    recurrent,
    twolevel_hmm,
    vlhmm,
)
from lmzoo.models.base import LanguageModel, State, WindowModel

__all__ = ["LanguageModel", "State", "WindowModel"]
