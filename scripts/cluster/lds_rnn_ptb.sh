#!/usr/bin/env bash
# The RNN of 300 units from random weights and from a linear dynamical system, three seeds, on one GPU; stops after
# MINUTES with everything saved: call it again to go on. Learning rates come first, of both starts, on seed 0.
#
#   LMZOO_DATA=… scripts/cluster/lds_rnn_ptb.sh OUTPUTS [MINUTES] [RATE …]
#
# A finished run is only reported.
set -euo pipefail
outputs=${1:?usage: lds_rnn_ptb.sh OUTPUTS [MINUTES] [RATE …]}
minutes=${2:-9}
shift $(($# < 2 ? $# : 2))
deadline=$((SECONDS + 60 * minutes))

row() { # NAME OVERRIDES…
    local name=$1 left=$((deadline - SECONDS))
    shift
    [ "$left" -gt 20 ] || exit 0
    timeout --signal=TERM --kill-after=60 "$left" lmzoo train hydra.mode=RUN experiment=lds_rnn_ptb \
        device=cuda run_dir="$outputs/$name" "$@" || echo "$name: exit code $?"
}

for rate in "${@:-0.003}"; do
    row "random-$rate-0" optimizer.lr="$rate" model.dynamics=false model.input=false
    row "system-$rate-0" optimizer.lr="$rate"
done
rate=${1:-0.003}
for seed in 0 1 2; do
    row "random-$rate-$seed" seed="$seed" optimizer.lr="$rate" model.dynamics=false model.input=false
    row "system-$rate-$seed" seed="$seed" optimizer.lr="$rate"
    row "dynamics-$rate-$seed" seed="$seed" optimizer.lr="$rate" model.input=false
    row "input-$rate-$seed" seed="$seed" optimizer.lr="$rate" model.dynamics=false
    row "head-$rate-$seed" seed="$seed" optimizer.lr="$rate" model.head=300
done
