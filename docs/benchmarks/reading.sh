lmzoo train -m model=ngram corpus=ptb corpus.context=sentence model.order=1,2,3,4,5
lmzoo train model=loglinear corpus=ptb corpus.context=sentence run_dir=outputs/loglinear
lmzoo reading outputs/ptb/ngram-{f916cc,562e72,9ccdad,e4de68,37ea54} outputs/loglinear processed_wordinfo.tsv \
  --tokenize ptb --plot reading.png --csv reading.csv
