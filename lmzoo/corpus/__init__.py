"""Text as numbers: corpora, vocabularies, and windows, in which models read a text."""

from lmzoo.corpus.corpus import Context, Corpus
from lmzoo.corpus.entries import corpus_label, load_corpus
from lmzoo.corpus.vocabulary import EOS, EOS_ID, Vocabulary

__all__ = ["EOS", "EOS_ID", "Context", "Corpus", "Vocabulary", "corpus_label", "load_corpus"]
