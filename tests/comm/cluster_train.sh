#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_train.sh ENGINE WORKERS COPSE NODE MODULES DEVICES: trains on the digits with several workers, each
# with a replica on every one of DEVICES (a list, or "found": the first OpenCL and the first Vulkan
# device), and demands the file of one process with the same replicas in the same order: of its best epoch, with early stopping.
set -u
engine=$1 workers=$2 copse=$3 node=$4 modules=$5 devices=$6
export COPSE_MODULES=$modules
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
limit=280
options="--epochs 8 --patience 1 --schedule constant --lr 0.03 --batch 40 --model mlp:48 --bucket-bytes 8192 --seed 3 --shares equal --quiet"

skip() { printf 'skipped: %s\n' "$1"; exit 77; }
[ -e "$modules/copse_$engine.so" ] || skip "the engine $engine is not built"
[ "$engine" != mpi ] || command -v mpirun >/dev/null ||
    skip "mpirun is not there: install the Debian package openmpi-bin"
if [ "$devices" = found ]; then
    devices=
    for api in opencl vulkan; do
        "$copse" train --devices $api:0 --epochs 1 --batch 1000 --quiet >/dev/null 2>&1 &&
            devices="$devices${devices:+,}$api:0"
    done
    [ -n "$devices" ] || skip "no OpenCL and no Vulkan device"
fi

all= i=0
while [ $i -lt "$workers" ]; do
    all="$all${all:+,}$devices"
    i=$((i + 1))
done
timeout -k 5 $limit "$copse" train --devices "$all" $options --save "$work/one" >"$work/one.txt" ||
    { echo "one process with $all failed"; exit 1; }

if [ "$engine" = mpi ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n "$workers" "$copse" train --devices "$devices" \
        $options --save "$work/many" >"$work/many.txt" || { cat "$work/many.txt"; exit 1; }
else
    ports=$("$node" ports "$workers" $$) || exit 1
    list= pids= failed=0
    for port in $ports; do
        list="$list${list:+,}\"127.0.0.1:$port\""
    done
    i=$workers
    while [ $i -gt 0 ]; do # the chief comes last; the others are workers in name, too
        i=$((i - 1))
        command=worker
        [ $i = 0 ] && command=train
        timeout -k 5 $limit "$copse" $command --devices "$devices" $options \
            --save "$work/many.$i" --cluster \
            "{\"cluster\":{\"worker\":[$list]},\"task\":{\"type\":\"worker\",\"index\":$i}}" \
            >"$work/worker.$i" 2>&1 &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || failed=1
    done
    [ $failed = 0 ] || { cat "$work"/worker.*; exit 1; }
    mv "$work/worker.0" "$work/many.txt"
    mv "$work/many.0" "$work/many"
    for file in "$work"/many.[0-9]*; do # all enter the save, the chief writes
        [ -e "$file" ] && { echo "a worker that is not the chief wrote $file"; exit 1; }
    done
    for said in "$work"/worker.*; do # but that others are slow
        grep -qv 'warning: cluster: waiting since ' "$said" && { echo "a worker that is not the chief said:"; cat "$said"; exit 1; }
    done
fi
cmp "$work/one" "$work/many" || { echo "$workers workers with $devices: other bits than one process"
    exit 1; }
one=$(grep 'are right' "$work/one.txt") many=$(grep 'are right' "$work/many.txt")
[ "$one" = "$many" ] || { printf 'other results:\n%s\n%s\n' "$one" "$many"; exit 1; }
echo "$workers workers with $devices over $engine: the bits of one process; $many"
