# https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip
echo "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590  wikitext-103-v1.zip" | sha256sum -c
unzip wikitext-103-v1.zip
lmzoo train corpus=text corpus.label=wikitext103 corpus.train=wikitext-103/wiki.train.tokens \
    corpus.valid=wikitext-103/wiki.valid.tokens corpus.test=wikitext-103/wiki.test.tokens model=lstm

# http://www.statmt.org/lm-benchmark/1-billion-word-language-modeling-benchmark-r13output.tar.gz
lm=1-billion-word-language-modeling-benchmark-r13output
echo "01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e  $lm.tar.gz" | sha256sum -c
tar -xzf $lm.tar.gz
lmzoo train corpus=text corpus.label=lm1b corpus.valid=valid.txt corpus.min_count=3 \
    "corpus.train=$lm/training-monolingual.tokenized.shuffled/news.en-*" corpus.context=sentence model=lstm
