"""Vectors of words: ways to learn them from a text, files of them, and what they are worth."""

from lmzoo.words.vectors.counting import LSA, PPMI
from lmzoo.words.vectors.fasttext import FastText
from lmzoo.words.vectors.from_runs import Joined, TypeVectors
from lmzoo.words.vectors.glove import GloVe
from lmzoo.words.vectors.word2vec import CBOW, SkipGram
