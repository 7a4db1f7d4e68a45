#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_ps.sh ENGINE COPSE NODE MODULES: two workers and a parameter server, as processes, learn the digits to
# the accuracy of one process; over MPI by windows and by messages, with the same bytes where there is one worker;
# over Gloo also with two servers, and with a worker that is killed on the way.
set -u
engine=$1 copse=$2 node=$3 modules=$4
export COPSE_MODULES=$modules
work=$(mktemp -d) || exit 1
pids=
trap 'for p in $pids; do pkill -KILL -P $p; done 2>/dev/null; rm -rf "$work"' EXIT
limit=280
options="--strategy parameter_server --devices host:0 --model mlp:32 --seed 3 --lr 0.006"

skip() { printf 'skipped: %s\n' "$1"; exit 77; }
fail() { echo "$1"; tail -n 20 "$work"/said.*; exit 1; }
[ -e "$modules/copse_$engine.so" ] || skip "the engine $engine is not built"
[ "$engine" != mpi ] || command -v mpirun >/dev/null ||
    skip "mpirun is not there: install the Debian package openmpi-bin"

# accuracy FILE: of the line "95.54 % of the 359 held-out examples are right"; at least 90
right() {
    sed -n 's/^\([0-9.]*\) % of the .* are right.*/\1/p' "$1" | awk '{ n++; if ($1 < 90) low = 1 } END { exit n != 1 || low }'
}

if [ "$engine" = mpi ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # job TASKS OPTIONS...: what it says in said.0
    job() {
        tasks=$1
        shift
        timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n "$tasks" "$copse" train --servers 1 $options \
            "$@" >"$work/said.0" 2>&1
    }
    for access in on off; do
        [ $access = on ] && how="servers  1, reached by windows" did="; 276 updates by windows"
        [ $access = off ] && how="servers  1, reached by messages (windows: they are off)" did=
        job 3 --epochs 12 --one-sided $access --save "$work/saved" || fail "the job failed, windows $access"
        right "$work/said.0" || fail "not what was to be learnt, windows $access"
        grep -qxF "$how" "$work/said.0" || fail "not \"$how\""
        # mpirun may put it into the middle of a line of the chief's
        grep -qF "parameter server 0 on host:0: 4 variables, 276 updates; all workers are done$did" \
            "$work/said.0" ||
            fail "the server did not say what it did, windows $access: $(grep 'parameter server' "$work/said.0")"
        [ -s "$work/saved" ] || fail "the chief saved nothing"
        rm "$work/saved"
        # what is read is of one moment, while others push
        timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n 3 "$node" window \
            $([ $access = on ] && echo 1 || echo 2) >"$work/said.0" 2>&1 || fail "pulls were torn, windows $access"
        # one worker: the same bytes
        job 2 --epochs 5 --one-sided $access --save "$work/one.$access" || fail "one worker failed"
    done
    cmp "$work/one.on" "$work/one.off" || fail "the bytes of windows are not those of messages"
    job 3 --epochs 1 --json || fail "the job failed that speaks JSON"
    grep -q '^{"event":"served","server":0,"device":"host:0","variables":4,"updates":23,"by_windows":23,"lost":0}' \
        "$work/said.0" || fail "the server has no event"
    grep -q '^parameter server' "$work/said.0" && fail "plain text among the events"
    # where there is none: messages, or a word about it
    OMPI_MCA_osc=^sm,rdma,ucx,pt2pt
    export OMPI_MCA_osc
    job 2 --epochs 5 --save "$work/one.none" || fail "without windows the job failed"
    grep -q '^servers  1, reached by messages (windows: worker 0: MPI: allocating a window: MPI_ERR' \
        "$work/said.0" || fail "it did not say why it has no windows"
    cmp "$work/one.on" "$work/one.none" || fail "without windows there are other bytes"
    job 2 --epochs 1 --one-sided on && fail "windows that cannot be had were used"
    grep -q 'windows are on and cannot be used: worker 0: MPI: allocating a window' "$work/said.0" ||
        fail "no word about windows that cannot be had"
    unset OMPI_MCA_osc
    timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n 2 "$copse" train --servers 2 $options \
        --epochs 1 >"$work/said.0" 2>&1 && fail "servers alone are no job"
    grep -q 'a worker must be left' "$work/said.0" || fail "no word about servers alone"
    exit 0
fi
options="$options --quiet"

# one process alone, cut and resumed: the file of a run in one piece
for cut in 12 5; do
    timeout -k 5 $limit "$copse" train $options --schedule constant --epochs $cut \
        --checkpoint "$work/cut.$cut.safetensors" >"$work/said.0" 2>&1 || fail "one process failed"
done
timeout -k 5 $limit "$copse" train $options --schedule constant --epochs 12 --resume \
    --checkpoint "$work/cut.5.safetensors" >"$work/said.0" 2>&1 || fail "one process did not go on"
right "$work/said.0" || fail "not what was to be learnt by one process"
cmp "$work/cut.12.safetensors" "$work/cut.5.safetensors" || fail "a run that was cut has other bits"

# start WORKERS SERVERS EPOCHS: each task in the background; $pids
start() {
    w= p= i=0 pids=
    for port in $("$node" ports $(($1 + $2)) $$); do
        [ $i -lt "$1" ] && w="$w${w:+,}\"127.0.0.1:$port\"" || p="$p${p:+,}\"127.0.0.1:$port\""
        i=$((i + 1))
    done
    i=0
    while [ $i -lt $(($1 + $2)) ]; do
        type=worker index=$i command=worker
        [ $i -ge "$1" ] && type=ps && index=$((i - $1))
        [ $i = 0 ] && command=train
        COPSE_CONFIG="{\"cluster\":{\"worker\":[$w],\"ps\":[$p]},\"task\":{\"type\":\"$type\",\"index\":$index}}" \
            timeout -k 5 $limit "$copse" $command $options --epochs "$3" --save "$work/saved.$i" \
            >"$work/said.$i" 2>&1 &
        pids="$pids $!"
        i=$((i + 1))
    done
}

# windows that this engine has not
plain=$options
options="$options --one-sided on"
start 1 1 1
for pid in $pids; do
    wait "$pid" && fail "windows over Gloo were used"
done
for said in "$work/said.0" "$work/said.1"; do
    grep -q 'windows are on and cannot be used: the engine gloo has none; leave them to auto, or off' "$said" ||
        fail "no word about windows over Gloo"
done
options=$plain

for servers in 1 2; do
    start 2 $servers 12
    for pid in $pids; do
        wait "$pid" || fail "a task of two workers and $servers servers failed"
    done
    right "$work/said.0" || fail "not what was to be learnt"
    [ -s "$work/said.1" ] && fail "the second worker was to say nothing"
    [ -e "$work/saved.0" ] || fail "the chief saved nothing"
    [ -e "$work/saved.1" ] && fail "a worker that is not the chief saved"
    grep -q "^parameter server 0 on host:0: $((4 / servers)) variables, 276 updates; all workers are done\$" \
        "$work/said.2" || fail "the server did not say what it did"
done

# disturbed SIGNAL TASK: two workers and a server. TASK gets the signal when the first epoch of the chief is over; $pids.
# Runs again if that task had ended by then.
disturbed() {
    rm -f "$work"/saved.*
    start 2 1 30
    set -- "$1" "$2" $pids
    until [ -e "$work/saved.0.partial" ] || ! kill -0 "$3" 2>/dev/null; do
        sleep 0.02
    done
    eval "pkill -$1 -P \"\${$(($2 + 3))}\"" && return
    again "$@"
}
tries=0
again() {
    pkill -CONT -P "$4"
    wait "$3" "$4" "$5"
    tries=$((tries + 1))
    [ $tries -lt 20 ] || fail "task $2 was always done before it could be disturbed"
    disturbed "$1" "$2"
}
# was_done: every worker came to its end; the signal was too late
was_done() { grep -q 'all workers are done$' "$work/said.2"; }

# the second worker is killed in the middle: the chief and the server go on
disturbed KILL 1
while :; do
    set -- $pids
    wait "$1" || fail "the chief failed with the second worker"
    wait "$2"
    wait "$3" || fail "the server failed with the second worker"
    was_done || break
    again KILL 1 $pids
done
right "$work/said.0" || fail "not what was to be learnt alone"
grep -q 'worker 1 (.*) is lost, the others continue' "$work/said.2" || fail "the server named nobody"
grep -q 'all workers are done, 1 of them lost$' "$work/said.2" || fail "the server counted nobody"
# the server is killed: both workers name it and end
disturbed KILL 2
while :; do
    set -- $pids
    begin=$(date +%s)
    wait "$1"
    first=$?
    wait "$2"
    second=$?
    took=$(($(date +%s) - begin))
    [ $first = 0 ] || [ $second = 0 ] || break
    again KILL 2 $pids
done
[ "$first $second" = '3 3' ] || fail "the workers went on without their variables: exit codes $first, $second"
[ $took -le 50 ] || fail "the workers ended after $took s" # and not by their deadline
for said in "$work/said.0" "$work/said.1"; do
    grep -q 'lost ps 0 (' "$said" || fail "a worker did not name the server"
done
# the second worker stands still for good: it is given up and named, and hears of it should it wake up
options="$options --worker-deadline 10"
disturbed STOP 1
while :; do
    set -- $pids
    wait "$1" || fail "the chief failed with the second worker, which stands still"
    wait "$3" || fail "the server failed with the second worker, which stands still"
    was_done || break
    again STOP 1 $pids
done
right "$work/said.0" || fail "not what was to be learnt beside one that stands still"
if grep -q 'worker 1 (.*) is lost, the others continue: it sent no heartbeat for 10 s' "$work/said.2"; then
    grep -q 'worker 1 (.*) has sent no heartbeat for 5 s' "$work/said.2" || fail "the server did not warn"
else # it was stopped within a request
    grep -q 'worker 1 (.*) is lost, the others continue: .* did not answer within 5 s ' "$work/said.2" ||
        fail "the server did not name who stands still"
fi
grep -q 'all workers are done, 1 of them lost$' "$work/said.2" || fail "the server did not count who stands still"
pkill -CONT -P "$2"
wait "$2"
[ $? = 3 ] || fail "a worker that was given up ended with another code than 3"
# the server may have ended before the worker could hear of it
grep -q -e 'ps 0 (.*) has dropped this worker' -e 'lost ps 0 (' "$work/said.1" ||
    fail "a worker that was given up does not say by whom"
echo "two workers with 1 and 2 servers, and one of them alone after a kill, and beside one that stands still"
