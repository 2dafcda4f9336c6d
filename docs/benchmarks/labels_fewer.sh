words() { awk -F'\t' '$1 ~ /^[0-9]+$/ { s = s " " tolower($2) } /^$/ && s { print substr(s, 2); s = "" }' "$@"; }
for part in train dev; do words $LMZOO_DATA/ud-ewt/*-$part.conllu > $part.txt; done
for n in 10 100; do
    awk -v n=$n 'BEGIN { RS = ""; ORS = "\n\n" } NR % n == 1' $LMZOO_DATA/ud-ewt/*-train.conllu > $n.conllu
done
lmzoo train corpus=text corpus.train=train.txt corpus.valid=dev.txt corpus.context=sentence \
    corpus.min_count=2 model=lstm model.embedding=100 model.hidden=128 model.tied=false model.classes=100 \
    model.dropout=0.4 trainer.epochs=8 run_dir=lm  # 159 s of processor time, valid perplexity 145.4
label="lmzoo label task=upos labeller=birnn"
$label task.train=100.conllu labeller.batch=250 labeller.epochs=24 run_dir=a  # 54 s; with labeller.from=lm run_dir=d
$label task.train=10.conllu labeller.batch=250 run_dir=b                      # 87 s; likewise e
$label labeller.epochs=4 run_dir=c                                            # 130 s; likewise f
python docs/pictures/label_shares.py docs/pictures/labels-shares.png 'random weights=a,b,c' 'a language model=d,e,f'
