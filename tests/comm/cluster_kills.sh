#!/bin/sh
# SPDX-License-Identifier: MIT cluster_kills.sh ENGINE COUNT NODE MODULES: COUNT jobs of 2 to 4 workers. In each job one
# worker is killed at another step of its reductions. Over Gloo the others must name it within 2 s and hold whole sums
# only; over MPI the job must end within 10 s.
set -u
engine=$1 count=$2 node=$3 modules=$4
here=$(dirname "$0")
[ -e "$modules/copse_$engine.so" ] || { echo "skipped: the engine $engine is not built"; exit 77; }
[ "$engine" != mpi ] || command -v mpirun >/dev/null ||
    { echo "skipped: mpirun is not there: install the Debian package openmpi-bin"; exit 77; }

# first nobody dies: that all goes well, and how many steps everybody has to die in
steps=
for workers in 2 3 4; do
    said=$("$here/cluster.sh" "$engine" $workers "$node" "$modules" reduce 99) ||
        { echo "$said"; exit 1; }
    steps="$steps $(printf '%s\n' "$said" | sed -n 's/^rank [0-9]*: \([0-9]*\) exchange steps.*/\1/p')"
done
steps=$(printf '%s\n' $steps | sort -n | head -n 1)
[ "${steps:-0}" -gt 0 ] || { echo "$said"; exit 1; }

i=0 failed=0
while [ $i -lt "$count" ]; do
    workers=$((2 + i % 3))
    victim=$((i / 3 % workers))
    at=$((i * 7919 % steps))
    said=$("$here/cluster.sh" "$engine" $workers "$node" "$modules" reduce $victim $at 2>&1) || {
        echo "worker $victim of $workers killed before step $at:"
        printf '%s\n' "$said"
        failed=1
    }
    i=$((i + 1))
done
[ $failed = 0 ] && echo "$count kills over $engine, in $steps steps"
exit $failed
