for split in train dev test; do
  awk -F'\t' '/^# sent_id/ {sub(/.* = /, ""); sub(/-.*/, ""); printf "%s\t", $0}
    /^[0-9]+\t/ {printf "%s ", $2} /^$/ {print ""}' en_ewt-ud-$split.conllu > ewt.$split
done
lmzoo train corpus=text corpus.train=ewt.train corpus.valid=ewt.dev corpus.test=ewt.test \
    corpus.condition=true corpus.context=sentence corpus.lower=true corpus.min_count=2 model=lstm model.embedding=100 \
    model.hidden=100 model.classes=100 trainer.epochs=4 device=cpu run_dir=outputs/genres
lmzoo generate outputs/genres --condition reviews --temperature 0.7
