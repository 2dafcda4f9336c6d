#!/usr/bin/env bash
# The recurrent presets of Penn Treebank on one GPU, each with a neural cache and with dynamic evaluation; stops after
# MINUTES with everything saved: call it again to go on.
#
#   LMZOO_DATA=… scripts/cluster/recurrent_ptb.sh OUTPUTS [MINUTES] [PRESET …]
#
# A finished run is only reported. Options of cache and dynamic evaluation are compared on valid, in results.json.
set -euo pipefail
outputs=${1:?usage: recurrent_ptb.sh OUTPUTS [MINUTES] [PRESET …]}
minutes=${2:-9}
shift $(($# < 2 ? $# : 2))
deadline=$((SECONDS + 60 * minutes))
[ $# -gt 0 ] || set -- awd_lstm_ptb lstm_512_tied_ptb lstm_2x512_ptb lstm_2x512_again_ptb lstm_2x512_end_ptb \
    zaremba_medium zaremba_small gru_ptb rnn_ptb
declare -A from=([lstm_2x512_again_ptb]=lstm_2x512_ptb [lstm_2x512_end_ptb]=lstm_2x512_again_ptb)

row() { # NAME OVERRIDES…
    local name=$1 left=$((deadline - SECONDS))
    shift
    [ "$left" -gt 20 ] || exit 0
    timeout --signal=TERM --kill-after=60 "$left" lmzoo train hydra.mode=RUN device=cuda \
        run_dir="$outputs/$name" "$@" || echo "$name: exit code $?"
}

for preset in "$@"; do
    row "$preset" experiment="$preset" ${from[$preset]:+trainer.from="$outputs/${from[$preset]}"}
    [ -e "$outputs/$preset/results.json" ] || continue
    run="model.run=$outputs/$preset"
    for theta in 0.0 0.3 1.0 3.0; do
        row "$preset-cache-$theta" model=cache corpus=ptb "$run" model.theta="$theta" model.size=2000
    done
    for rates in "0.0001 0.00001" "0.0002 0.00002" "0.0004 0.00005"; do
        read -r rate epsilon <<<"$rates"
        row "$preset-dynamic-$rate" model=dynamic corpus=ptb "$run" model.rate="$rate" model.epsilon="$epsilon"
    done
done
