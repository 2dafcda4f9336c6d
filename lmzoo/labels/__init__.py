"""Labels of words and texts: tasks, models, measures. Importing a model registers it."""

import lmzoo.labels.birnn
import lmzoo.labels.crf
import lmzoo.labels.hmm_tagger
import lmzoo.labels.local
import lmzoo.labels.majority
import lmzoo.labels.ngrams
import lmzoo.labels.perceptron
import lmzoo.labels.pool
import lmzoo.labels.recursive  # noqa: F401
