#!/usr/bin/env bash
# VL-HMM rows on Penn Treebank on one GPU; stops after MINUTES with everything saved: call it again to go on.
#
#   LMZOO_DATA=… scripts/gpu/vlhmm_ptb.sh OUTPUTS [MINUTES] [STATES …]
#
# A finished run is only reported.
set -euo pipefail
outputs=${1:?usage: vlhmm_ptb.sh OUTPUTS [MINUTES] [STATES …]}
minutes=${2:-9}
shift $(($# < 2 ? $# : 2))
deadline=$((SECONDS + 60 * minutes))
for states in "${@:-32768}"; do
    left=$((deadline - SECONDS))
    [ "$left" -gt 20 ] || break
    timeout --signal=TERM --kill-after=60 "$left" \
        python -m lmzoo.train experiment=vlhmm_ptb device=cuda \
        model.states="$states" run_dir="$outputs/vlhmm-$states" || echo "vlhmm-$states: exit code $?"
done
