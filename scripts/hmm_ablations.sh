#!/usr/bin/env bash
# What each part of the very large HMM is worth on Penn Treebank, after the ablations of Chiu & Rush (2020): 2^12
# states and three epochs, each row but for what its name says as the first. Call it again to go on; a finished run is
# only reported. Tables learn nothing at the rate that is right for networks, and have their own.
#
#   LMZOO_DATA=… scripts/hmm_ablations.sh OUTPUTS [ROW …]
set -euo pipefail
outputs=${1:?usage: hmm_ablations.sh OUTPUTS [ROW …]}
shift
declare -A rows=(
    [whole]=""
    [all-states]="model.state_dropout=0"
    [table]="model.parameterisation=table optimizer.lr=0.1 optimizer.weight_decay=0"
    [uniform]="model.clustering=uniform"
    [frequency]="model.clustering=frequency"
    [clusters-64]="model.clusters=64"
    [clusters-256]="model.clusters=256"
    [factored-tied]="model.embeddings=factored model.tied=true"
    [no-decay]="optimizer.weight_decay=0"
    [decay-1]="optimizer.weight_decay=1"
    [two-level]="model=twolevel_hmm"
    [low-rank]="model=lowrank_hmm model.features=1024"
)
if [ $# = 0 ]; then
    set -- whole all-states table uniform frequency no-decay two-level low-rank clusters-256 clusters-64 factored-tied decay-1
fi
for row in "$@"; do
    : "${rows[$row]?there is no row $row}"
done
failed=0
for row in "$@"; do
    read -ra changes <<<"${rows[$row]}"
    lmzoo train experiment=vlhmm_ptb model.states=4096 model.clusters=128 model.tied=false \
        model.state_dropout=0.5 model.dropout=0 optimizer.lr=0.01 optimizer.weight_decay=0.3 trainer.max_tokens=4096 \
        trainer.epochs=3 trainer.precision=bfloat16 run_dir="$outputs/$row" "${changes[@]}" || failed=$?
    ((failed == 130)) && exit 130 # Ctrl-C
done
exit "$failed"
