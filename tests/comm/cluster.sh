#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster.sh ENGINE WORKERS NODE MODULES SCENARIO [argument [second]]: runs a scenario of cluster/node.c as
# several processes, over MPI or Gloo, and demands that every one of them is content.
set -u
engine=$1 workers=$2 node=$3 modules=$4 scenario=$5 argument=${6-0} second=${7-0}
limit=280
export COPSE_MODULES=$modules
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

skip() { printf 'skipped: %s\n' "$1"; exit 77; }
[ -e "$modules/copse_$engine.so" ] || skip "the engine $engine is not built"

if [ "$engine" = mpi ]; then
    command -v mpirun >/dev/null || skip "mpirun is not there: install the Debian package openmpi-bin"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run() { timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n "$workers" "$node" "$scenario" "$argument" "$second"; }
    if [ "$scenario" = reduce ] && [ "$argument" -lt "$workers" ]; then # all end, within 10 s of its death
        export NODE_DIES="$work/died"
        "$node" pulse "$work/pulse" &
        pulse=$!
        run >/dev/null 2>&1 && { echo "rank $argument did not die"; exit 1; }
        end=$(($(date +%s%N) / 1000000))
        kill $pulse
        took=$((end - $(date -r "$work/died" +%s%N) / 1000000))
        late=$(awk '{ late += $2 } END { print int(late) }' "$work/pulse")
        [ $((took - late)) -le 10000 ] || { echo "the job ended after $took ms, $late of them the machine's"; exit 1; }
        exit 0
    fi
    run
    exit $?
fi

ports=$("$node" ports "$workers" $$) || exit 1
list=
for port in $ports; do
    list="$list${list:+,}\"127.0.0.1:$port\""
done
pids= rank=0
while [ $rank -lt "$workers" ]; do
    COPSE_CONFIG="{\"cluster\":{\"worker\":[$list]},\"task\":{\"type\":\"worker\",\"index\":$rank}}" \
        timeout -k 5 $limit "$node" "$scenario" "$argument" "$second" &
    pids="$pids $!"
    rank=$((rank + 1))
done
if [ "$scenario" = die ] && [ "$argument" != 0 ]; then # wake rank 1 again, when it has been stopped for so long
    set -- $pids
    until ps -o state= --ppid "$2" | grep -q T; do
        kill -0 "$2" 2>/dev/null || { echo "rank 1 ended before it stopped"; exit 1; }
        sleep 0.05
    done
    sleep "$argument"
    pkill -CONT -P "$2"
fi
failed=0 rank=0
for pid in $pids; do
    wait "$pid"
    status=$?
    [ "$scenario" = die ] && [ "$argument" = 0 ] && [ $rank = 1 ] && [ $status = 137 ] && status=0
    [ "$scenario" = reduce ] && [ "$argument" = $rank ] && [ $status = 137 ] && status=0
    [ $status = 0 ] || { echo "rank $rank ended with $status"; failed=1; }
    rank=$((rank + 1))
done
exit $failed
