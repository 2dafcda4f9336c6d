#!/usr/bin/env bash
# Estimates a 5-gram model of words drawn by Zipf's law, by lmzoo and KenLM's lmplz in turns: seconds on the clock, of
# processor time, and the most memory in MiB.
#
#   scripts/benchmarks/lmplz.sh LMPLZ FOLDER [TOKENS [ROUNDS [MEMORY]]]
#
# Both read the same text file; lmplz writes an ARPA file, lmzoo a run. lmplz sorts in MEMORY GiB, lmzoo counts in as many,
# and in memory without a limit. A process has as many threads as it likes: set OMP_NUM_THREADS for those of lmzoo.
set -euo pipefail
lmplz=${1:?usage: lmplz.sh LMPLZ FOLDER [TOKENS [ROUNDS [MEMORY]]]}
folder=${2:?usage: lmplz.sh LMPLZ FOLDER [TOKENS [ROUNDS [MEMORY]]]}
tokens=${3:-10000000}
memory=${5:-4}
text=$folder/train-$tokens.txt
mkdir -p "$folder"
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$text" ] || PYTHONPATH=$here:${PYTHONPATH:-} python - "$text" "$tokens" <<'DRAW'
import sys
from pathlib import Path

from corpus import draw

draw(Path(sys.argv[1]), int(sys.argv[2]), 267_735)
DRAW
head -1000 "$text" > "$folder/valid.txt"

measured() { # NAME COMMAND…
    local name=$1
    shift
    python - "$@" <<'MEASURE' | sed "s/^/$name /"
import resource
import subprocess
import sys
import time

began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{time.perf_counter() - began:.1f} {used.ru_utime + used.ru_stime:.1f} {used.ru_maxrss / 1024:.0f}")
MEASURE
}

estimated() { # NAME OPTION…
    local name=$1
    shift
    rm -rf "$folder/run" "$folder/cache"
    measured "$name" lmzoo train model=ngram model.order=5 corpus=text "corpus.train=$text" \
        "corpus.valid=$folder/valid.txt" corpus.unknown=true corpus.context=sentence "run_dir=$folder/run" "$@"
}

export LMZOO_CACHE=$folder/cache TMPDIR=$folder
for _ in $(seq "${4:-3}"); do
    estimated lmzoo
    estimated lmzoo-files "model.memory=$memory"
    rm -f "$folder/kenlm.arpa"
    measured lmplz "$lmplz" -o 5 -S "${memory}G" -T "$folder" --discount_fallback --text "$text" \
        --arpa "$folder/kenlm.arpa"
done
