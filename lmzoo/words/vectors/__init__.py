"""Vectors of words: ways to learn them from a text, files of them, and what they are worth."""

import lmzoo.words.vectors.counting
import lmzoo.words.vectors.fasttext
import lmzoo.words.vectors.glove
import lmzoo.words.vectors.ready
import lmzoo.words.vectors.word2vec  # noqa: F401
