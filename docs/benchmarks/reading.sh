lmzoo train -m model=ngram corpus=ptb corpus.context=sentence model.order=1,2,3,4,5
lmzoo train model=loglinear corpus=ptb corpus.context=sentence run_dir=outputs/loglinear
lmzoo train experiment=hmm_em_ptb run_dir=outputs/hmm
lmzoo train experiment=lds_ptb run_dir=outputs/lds
lmzoo train experiment=lstm_ptb model=rnn model.classes=128 run_dir=outputs/rnn
lmzoo train experiment=lstm_ptb model.classes=128 run_dir=outputs/lstm
lmzoo reading outputs/ptb/* outputs/loglinear outputs/nnlm_modern outputs/hmm outputs/twolevel_hmm_again outputs/lds \
  outputs/rnn outputs/lstm processed_wordinfo.tsv --tokenize ptb --plot reading.png --csv reading.csv
