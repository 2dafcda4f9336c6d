"""A trigram model as lmplz writes it, but for the probabilities, which are easy to follow by hand."""

KENLM = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-2\t<unk>\t0
0\t<s>\t-0.5
-1\t</s>\t0
-0.9\ta\t-0.4
-0.8\tb\t-0.3

\\2-grams:
-0.3\t<s> a\t-0.2
-0.35\ta b\t-0.1
-0.2\tb </s>\t0
-0.6\ta </s>\t0

\\3-grams:
-0.15\t<s> a b
-0.05\ta b </s>

\\end\\
"""
