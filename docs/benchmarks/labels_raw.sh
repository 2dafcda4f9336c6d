small='function small(w) { return w ~ /^[0-9.,:\/\\-]*[0-9][0-9.,:\/\\-]*$/ ? "N" : tolower(w) }
       function end() { if (s) print substr(s, 2); s = "" } END { end() }'
conllu() { awk -F'\t' "$small"' $1 ~ /^[0-9]+$/ { s = s " " small($2) } /^$/ { end() }' "$@"; }
d=$LMZOO_DATA
{ cat $d/ptb/ptb.train.txt; awk "$small"' NF { s = s " " small($1) } !NF { end() }' $d/conll2000/{train,test}.txt
  conllu $d/ud-ewt/*-{train,dev,test}.conllu; } > raw.txt; conllu $d/ud-ewt/*-dev.conllu > dev.txt
text="corpus=text corpus.train=raw.txt corpus.valid=dev.txt corpus.max_size=20000"
lmzoo train $text model=lds model.hidden=200 model.classes=128 trainer.epochs=1 run_dir=lds      # 440 s
lmzoo vectors $text method=skipgram method.dim=200 method.min_count=1 run_dir=skipgram           # 35 s
lmzoo vectors $text method=ppmi method.dim=200 method.window=2 method.min_count=1 run_dir=ppmi    # 5 s
lmzoo vectors $text method=type method.run=lds method.min_count=1 run_dir=type                   # 4 s
lmzoo cluster --text raw.txt --clusters 256 --paths paths.txt                                    # 125 s
