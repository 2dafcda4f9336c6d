#!/usr/bin/env bash
# The HMM family on Penn Treebank on one GPU; stops after MINUTES with everything saved: call it again to go on.
#
#   LMZOO_DATA=… scripts/cluster/hmm_ptb.sh OUTPUTS [MINUTES] [MODEL-STATES …]
#
# Without rows, all of them: vlhmm and twolevel_hmm with 2^15, 2^16 and 2^17 states, lowrank_hmm with 2^14. A finished
# run is only reported.
set -euo pipefail
outputs=${1:?usage: hmm_ptb.sh OUTPUTS [MINUTES] [MODEL-STATES …]}
minutes=${2:-9}
shift $(($# < 2 ? $# : 2))
deadline=$((SECONDS + 60 * minutes))
if [ $# = 0 ]; then
    set -- twolevel_hmm-32768 vlhmm-32768 lowrank_hmm-16384 \
        twolevel_hmm-65536 vlhmm-65536 twolevel_hmm-131072 vlhmm-131072
fi
for row in "$@"; do
    model=${row%-*}
    left=$((deadline - SECONDS))
    [ "$left" -gt 20 ] || break
    timeout --signal=TERM --kill-after=60 "$left" \
        lmzoo train hydra.mode=RUN experiment="${model}_ptb" model.states="${row##*-}" \
        device=cuda trainer.precision=bfloat16 trainer.max_tokens=4096 run_dir="$outputs/$row" || echo "$row: exit code $?"
done
