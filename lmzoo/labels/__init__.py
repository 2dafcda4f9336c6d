"""Labels of words and texts: tasks, models, measures. Importing a labeller registers it."""

from lmzoo.labels.birnn import BiRNN
from lmzoo.labels.crf import Crf
from lmzoo.labels.hmm_tagger import HmmTagger
from lmzoo.labels.local import Local
from lmzoo.labels.majority import Majority
from lmzoo.labels.ngrams import NBSVM, LogisticRegression, NaiveBayes
from lmzoo.labels.perceptron import Perceptron
from lmzoo.labels.pool import Pool
from lmzoo.labels.recursive import RecursiveNetwork, RecursiveTensorNetwork, TreeLSTMLabeller
