tr A-Z a-z < ptb/ptb.train.txt > ptb.txt
iconv -f cp1252 -t utf8 mr/rt-polarity.all | cut -d' ' -f2- > mr.txt
awk '/^[0-9]+\t/ {printf "%s ", tolower($2)} /^$/ {print ""}' ud-ewt/*.conllu > ewt.txt
awk '/^\.[ITABW]/ {text = /^\.W/; next} text {gsub(/[,.()\/]/, " & "); print tolower($0)}' cranfield/cran.all.1400 > cranfield.txt
