#!/bin/sh
# SPDX-License-Identifier: MIT cluster_kills_ps.sh ENGINE COUNT COPSE NODE MODULES [SEED]: jobs of 1 and 2 workers with 1
# and 2 parameter servers. In each job one task is killed (SIGKILL) at a random moment of the training, until COUNT were.
# Over Gloo every task that needs a lost server names it within 2 s and ends with code 3; a lost worker is named by the
# servers, and the others continue to the accuracy of an undisturbed job. Over MPI the job ends within 10 s. Started
# again with --resume, a job of one worker ends with the bytes of one that nobody disturbed, and one of two with its
# accuracy. Every fourth task is stopped for 3 s instead, which all survive.
set -u
engine=$1 count=$2 copse=$3 node=$4 modules=$5 seed=${6-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/jobs.sh"
options="--strategy parameter_server --devices host:0 --model mlp:32 --seed 3 --lr 0.006 --epochs 10 --keep 1000"
every=17

# accuracy: what the chief of $job has printed is at least 90 %
accuracy() {
    sed -n 's/^\([0-9.]*\) % of the .* are right.*/\1/p' "$job/out.0" |
        awk '{ n++; if ($1 < 90) exit 1 } END { exit n != 1 }' || no "$1: not what was to be learnt"
}

setup() { # WORKERS SERVERS: what such a job comes to undisturbed
    workers=$1 servers=$2
    whole=$work/whole.$1.$2
    [ -e "$whole" ] && return
    # shellcheck disable=SC2086
    job_start "$whole" "$1" $options --checkpoint "$whole/run" --checkpoint-every $every
    job_await "$whole/run"
    local begin=$(now_ms)
    job_done "$1 workers and $2 servers that nobody disturbs"
    accuracy "nobody disturbs it"
    echo $(($(now_ms) - begin)) >"$whole/ms"
}

# The job ends as if nothing had been: that of one worker to the bit.
check_result() {
    accuracy "$1"
    [ "$workers" = 1 ] || return 0
    job_keep_result
    job_same "$job" "$whole" "$1"
}

# A server is lost: all workers of $job name it within 2 s of $begin and end with code 3; a server that is left
# ends in peace.
check_servers() {
    local rank=0
    for code in $codes; do
        if [ $rank = "$victim" ]; then
            job_was_killed "$code"
        elif [ $rank -ge "$workers" ]; then
            [ "$code" = 0 ] || no "$what: another server ended with $code"
        else
            job_names_lost $rank "$code" "ps $((victim - workers))"
        fi
        rank=$((rank + 1))
    done
}

# A worker is lost: the others continue, and the servers say who it was.
check_workers() {
    local rank=0
    for code in $codes; do
        if [ $rank = "$victim" ]; then
            job_was_killed "$code"
        else
            [ "$code" = 0 ] || no "$what: task $rank ended with $code"
            if [ $rank -ge "$workers" ]; then
                grep -q "worker $victim (.*) is lost, the others continue" "$job/err.$rank" &&
                    grep -q 'all workers are done, 1 of them lost$' "$job/out.$rank" ||
                    cmp -s "$job/out.$rank" "$whole/out.$rank" || # it had said that it was done
                    no "$what: server $rank said: $(cat "$job/err.$rank" "$job/out.$rank")"
            fi
        fi
        rank=$((rank + 1))
    done
    [ "$victim" = 0 ] || accuracy "$what, without it"
}

i=0 killed=0 stopped=0 late=0 slowest=0
while [ $killed -lt "$count" ]; do
    i=$((i + 1))
    [ $i -le $((3 * count + 10)) ] || no "only $killed kills came before the end of a job"
    setup $((1 + i / 2 % 2)) $((1 + i % 2))
    victim=$(within $((seed + 100)) $i $((workers + servers)))
    after=$(within "$seed" $i $(($(cat "$whole/ms") * 8 / 10)))
    what="job $i: task $victim of $workers workers and $servers servers after $after ms"
    rm -rf "$work/job"
    # shellcheck disable=SC2086
    job_start "$work/job" "$workers" $options --checkpoint "$work/job/run" --checkpoint-every $every
    job_await "$job/run"
    sleep "$(awk -v ms="$after" 'BEGIN { print ms / 1000 }')"
    if [ $((i % 4)) = 2 ]; then
        what="$what, stopped"
        job_signal STOP "$victim" || { late=$((late + 1)); job_done "$what"; continue; }
        sleep 3
        job_signal CONT "$victim"
        job_done "$what"
        check_result "$what"
        stopped=$((stopped + 1))
        continue
    fi
    job_kill "$victim" || { late=$((late + 1)); job_done "$what"; continue; }
    job_wait
    if [ "$engine" = mpi ]; then
        job_ended_soon
    elif grep -q 'all workers are done$' "$job/out.$victim"; then # the server was done already
        late=$((late + 1))
        continue
    elif [ "$victim" -ge "$workers" ]; then
        check_servers
    elif grep -q 'all workers are done$' "$job"/out.*; then # the worker was done already
        late=$((late + 1))
        continue
    else
        check_workers
    fi
    killed=$((killed + 1))
    # shellcheck disable=SC2086
    job_start "$job" "$workers" $options --checkpoint "$job/run" --checkpoint-every $every --resume
    job_done "$what, resumed"
    check_result "$what, resumed"
done
printf '%d kills over %s, %d tasks stopped for 3 s; %d came too late; the slowest answer to a lost %s took %d ms\n' \
    "$killed" "$engine" "$stopped" "$late" "$([ "$engine" = mpi ] && echo task || echo server)" "$slowest"
