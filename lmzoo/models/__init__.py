"""The zoo: importing a model here registers it."""

import lmzoo.models.combined.cache
import lmzoo.models.combined.dynamic
import lmzoo.models.combined.mixture
import lmzoo.models.combined.whole_sentence
import lmzoo.models.hmm.hmm
import lmzoo.models.hmm.lowrank_hmm
import lmzoo.models.hmm.neural_hmm
import lmzoo.models.hmm.twolevel_hmm
import lmzoo.models.hmm.vlhmm
import lmzoo.models.lds.lds
import lmzoo.models.lds.lds_rnn
import lmzoo.models.maxent.loglinear
import lmzoo.models.maxent.model_m
import lmzoo.models.neural.logbilinear
import lmzoo.models.neural.nnlm
import lmzoo.models.neural.recurrent
import lmzoo.models.ngram.arpa
import lmzoo.models.ngram.infinigram
import lmzoo.models.ngram.ngram
