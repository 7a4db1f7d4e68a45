#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh COPSE [FILTER]: runs the golden table with one build and prints a line for each row:
#   NAME vars=SHA state=SHA losses=SHA last=LOSS
# vars: the tensors of the file that --save wrote (names, types, shapes, bytes); state: those of the checkpoint, optimizer
# slots included; losses: the losses of the first 50 steps and the results of every epoch; last: the last loss.
# A row that cannot run here prints "NAME skipped: REASON", one that fails "NAME failed: REASON".
# COPSE is BUILD/copse; programs and modules are taken from BUILD and BUILD/tests. FILTER is an extended regular
# expression that NAME must match, such as '^host/'. JOBS=N runs N rows at a time (default 1; the order of the lines is then
# that of their ends). KEEP=FOLDER keeps each row's files in FOLDER/NAME. --list as FILTER prints the names.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { sed -n '3,11s/^# //p' "$0" >&2; exit 2; }
copse=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
build=$(dirname "$copse") tests=$(dirname "$copse")/tests
limit=${LIMIT-300}
unset COPSE_CONFIG TF_CONFIG
export COPSE_MODULES=$build OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# ---- the table: a row is "name how replicas options" and runs on every driver of `drivers` ----
# how: run | resume (in two parts, the same bytes as in one) | gloo:R+R.. or mpi:RxW (workers with R replicas each)
#      | gloo-ps:S or mpi-ps:S (one worker, S parameter servers)
# The mixed driver takes opencl:0 and vulkan:0 in turn.
drivers='host opencl vulkan mixed'
rows() {
    cat <<'TABLE'
one_device            run 1 --strategy one_device
one_device-sgd        run 1 --strategy one_device --optimizer sgd
mirrored-1            run 1
mirrored-2            run 2
mirrored-3            run 3
mirrored-5            run 5
mirrored-3-sharded    run 3 --reduction sharded
mirrored-3-tree       run 3 --reduction tree
mirrored-3-to_one     run 3 --reduction to_one
mirrored-5-tree       run 5 --reduction tree
mirrored-5-to_one     run 5 --reduction to_one
mirrored-2-shared     run 2 --transfer shared
mirrored-2-staged     run 2 --transfer staged
mirrored-3-staged     run 3 --transfer staged --reduction sharded
mirrored-3-bucket     run 3 --bucket-bytes 4194304
mirrored-2-prefetch   run 2 --prefetch 2
mirrored-3-prefetch   run 3 --prefetch 3 --dropout 0.2
mirrored-2-sgd        run 2 --optimizer sgd
mirrored-2-momentum   run 2 --optimizer momentum
mirrored-2-nesterov   run 2 --optimizer nesterov --momentum 0.8
mirrored-2-adamw      run 2 --optimizer adamw --weight-decay 0.01
mirrored-2-decay      run 2 --optimizer momentum --weight-decay 0.001
mirrored-3-dropout    run 3 --dropout 0.3
mirrored-2-constant   run 2 --schedule constant
mirrored-3-resume     resume 3 --schedule constant --dropout 0.2
one_device-resume     resume 1 --schedule constant --strategy one_device
accelerator-1         run 1 --strategy accelerator
accelerator-2-k2      run 2 --strategy accelerator --steps-per-run 2
accelerator-3-k4      run 3 --strategy accelerator --steps-per-run 4 --dropout 0.2
accelerator-5         run 5 --strategy accelerator
accelerator-2-nesterov run 2 --strategy accelerator --optimizer nesterov
accelerator-3-resume  resume 3 --strategy accelerator --schedule constant --steps-per-run 3
ps-1                  run 1 --strategy parameter_server
ps-2                  run 2 --strategy parameter_server
ps-3                  run 3 --strategy parameter_server --dropout 0.2
ps-5                  run 5 --strategy parameter_server
ps-2-sgd              run 2 --strategy parameter_server --optimizer sgd
ps-2-momentum         run 2 --strategy parameter_server --optimizer momentum
ps-2-nesterov         run 2 --strategy parameter_server --optimizer nesterov
ps-2-adamw            run 2 --strategy parameter_server --optimizer adamw --weight-decay 0.01
ps-2-prefetch         run 2 --strategy parameter_server --prefetch 2
ps-3-resume           resume 3 --strategy parameter_server --schedule constant
gloo-1+1              gloo:1+1
gloo-2+2              gloo:2+2 - --reduction tree
gloo-3+3              gloo:3+3 - --dropout 0.2 --prefetch 2
gloo-1+1+1            gloo:1+1+1 - --optimizer adamw --weight-decay 0.01
gloo-2+1              gloo:2+1
gloo-resume           gloo-resume:1+1 - --schedule constant --optimizer nesterov
mpi-1x2               mpi:1x2
mpi-2x2               mpi:2x2 - --dropout 0.2
mpi-1x3               mpi:1x3 - --optimizer momentum
gloo-ps-1             gloo-ps:1
gloo-ps-2             gloo-ps:2 - --optimizer momentum
mpi-ps-1              mpi-ps:1 - --optimizer adamw --weight-decay 0.01
TABLE
}

# devices DRIVER COUNT [FIRST]: that many, comma between them
devices() {
    driver=$1 list= i=0
    while [ $i -lt "$2" ]; do
        case $driver in
        mixed) [ $(((i + ${3-0}) % 2)) = 0 ] && one=opencl:0 || one=vulkan:0 ;;
        *) one=$driver:0 ;;
        esac
        list=$list${list:+,}$one
        i=$((i + 1))
    done
    echo "$list"
}

names() {
    for driver in $drivers; do
        rows | while read -r name rest; do
            [ "$driver/$name" = mixed/one_device ] || echo "$driver/$name"
        done
    done
}

# ---- one row ----
# All of it goes to $work: save, checkpoint.safetensors, out.RANK, err.RANK
skip() { echo "$row skipped: $1"; exit 0; }
failed() {
    echo "$row failed: $1: $(cat "$work"/err.* "$work"/out.* 2>/dev/null | grep -v '^{' | tail -n 1)"
    exit 0
}

# train RANK COMMAND OPTION...
train() {
    rank=$1 command=$2
    shift 2
    timeout -k 5 $limit "$copse" $command --json "$@" >>"$work/out.$rank" 2>>"$work/err.$rank"
}

# gloo_job SERVERS DEVICES,... OPTION...: one worker for each word of DEVICES
gloo_job() {
    servers=$1 lists=$2 workers=0 w= p= i=0 pids= code=0
    shift 2
    [ -e "$build/copse_gloo.so" ] || skip "the engine gloo is not built"
    for list in $lists; do
        workers=$((workers + 1))
    done
    ports=$("$tests/cluster_node" ports $((workers + servers)) $$) || failed "no ports"
    for port in $ports; do
        [ $i -lt $workers ] && w="$w${w:+,}\"127.0.0.1:$port\"" || p="$p${p:+,}\"127.0.0.1:$port\""
        i=$((i + 1))
    done
    spec="\"worker\":[$w]${p:+,\"ps\":[$p]}"
    i=0
    for list in $lists $(seq -f ps%g $servers); do
        type=worker index=$i command=worker
        [ $i = 0 ] && command=train
        [ $i -ge $workers ] && type=ps index=$((i - workers)) list=$(devices $driver 1)
        train $i $command --engine gloo --devices "$list" "$@" \
            --cluster "{\"cluster\":{$spec},\"task\":{\"type\":\"$type\",\"index\":$index}}" &
        pids="$pids $!"
        i=$((i + 1))
    done
    for pid in $pids; do
        wait "$pid" || code=1
    done
    return $code
}

# mpi_job TASKS DEVICES OPTION...
mpi_job() {
    tasks=$1 list=$2
    shift 2
    [ -e "$build/copse_mpi.so" ] || skip "the engine mpi is not built"
    command -v mpirun >/dev/null || skip "mpirun is not there: install the Debian package openmpi-bin"
    timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n "$tasks" "$copse" train --json --devices "$list" "$@" \
        >>"$work/out.0" 2>>"$work/err.0"
}

# once EPOCHS OPTION...: the row's job, for so many epochs
once() {
    epochs=$1
    shift
    set -- --data "$data" --model mlp:24,12 --batch 40 --seed 3 --lr 0.02 --bucket-bytes 2048 --epochs "$epochs" \
        --save "$work/save" --checkpoint "$work/checkpoint.safetensors" "$@"
    case $how in
    run | resume) train 0 train --devices "$(devices $driver "$replicas")" "$@" ;;
    gloo:* | gloo-resume:*)
        first=0 lists=
        for count in $(echo "${how#*:}" | tr + ' '); do
            lists="$lists $(devices $driver $count $first)"
            first=$((first + count))
        done
        gloo_job 0 "$lists" "$@"
        ;;
    mpi:*) mpi_job "${how#*x}" "$(devices $driver "$(echo "${how#*:}" | cut -d x -f 1)")" "$@" ;;
    gloo-ps:*) gloo_job "${how#*:}" "$(devices $driver 1)" --strategy parameter_server "$@" ;;
    mpi-ps:*)
        mpi_job $((1 + ${how#*:})) "$(devices $driver 1)" --strategy parameter_server --servers "${how#*:}" "$@"
        ;;
    esac
}

sha() { sha256sum | cut -d ' ' -f 1; }

# digest: what the files in $work come to
digest() {
    "$digest_tool" tensors "$work/save" >"$work/vars" && "$digest_tool" tensors "$work/checkpoint.safetensors" >"$work/state" &&
        "$digest_tool" losses "$work/checkpoint.safetensors" >"$work/losses" 2>>"$work/err.0" || return 1
    sed -n '/"event":"epoch"/{s/,"samples_per_s.*//;p;}' "$work/out.0" >>"$work/losses"
    echo "vars=$(sha <"$work/vars") state=$(sha <"$work/state") losses=$(sha <"$work/losses")" \
        "last=$(sed -n '/"event":"done"/s/.*"loss":\([^,]*\),"acc.*/\1/p' "$work/out.0" | tail -n 1)"
}

one() {
    row=$1 driver=${1%%/*}
    set -- $(rows | sed -n "s|^${row#*/}  *||p")
    how=$1 replicas=${2-}
    shift $(($# > 1 ? 2 : 1))
    case $driver in host) needs= ;; mixed) needs='opencl:0 vulkan:0' ;; *) needs=$driver:0 ;; esac
    for device in $needs; do
        grep -q "^$device " "$base/devices" || skip "there is no device $device"
    done
    work=$base/$row
    mkdir -p "$work"
    case $how in
    *resume*)
        once 10 "$@" || failed "it ended with an error"
        whole=$(digest) || failed "its files cannot be read"
        rm "$work"/save "$work"/checkpoint* "$work"/out.*
        once 4 "$@" || failed "the first part ended with an error"
        once 10 "$@" --resume || failed "the second part ended with an error"
        ;;
    *) once 10 "$@" || failed "it ended with an error" ;;
    esac
    line=$(digest) || failed "its files cannot be read"
    case $how in
    *resume*) [ "$line" = "$whole" ] || failed "resumed it gives other results ($line) than in one piece ($whole)" ;;
    esac
    echo "$row $line"
}

# ---- all rows ----
if [ "${GOLDEN_BASE-}" ]; then # called for one row by the loop below
    base=$GOLDEN_BASE data=$GOLDEN_BASE/digits.csv digest_tool=$GOLDEN_BASE/golden_digest
    one "$2"
    exit 0
fi
[ "${2-}" = --list ] && { names; exit 0; }
if [ "${KEEP-}" ]; then
    mkdir -p "$KEEP" || exit 2
    base=$(cd "$KEEP" && pwd)
else
    base=$(mktemp -d) || exit 2
    trap 'rm -rf "$base"' EXIT
fi
gzip -dc "$top/examples/data/digits/digits.csv.gz" | head -n 230 >"$base/digits.csv" # 184 to train, 5 batches
cp "$tests/golden_digest" "$base/golden_digest" 2>/dev/null ||
    ${CC:-cc} -std=c11 -O1 "$here/golden_digest.c" -o "$base/golden_digest" -lcjson || exit 2
"$copse" devices >"$base/devices" 2>/dev/null || exit 2
names | grep -E "${2-.}" | GOLDEN_BASE=$base xargs -P "${JOBS-1}" -n 1 sh "$0" "$copse"
