"""The models, as PyTorch modules: ``from lmzoo.models import LSTM``. Importing one registers it by its name."""

from lmzoo.models.combined.cache import Cache
from lmzoo.models.combined.dynamic import Dynamic
from lmzoo.models.combined.mixture import Mixture
from lmzoo.models.combined.whole_sentence import WholeSentence
from lmzoo.models.hmm.hmm import HMM
from lmzoo.models.hmm.lowrank_hmm import LowRankHMM
from lmzoo.models.hmm.neural_hmm import NeuralHMM
from lmzoo.models.hmm.twolevel_hmm import TwoLevelHMM
from lmzoo.models.hmm.vlhmm import VeryLargeHMM
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.models.lds.lds_rnn import LDSRNN
from lmzoo.models.maxent.loglinear import LogLinear
from lmzoo.models.maxent.model_m import ModelM
from lmzoo.models.neural.logbilinear import LogBilinear
from lmzoo.models.neural.nnlm import NNLM
from lmzoo.models.neural.recurrent import GRU, LSTM, RNN
from lmzoo.models.ngram.arpa import Arpa
from lmzoo.models.ngram.infinigram import InfiniGram
from lmzoo.models.ngram.ngram import NGram
