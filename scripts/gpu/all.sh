#!/usr/bin/env bash
# Every row that the documentation lacks for want of a GPU, on one GPU: first two minutes of tests, then
# the short rows, then the long ones. It stops after MINUTES with everything saved: call it again to go on.
#
#   LMZOO_DATA=… scripts/gpu/all.sh OUTPUTS [MINUTES]
#
# OUTPUTS/report is small, and all that is worth sending: the tests, a table with perplexity and tokens a second, the GPU
# with its memory over time, and results, options, provenance and log of each run.
set -euo pipefail
outputs=${1:?usage: all.sh OUTPUTS [MINUTES]}
deadline=$((SECONDS + 60 * ${2:-9}))
report=$outputs/report
mkdir -p "$report"
if command -v nvidia-smi > /dev/null; then
    nvidia-smi --query-gpu=timestamp,name,driver_version,memory.used,utilization.gpu --format=csv -l 20 >> "$report/gpu.csv" &
    trap 'kill $!' EXIT
fi

row() { # NAME OVERRIDES…
    local name=$1 left=$((deadline - SECONDS))
    shift
    [ "$left" -gt 20 ] || return 0
    timeout --signal=TERM --kill-after=60 "$left" lmzoo train hydra.mode=RUN device=cuda \
        run_dir="$outputs/$name" "$@" || echo "$name: exit code $?"
    mkdir -p "$report/$name"
    for file in results.json config.yaml provenance.json train.log; do
        [ ! -e "$outputs/$name/$file" ] || cp "$outputs/$name/$file" "$report/$name"
    done
}

recurrent() { # PRESET: the row, and after it those with its last words and with dynamic evaluation
    row "$1" experiment="$1"
    [ -e "$outputs/$1/results.json" ] || return 0
    local over=(corpus=ptb model.run="$outputs/$1")
    row "$1-cache" model=cache "${over[@]}" model.theta=0.3 model.size=2000
    row "$1-dynamic" model=dynamic "${over[@]}" model.rate=0.0002 model.epsilon=0.00002
}

if [ ! -e "$report/tests.txt" ]; then
    timeout 120 python -m pytest -n 0 -q -k cuda "$(dirname "$0")/../../tests/device" > "$report/tests.txt" 2>&1 ||
        echo "tests: exit code $?; see $report/tests.txt"
fi
row teacher experiment=lstm_sentences_ptb
[ ! -e "$outputs/teacher/results.json" ] ||
    row twolevel_hmm-taught experiment=twolevel_hmm_ptb model.states=65536 model.temperature=0.9 trainer.epochs=18 \
        model.teacher="$outputs/teacher" model.teacher_weight=2
row vlhmm-wikitext2 experiment=vlhmm_ptb corpus=wikitext2 model.states=32768 model.state_dropout=0.5
recurrent zaremba_small
recurrent zaremba_medium
for states in 32768 65536 131072; do
    row "vlhmm-$states" experiment=vlhmm_ptb model.states=$states model.state_dropout=0.5
    row "twolevel_hmm-$states" experiment=twolevel_hmm_ptb model.states=$states
done
recurrent awd_lstm_ptb
lmzoo compare "$outputs" --csv "$report/table.csv" | tee "$report/table.txt" || echo "no run is finished yet"
