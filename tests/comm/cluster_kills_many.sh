#!/bin/sh
# SPDX-License-Identifier: MIT cluster_kills_many.sh COUNT COPSE NODE MODULES [SEED]: COUNT jobs over Gloo of 5 workers,
# 2 of them killed, and of 7 workers, 3 of them killed (SIGKILL) at the same moment of their training, or a few
# milliseconds apart. More than half are left: they agree on who they are and go on to the bytes of a job of as many
# workers from the same checkpoint. With every fifth job more than half are killed, at once (one after the other, the
# rest would be more than half of those before): then all that are left stop with code 3 and name somebody.
set -u
engine=gloo count=$1 copse=$2 node=$3 modules=$4 seed=${5-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/jobs.sh"
options="--devices host:0 --model mlp:16 --epochs 20 --batch 96 --keep 1000 --checkpoint-every 17 --worker-deadline 20"

# is_victim RANK
is_victim() { case " $victims " in *" $1 "*) return 0 ;; esac; return 1; }

# workers_of RANK: as how many it says that they go on, last
workers_of() { sed -n 's/.*: \([0-9]*\) workers* goe*s* on from .*/\1/p' "$job/err.$1" | tail -n 1; }

# The survivors have gone on, all of them; the same number of workers from the same checkpoint comes to the same.
check_continued() {
    local rank=0 left=0 first= from went_on
    for code in $codes; do
        if ! is_victim $rank; then
            left=$((left + 1))
            first=${first:-$rank}
            [ "$code" = 0 ] || no "$what: worker $rank did not go on: exit codes $codes"
        fi
        rank=$((rank + 1))
    done
    from=$(sed -n 's/.* on from //p' "$job/err.$first" | tail -n 1)
    [ -e "$from" ] || no "$what: went on from '$from'"
    went_on=$(workers_of "$first")
    for rank in $(seq 0 $((workers - 1))); do
        is_victim "$rank" || [ "$(workers_of "$rank")" = "$went_on" ] ||
            no "$what: worker $rank went on with others than the first"
    done
    [ "$went_on" = $left ] || { # the last to be killed was done already, beside the others
        [ "$went_on" -gt $left ] && [ $apart != 0 ] || no "$what: went on with $went_on workers"
        late=$((late + 1))
        return
    }
    local went=$job
    mkdir -p "$work/again/run"
    cp "$from" "$work/again/run"
    job_start "$work/again" $left $options --checkpoint "$work/again/run" --resume
    job_done "$what, without them from the start"
    cmp "$went/save" "$job/save" || no "$what: went on to other bits"
    cmp "$(newest "$went/run")" "$(newest "$job/run")" || no "$what: went on to another checkpoint"
    rm -rf "$work/again"
    continued=$((continued + 1))
}

check_stopped() {
    local rank=0
    for code in $codes; do
        if ! is_victim $rank; then
            [ "$code" = 3 ] || no "$what: worker $rank went on with less than half: exit codes $codes"
            grep -q 'lost worker [0-9] (' "$job/err.$rank" || no "$what: worker $rank names nobody"
        fi
        rank=$((rank + 1))
    done
    refused=$((refused + 1))
}

i=0 late=0 continued=0 refused=0 slowest=0
while [ $((continued + refused)) -lt "$count" ]; do
    i=$((i + 1))
    [ $i -le $((3 * count + 5)) ] || no "only $((continued + refused)) kills came before the end of a job"
    workers=5 kills=2 goes_on=1
    [ $((i % 2)) = 0 ] && workers=7 kills=3
    [ $((i % 5)) = 4 ] && kills=$((kills + 1)) goes_on=0
    offset=$(within "$seed" $((2 * i)) $workers)
    stride=$((1 + $(within "$seed" $((2 * i + 1)) $((workers - 1)))))
    victims= at=0
    while [ $at -lt $kills ]; do
        victims="$victims${victims:+ }$(((offset + at * stride) % workers))"
        at=$((at + 1))
    done
    # mostly at once, by one call; else so many ms apart
    apart=0
    [ $((i % 3)) = 2 ] && [ $goes_on = 1 ] && apart=$((1 + $(within "$seed" $((3 * i)) 40)))
    after=$(within "$seed" $((5 * i)) 1200)
    what="job $i: of $workers workers $victims after $after ms, $apart ms apart"
    rm -rf "$work/job"
    job_start "$work/job" $workers $options --checkpoint "$work/job/run" --on-loss continue
    job_await "$job/run"
    pids=
    for rank in $victims; do
        pids="$pids $(cat "$job/pid.$rank")"
    done
    sleep "$(awk -v ms="$after" 'BEGIN { print ms / 1000 }')"
    begin=$(now_ms)
    if [ $apart = 0 ]; then # stopped first: nobody connects anew without those that are killed a moment later
        kill -STOP $pids 2>/dev/null
        kill -KILL $pids 2>/dev/null || { late=$((late + 1)); job_wait; continue; }
    else
        gone=0
        for pid in $pids; do
            kill -KILL "$pid" 2>/dev/null || gone=1
            sleep "0.0$(printf %02d $apart)"
        done
        [ $gone = 0 ] || { late=$((late + 1)); job_wait; continue; }
    fi
    job_wait
    done=0
    for rank in $(seq 0 $((workers - 1))); do # some were done already
        is_victim "$rank" || grep -q 'lost worker' "$job/err.$rank" || done=1
    done
    [ $done = 0 ] || { late=$((late + 1)); continue; }
    if [ $goes_on = 1 ]; then
        check_continued
    else
        check_stopped
    fi
done
printf '%d times several workers were killed at once: %d times the others went on with the same bytes, ' \
    "$((continued + refused))" "$continued"
printf '%d times too few were left; %d came too late\n' "$refused" "$late"
