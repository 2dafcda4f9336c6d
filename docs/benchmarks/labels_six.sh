for part in train test; do {
    awk -F'\t' '/^# sent_id/ { split($0, name, "[ -]+") } $1 ~ /^[0-9]+$/ { text = text " " $2 }
        /^$/ { print name[4] "\t" substr(text, 2); text = "" }' $LMZOO_DATA/ud-ewt/*-$part.conllu
    awk '{ text = text " " $1 } /^$/ { print "wsj\t" substr(text, 2); text = "" }' $LMZOO_DATA/conll2000/$part.txt
} > six-$part.txt; done
lmzoo label task=classify task.train=six-train.txt task.test=six-test.txt labeller=LABELLER
