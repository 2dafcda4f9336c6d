"""The zoo: importing a family here registers its models."""

from lmzoo.models import arpa, lds, lds_rnn, loglinear, ngram, recurrent, vlhmm
from lmzoo.models.base import LanguageModel, State, WindowModel

__all__ = [
    "LanguageModel",
    "State",
    "WindowModel",
    "arpa",
    "lds",
    "lds_rnn",
    "loglinear",
    "ngram",
    "recurrent",
    "vlhmm",
]
