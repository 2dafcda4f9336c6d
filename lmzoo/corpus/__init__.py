"""Texts as tensors: corpora, vocabularies, and windows for models."""

from lmzoo.corpus.corpus import Context, Corpus
from lmzoo.corpus.entries import corpus_label, load_corpus
from lmzoo.corpus.vocabulary import EOS, EOS_ID, Vocabulary

__all__ = ["EOS", "EOS_ID", "Context", "Corpus", "Vocabulary", "corpus_label", "load_corpus"]
