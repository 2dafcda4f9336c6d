words='function end() { if (s) print substr(s, 2); s = "" } END { end() }'
chunks() { awk "$words"' NF { s = s " " tolower($1) } !NF { end() }' $1; }
conllu() { awk -F'\t' "$words"' $1 ~ /^[0-9]+$/ { s = s " " tolower($2) } /^$/ { end() }' $1; }
d=$LMZOO_DATA
awk 'BEGIN { RS = ""; ORS = "\n\n" } NR <= 8042' $d/conll2000/train.txt > outputs/fit.txt
awk 'BEGIN { RS = ""; ORS = "\n\n" } NR > 8042' $d/conll2000/train.txt > outputs/held.txt
{ chunks outputs/fit.txt; conllu $d/ud-ewt/en_ewt-ud-train.conllu; } > lm.train.txt
{ chunks outputs/held.txt; conllu $d/ud-ewt/en_ewt-ud-dev.conllu; } > lm.valid.txt
text="corpus=text corpus.train=lm.train.txt corpus.valid=lm.valid.txt corpus.context=sentence corpus.min_count=2"
lm="model=lstm model.embedding=100 model.hidden=128 model.tied=false model.classes=100 model.dropout=0.4"
once="trainer.epochs=6 trainer.precision=float32 device=cpu"
lmzoo train $text $lm $once run_dir=outputs/forward                           # valid perplexity 159.15
lmzoo train $text $lm $once corpus.reverse=true run_dir=outputs/backward      # 157.82
chunk="lmzoo label task=chunk task.train=outputs/fit.txt task.valid=outputs/held.txt device=cpu"
$chunk labeller=crf labeller.tolerance=1e-3 run_dir=outputs/chunk/lm_none  # the others with labeller.encoder
