#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh COPSE [FILTER]: runs the golden table with one build and prints a line for each row:
#   NAME vars=SHA state=SHA losses=SHA last=LOSS
# vars: the tensors of the file that --save wrote (names, types, shapes, bytes). state: those of the checkpoint,
# optimizer slots included. losses: the losses of the first 50 steps and the results of every epoch. last: the last
# loss. The three are SHA-256. Rows of golden_jobs print "none" for a file that they do not write; their losses are
# all numbers that the program prints. A row that cannot run here prints "NAME skipped: REASON", one that fails
# "NAME failed: REASON".
# COPSE is BUILD/copse; the modules of BUILD and the programs of BUILD/tests are used with it. FILTER is an extended
# regular expression that NAME must match, such as '^host/'; --list in its place prints the names.
# In the environment: JOBS=N runs N rows at a time, and then prints them in the order of their ends; KEEP=FOLDER
# keeps the files of each row in FOLDER/NAME; LIMIT=N ends a process after N seconds (300).
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '3,13s/^# //p' "$0" >&2; exit 2; }
copse=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
build=$(dirname "$copse") tests=$(dirname "$copse")/tests
jobs=${GOLDEN_JOBS-$tests/golden_jobs} # GOLDEN_JOBS: for a build that has none of its own
limit=${LIMIT-300}
unset COPSE_CONFIG TF_CONFIG
export COPSE_MODULES=$build OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# ---- the table: a row is "name how replicas options" and runs on every driver of `drivers` ----
# how: run | resume (in two parts; must give the bits of one part) | gloo:R+R (workers with R replicas each)
#      | gloo-resume:R+R | mpi:RxW (W workers with R replicas each) | gloo-ps:S, mpi-ps:S (one worker, S servers)
# options: of `copse train`; after the word `api`, keys of golden_jobs; net:NAME is a network with its data, below. The driver
# `mixed` takes opencl:0 and vulkan:0 in turn. Rows NAME-N-... with the same N have N replicas and the same bits (same.sh).
drivers='host opencl vulkan mixed'
rows() {
    cat <<'TABLE'
one_device             run 1 --strategy one_device
one_device-sgd         run 1 --strategy one_device --optimizer sgd
mirrored-1             run 1
mirrored-2             run 2
mirrored-3             run 3
mirrored-5             run 5
mirrored-3-sharded     run 3 --reduction sharded
mirrored-3-tree        run 3 --reduction tree
mirrored-3-to_one      run 3 --reduction to_one
mirrored-5-tree        run 5 --reduction tree
mirrored-5-to_one      run 5 --reduction to_one
mirrored-2-shared      run 2 --transfer shared
mirrored-2-staged      run 2 --transfer staged
mirrored-3-staged      run 3 --transfer staged --reduction sharded
mirrored-3-one_bucket  run 3 --bucket-bytes 4194304
mirrored-2-prefetch    run 2 --prefetch 2
mirrored-3-prefetch    run 3 --prefetch 3 --dropout 0.2
mirrored-2-sgd         run 2 --optimizer sgd
mirrored-2-momentum    run 2 --optimizer momentum
mirrored-2-nesterov    run 2 --optimizer nesterov --momentum 0.8
mirrored-2-adamw       run 2 --optimizer adamw --weight-decay 0.01
mirrored-2-decay       run 2 --optimizer momentum --weight-decay 0.001
mirrored-3-dropout     run 3 --dropout 0.3
mirrored-2-constant    run 2 --schedule constant
mirrored-3-resume      resume 3 --schedule constant --dropout 0.2
one_device-resume      resume 1 --schedule constant --strategy one_device
accelerator-1          run 1 --strategy accelerator
accelerator-2-k2       run 2 --strategy accelerator --steps-per-run 2
accelerator-3-k4       run 3 --strategy accelerator --steps-per-run 4 --dropout 0.2
accelerator-5          run 5 --strategy accelerator
accelerator-2-nesterov run 2 --strategy accelerator --optimizer nesterov
accelerator-3-resume   resume 3 --strategy accelerator --schedule constant --steps-per-run 3
ps-1                   run 1 --strategy parameter_server
ps-2                   run 2 --strategy parameter_server
ps-3                   run 3 --strategy parameter_server --dropout 0.2
ps-5                   run 5 --strategy parameter_server
ps-2-sgd               run 2 --strategy parameter_server --optimizer sgd
ps-2-momentum          run 2 --strategy parameter_server --optimizer momentum
ps-2-nesterov          run 2 --strategy parameter_server --optimizer nesterov
ps-2-adamw             run 2 --strategy parameter_server --optimizer adamw --weight-decay 0.01
ps-2-prefetch          run 2 --strategy parameter_server --prefetch 2
ps-3-resume            resume 3 --strategy parameter_server --schedule constant
gloo-1+1               gloo:1+1 -
gloo-2+2               gloo:2+2 - --reduction tree
gloo-3+3               gloo:3+3 - --dropout 0.2 --prefetch 2
gloo-1+1+1             gloo:1+1+1 - --optimizer adamw --weight-decay 0.01
gloo-2+1               gloo:2+1 -
gloo-resume            gloo-resume:1+1 - --schedule constant --optimizer nesterov
mpi-1x2                mpi:1x2 -
mpi-2x2                mpi:2x2 - --dropout 0.2
mpi-1x3                mpi:1x3 - --optimizer momentum
gloo-ps-1              gloo-ps:1 -
gloo-ps-2              gloo-ps:2 - --optimizer momentum
mpi-ps-1               mpi-ps:1 - --optimizer adamw --weight-decay 0.01
accumulate-1           run 1 api accumulate=3
accumulate-3           run 3 api accumulate=3
accumulate-5-prefetch  run 5 api accumulate=2 prefetch=2
accumulate-resume      resume 3 api accumulate=3 resume=12
accumulate-accelerator run 2 api accumulate=2 strategy=accelerator
accumulate-ps          run 2 api accumulate=2 strategy=parameter_server
accumulate-gloo        gloo:1+1 - api accumulate=2
accumulate-gloo-ps     gloo-ps:2 - api accumulate=2 strategy=parameter_server
shares-3               run 3 api shares=1,2.5,0.5
shares-5-empty         run 5 api shares=3,0,1,0,2
shares-ps              run 3 api shares=2,1,1 strategy=parameter_server
shares-gloo            gloo:2+1 - api shares=1,2.5,0.5
ceil-5                 run 5 api sharing=ceil batch=37
fixed-3                run 3 api sharing=fixed batch=42
frozen-2               run 2 api frozen=1
frozen-ps              run 2 api frozen=1 strategy=parameter_server optimizer=adamw
listed-3               run 3 api listed=1 optimizer=momentum
listed-gloo            gloo:1+1 - api listed=1
parts-1                run 1 api parts=3
parts-3                run 3 api parts=3 optimizer=nesterov
parts-ps               run 2 api parts=4 strategy=parameter_server
parts-gloo-ps          gloo-ps:2 - api parts=4 strategy=parameter_server
parts-resume           resume 2 api parts=3 resume=13
sum-2                  run 2 api sum=1 optimizer=sgd
sum-gloo               gloo:1+1 - api sum=1 optimizer=adam
check-3                run 3 api check=1
clip-3                 run 3 api clip=500
clip-gloo              gloo:1+1 - api clip=500
summary-2              run 2 api summary=1
norm-1                 run 1 api norm=1
norm-3                 run 3 api norm=1
norm-5                 run 5 api norm=1 accumulate=2
norm-accelerator       run 2 api norm=1 strategy=accelerator
norm-gloo              gloo:2+1 - api norm=1
mean-3                 run 3 api mean=1
mean-gloo              gloo:1+1+1 - api mean=1
trainer-resume         resume 3 api resume=13 optimizer=nesterov
trainer-ps-resume      resume 2 api resume=13 strategy=parameter_server
three-1                run 1 api loop=three
three-3                run 3 api loop=three
three-accelerator      run 2 api loop=three strategy=accelerator
three-ps               run 2 api loop=three strategy=parameter_server
three-gloo             gloo:1+1 - api loop=three
towers-1               run 1 api loop=towers batch=30
towers-3               run 3 api loop=towers batch=30
towers-5-sum           run 5 api loop=towers batch=30 sum=1 optimizer=sgd
towers-3-parts         run 3 api loop=towers batch=30 parts=3 optimizer=momentum
towers3-2              run 2 api loop=towers batch=30 towers=3
towers3-ps             run 2 api loop=towers batch=30 towers=3 strategy=parameter_server
towers3-resume         resume 3 api loop=towers batch=30 towers=3 resume=13
towers-accelerator     run 2 api loop=towers batch=30 strategy=accelerator
towers-gloo            gloo:1+1 - api loop=towers batch=30
towers3-gloo           gloo:2+1 - api loop=towers batch=30 towers=3
towers-gloo-ps         gloo-ps:2 - api loop=towers batch=30 towers=3 strategy=parameter_server
step-1                 run 1 api loop=step iterations=2
step-3-prefetch        run 3 api loop=step iterations=3 prefetch=2
step-accelerator       run 2 api loop=step iterations=2 strategy=accelerator
step-ps                run 2 api loop=step strategy=parameter_server
step-gloo              gloo:1+1 - api loop=step
train_step-1           run 1 api loop=train_step
train_step-3           run 3 api loop=train_step check=1
train_step-ps          run 2 api loop=train_step strategy=parameter_server accumulate=2
train_step-gloo        gloo:1+1 - api loop=train_step
values-1               run 1 api loop=values strategy=one_device
values-3               run 3 api loop=values
values-5               run 5 api loop=values
values-ps              run 3 api loop=values strategy=parameter_server
values-gloo            gloo:2+1 - api loop=values
values-mpi             mpi:1x3 - api loop=values
cnn-1                  run 1 net:cnn
cnn-1-one_device       run 1 net:cnn --strategy one_device
cnn-2-sharded          run 2 net:cnn --reduction sharded
cnn-2-to_one           run 2 net:cnn --reduction to_one
cnn-2-staged           run 2 net:cnn --transfer staged --prefetch 2
cnn-2-accelerator      run 2 net:cnn --strategy accelerator --steps-per-run 2
cnn-2-gloo             gloo:1+1 - net:cnn
cnn-3-tree             run 3 net:cnn --reduction tree
cnn-3-gloo             gloo:2+1 - net:cnn --reduction to_one
cnn-2-ps               run 2 net:cnn --strategy parameter_server
cnn-resume             resume 2 net:cnn --schedule constant
resnet-1               run 1 net:resnet
resnet-2               run 2 net:resnet
resnet-resume          resume 1 net:resnet --schedule constant
gpt-1                  run 1 net:gpt
gpt-1-one_device       run 1 net:gpt --strategy one_device
gpt-1-recomputed       run 1 net:gpt --memory 900KiB
gpt-2-sharded          run 2 net:gpt --reduction sharded
gpt-2-to_one           run 2 net:gpt --reduction to_one
gpt-2-staged           run 2 net:gpt --transfer staged --prefetch 2
gpt-2-accelerator      run 2 net:gpt --strategy accelerator --steps-per-run 2
gpt-2-gloo             gloo:1+1 - net:gpt
gpt-2-mpi              mpi:1x2 - net:gpt
gpt-3-tree             run 3 net:gpt --reduction tree
gpt-3-gloo             gloo:2+1 - net:gpt --reduction to_one
gpt-2-ps               run 2 net:gpt --strategy parameter_server
gpt-resume             resume 2 net:gpt --schedule constant
gru-1                  run 1 net:gru
gru-resume             resume 1 net:gru --schedule constant
sparse-1               run 1 net:sparse
sparse-2               run 2 net:sparse
sparse-2-gloo          gloo:1+1 - net:sparse
sparse-resume          resume 2 net:sparse --schedule constant
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
        rows | while read -r name how replicas rest; do
            case "$driver $how $replicas" in
            'mixed run 1' | 'mixed resume 1') ;; # those of opencl
            *) echo "$driver/$name" ;;
            esac
        done
    done
}

# ---- one row ----
# All of it goes to $work: save, checkpoint*.safetensors, out.RANK, err.RANK
skip() { echo "$row skipped: $1"; exit 0; }
failed() {
    echo "$row failed: $1: $(cat "$work"/err.* "$work"/out.* 2>/dev/null | grep -v '^{' | tail -n 1)"
    exit 0
}

# network NAME: its options and those of its data
network() {
    case $1 in
    cnn | resnet) echo "--data $base/digits-images-idx3-ubyte --model $here/nets/$1.txt" ;;
    gpt) echo "--data $base/text.txt --tokens characters --context 12 --model gpt:2,16,2" ;;
    gru) echo "--data $base/text.txt --tokens characters --context 12 --model gru:1,16" ;;
    sparse) echo "--data $base/text.txt --tokens characters --context 6 --stride 6 --model $here/nets/$1.txt" ;;
    esac
}

# task RANK DEVICES OPTION...: one process of the row
task() {
    rank=$1 list=$2 net= rest=
    shift 2
    for word; do
        case $word in net:*) net=${word#net:} ;; *) rest="$rest $word" ;; esac
    done
    if [ "$1" = api ]; then
        shift
        set -- "$jobs" "$data" "$work" "$list" "$@"
    else
        command=worker
        [ "$rank" = 0 ] && command=train
        [ "$net" ] && with=$(network "$net") || with="--data $data --model mlp:24,12 --dropout 0 $scale"
        with="$with $every"
        set -- "$copse" $command --json --devices "$list" $with --batch 40 --seed 3 --lr 0.02 --bucket-bytes 2048 \
            --worker-deadline 240 --shares equal --save "$work/save" --checkpoint "$work/checkpoint.safetensors" $rest
    fi
    timeout -k 5 $limit $launcher "$@" >>"$work/out.$rank" 2>>"$work/err.$rank"
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
        type=worker index=$i
        [ $i -ge $workers ] && type=ps index=$((i - workers)) list=$(devices $driver 1)
        (
            export COPSE_CONFIG="{\"cluster\":{$spec},\"task\":{\"type\":\"$type\",\"index\":$index}}"
            task $i "$list" "$@"
        ) &
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
    [ -e "$build/copse_mpi.so" ] || skip "the engine mpi is not built"
    command -v mpirun >/dev/null || skip "mpirun is not there: install the Debian package openmpi-bin"
    launcher="mpirun --oversubscribe --bind-to none -n $1"
    shift
    task 0 "$@"
}

# once OPTION...: the row's job
once() {
    case $how in
    run | resume) task 0 "$(devices $driver "$replicas")" "$@" ;;
    gloo:* | gloo-resume:*)
        first=0 lists=
        for count in $(echo "${how#*:}" | tr + ' '); do
            lists="$lists $(devices $driver $count $first)"
            first=$((first + count))
        done
        gloo_job 0 "$lists" "$@"
        ;;
    mpi:*) mpi_job "${how#*x}" "$(devices $driver "$(echo "${how#*:}" | cut -d x -f 1)")" "$@" ;;
    gloo-ps:*) gloo_job "${how#*:}" "$(devices $driver 1)" "$@" ;;
    mpi-ps:*) mpi_job $((1 + ${how#*:})) "$(devices $driver 1)" "$@" --servers "${how#*:}" ;;
    *) failed "there is no such kind of row: $how" ;;
    esac
}

sha() { sha256sum | cut -d ' ' -f 1; }
# tensors FILE...: hash; "none" without a file
tensors() {
    [ -e "$1" ] || { echo none; return; }
    for file in "$@"; do
        "$digest_tool" tensors "$file" || return 1
    done >"$work/tensors" 2>>"$work/err.0" && sha <"$work/tensors"
}

# digest: what the files in $work come to
digest() {
    if [ "$is_api" ]; then
        cp "$work/out.0" "$work/losses"
        last=$(tail -n 1 "$work/losses")
    else
        "$digest_tool" losses "$work/checkpoint.safetensors" >"$work/losses" 2>>"$work/err.0" || return 1
        sed -n '/"event":"epoch"/{s/,"\(test_perplexity\|samples_per_s\).*//;p;}' "$work/out.0" >>"$work/losses"
        last=$(sed -n '/"event":"done"/s/.*"loss":\([^,]*\),"acc.*/\1/p' "$work/out.0" | tail -n 1)
    fi
    [ "$last" ] && vars=$(tensors "$work/save") && state=$(tensors "$work"/checkpoint*.safetensors) || return 1
    echo "vars=$vars state=$state losses=$(sha <"$work/losses") last=$last"
}

one() {
    row=$1 driver=${1%%/*} launcher= is_api=
    set -- $(rows | sed -n "s|^${row#*/}  *||p")
    how=$1 replicas=$2
    shift 2
    [ "${1-}" = api ] && is_api=1
    case $driver in host) needs= ;; mixed) needs='opencl:0 vulkan:0' ;; *) needs=$driver:0 ;; esac
    for device in $needs; do
        grep -q "^$device " "$base/devices" || skip "there is no device $device"
    done
    [ ! "$is_api" ] || [ -x "$jobs" ] || skip "there is no $jobs"
    case $how in *-ps:*) [ "$is_api" ] || set -- --strategy parameter_server "$@" ;; esac
    work=$base/$row
    mkdir -p "$work" && rm -f "$work"/*
    case " $* " in *' net:'*) part=1 epochs=3 ;; *) part=4 epochs=10 ;; esac
    case $is_api$how in
    1*resume*)
        once "$@" resume=0 || failed "it ended with an error"
        whole=$(digest) || failed "its files cannot be read"
        rm "$work"/*
        once "$@" || failed "it ended with an error"
        ;;
    *resume*)
        once --epochs $epochs "$@" || failed "it ended with an error"
        whole=$(digest) || failed "its files cannot be read"
        rm "$work"/*
        once --epochs $part "$@" || failed "the first part ended with an error"
        once --epochs $epochs "$@" --resume || failed "the second part ended with an error"
        ;;
    1*) once "$@" || failed "it ended with an error" ;;
    *) once --epochs $epochs "$@" || failed "it ended with an error" ;;
    esac
    line=$(digest) || failed "its files cannot be read"
    case $how in
    *resume*) [ "$line" = "$whole" ] || failed "resumed it gives other results ($line) than in one piece ($whole)" ;;
    esac
    echo "$row $line"
}

# ---- all rows ----
scale= # a build from before the option divides by the largest magnitude in any case
"$copse" train --help | grep -q -e '^  --scale ' && scale='--scale max'
every='--dropout 0 --weight-decay 0' # whatever the defaults of this version are; every step counts, not those until the best epoch
"$copse" train --help | grep -q -e '^  --save-last' && every="$every --save-last"
"$copse" train --help | grep -q -e '^  --split ' && every="$every --split random" # as before the option
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
"$here/data.sh" "$base" 230 || exit 2 # 184 to train, 5 batches
cp "$tests/golden_digest" "$base/golden_digest" 2>/dev/null ||
    ${CC:-cc} -std=c11 -O1 "$here/golden_digest.c" -o "$base/golden_digest" -lcjson || exit 2
"$copse" devices >"$base/devices" 2>/dev/null || exit 2
{ # read as a whole: the file may be edited while it runs
    names | grep -E "${2-.}" | GOLDEN_BASE=$base xargs -P "${JOBS-1}" -n 1 sh "$0" "$copse"
    exit
}
