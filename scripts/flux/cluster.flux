#!/bin/bash
# A run under Flux: eight ranks a node, one to each GPU, each with the cores that Flux gives it.
#
#   flux batch scripts/flux/cluster.flux RUN.yaml [--set key=value]...
#
# Change the lines that begin with #flux: to your machine. They hold for the next job, too, which options on flux batch's
# line do not. Five minutes before the job's time is over the run saves a checkpoint, and a next job is submitted, RESTARTS
# times at most. One rank that is lost ends the job at once; where a whole node is, it takes the same flux batch line again.
#
# Never run under Flux by us: a test runs it with a stand-in for flux. Options and lines: the manual pages flux-batch(1),
# flux-run(1), flux-shell-options(7), flux-environment(7) of flux-core, read on 2026-11-23. That --signal reaches the tasks
# and this script: issues 5202, 6729 and 6968 of github.com/flux-framework/flux-core. Before 6729 (2025) it reached only the
# tasks, which is why a run that a signal stopped (status 130) counts as well. To be checked there: whether a cancelled job
# gets as far as the end of this script. Open MPI 5 needs the plugin flux-pmix: MPI="-o pmi=pmix".
#flux: --job-name=trireme
#flux: -N 2
#flux: --exclusive
#flux: -t 2h
#flux: --signal=USR1@5m
#flux: --output=trireme-{{id}}.log
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: flux batch $0 RUN.yaml [--set key=value]..." >&2
  exit 2
fi

TRIREME=${TRIREME:-trireme}
RESTARTS=${RESTARTS:-100}
each=${RANKS_PER_NODE:-8}
# Where this file lies: the one that runs is a copy of it.
SCRIPT=${SCRIPT:-scripts/flux/cluster.flux}
if [ ! -e "$SCRIPT" ]; then
  echo "trireme: there is no $SCRIPT in $PWD, so that no next job can be submitted; SCRIPT=PATH flux batch ... says where" \
    "it is" >&2
fi

nodes=$(flux resource list -n -o '{nnodes}')
cores=$(flux resource list -n -o '{ncores}')
export OMP_NUM_THREADS="$((cores / nodes / each > 0 ? cores / nodes / each : 1))" OMP_PLACES=cores OMP_PROC_BIND=close

# Flux tells the ranks itself that the time is nearly over, and this shell beside them. A cancelled job goes no further.
told='' time_is_up='' cancelled=''
trap 'told=yes time_is_up=yes' USR1
trap 'told=yes cancelled=yes' TERM HUP

# MPI is several words.
# shellcheck disable=SC2086
flux run ${MPI:-} -N "$nodes" --exclusive --tasks-per-node="$each" -o cpu-affinity=per-task -o gpu-affinity=per-task \
  -o exit-on-error "$TRIREME" train "$@" --resume auto &
ranks=$!

# A signal ends `wait` before the ranks have ended.
while :; do
  told='' status=0
  wait "$ranks" || status=$?
  [ -n "$told" ] || break
done
[ "$status" -ne 130 ] || time_is_up=yes

if [ "$status" -eq 0 ]; then
  echo "trireme: the job is done" >&2
elif [ "$status" -eq 2 ] || [ "$status" -eq 3 ]; then
  echo "trireme: the command or the run file is wrong (status $status), as is said above; the same flux batch line fails in the" \
    "same way until that is changed" >&2
elif [ -z "$time_is_up" ] || [ -n "$cancelled" ]; then
  echo "trireme: the job ended with status $status before its time; why is said above. The same flux batch line goes on from" \
    "the newest checkpoint" >&2
elif [ "$RESTARTS" -le 0 ]; then
  echo "trireme: the time is over, and RESTARTS allows no next job; the same flux batch line goes on from the newest" \
    "checkpoint" >&2
else
  echo "trireme: the time is over; a next job is submitted, and may submit $((RESTARTS - 1)) more" >&2
  export RESTARTS=$((RESTARTS - 1))
  flux --parent batch "$SCRIPT" "$@" || exit "$status"
fi
exit "$status"
