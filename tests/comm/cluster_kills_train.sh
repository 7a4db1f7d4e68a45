#!/bin/sh
# SPDX-License-Identifier: MIT cluster_kills_train.sh ENGINE COUNT COPSE NODE MODULES [SEED]: jobs of 2 and 4 workers. In
# each job one worker is killed (SIGKILL) at a random moment of its training, until COUNT were. Over Gloo the others name
# it, within 2 s, and end with code 3, or go on without it; over MPI the job ends within 10 s. Started again with
# --resume every job ends with the bytes of one that nobody disturbed. Every fifth worker is stopped for 3 s instead,
# which all survive; now and then one gets SIGTERM, upon which all leave a checkpoint and end. Every eighth job has an
# OpenCL and a Vulkan replica per worker, where there are such.
set -u
engine=$1 count=$2 copse=$3 node=$4 modules=$5 seed=${6-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/jobs.sh"
epochs=20
[ "$engine" = gloo ] || epochs=40 # its messages are faster

setup() { # WORKERS KIND: the options of such a job, and what it comes to undisturbed
    workers=$1
    every=17 # never with the last step: the last checkpoint is always the one after the last epoch
    options="--devices host:0 --model mlp:32 --epochs $epochs --batch 96 --keep 1000"
    [ "$2" = found ] && every=7 options="--devices $found --model mlp:32 --epochs 4 --batch 96 --keep 1000"
    whole=$work/whole.$1.$2
    [ -e "$whole" ] && return
    job_start "$whole" "$1" $options --checkpoint "$whole/run" --checkpoint-every $every
    job_await "$whole/run"
    local begin=$(now_ms)
    job_done "$1 workers that nobody disturbs"
    echo $(($(now_ms) - begin)) >"$whole/ms"
}

resume() { # WHAT: go on with all workers and end as if nothing had been
    job_start "$job" "$workers" $options --checkpoint "$job/run" --checkpoint-every $every --resume
    job_done "$1, resumed"
    job_keep_result
    job_same "$job" "$whole" "$1"
}

# The survivors of $job say in one line that $victim is lost, within 2 s of $begin.
check_survivors() {
    local rank=0
    for code in $codes; do
        if [ $rank = "$victim" ]; then
            job_was_killed "$code"
        else
            job_names_lost $rank "$code" "worker $victim"
        fi
        rank=$((rank + 1))
    done
}

# The survivors of $job have gone on; the same workers from the same checkpoint come to the same.
check_continued() {
    local rank=0 first=0 from
    for code in $codes; do
        if [ $rank != "$victim" ]; then
            [ "$code" = 0 ] || no "$what: worker $rank did not go on: code $code"
            grep -q "lost worker $victim (" "$job/err.$rank" || return 0 # it was done already
        fi
        rank=$((rank + 1))
    done
    [ "$victim" = 0 ] && first=1
    from=$(sed -n 's/.* on from //p' "$job/err.$first" | tail -n 1)
    [ -e "$from" ] || no "$what: went on from '$from'"
    local went=$job
    mkdir -p "$work/again/run"
    cp "$from" "$work/again/run"
    job_start "$work/again" $((workers - 1)) $options --checkpoint "$work/again/run" \
        --checkpoint-every $every --resume
    job_done "$what, without it from the start"
    cmp "$went/save" "$job/save" || no "$what: went on to other bits"
    cmp "$(newest "$went/run")" "$(newest "$job/run")" || no "$what: went on to another checkpoint"
    rm -rf "$work/again"
    continued=$((continued + 1))
}

found=
for api in opencl vulkan; do
    "$copse" train --devices $api:0 --epochs 1 --batch 1000 --quiet >/dev/null 2>&1 &&
        found="$found${found:+,}$api:0"
done

# All end with a checkpoint of the same step when one is asked to.
check_asked() {
    for code in $codes; do
        [ "$code" = 143 ] || no "$what: exit codes $codes"
    done
    grep -q 'stopped after step .* --resume' "$job/err.0" || no "$what: the first says nothing"
}

if [ "$engine" = mpi ]; then # where nobody can go on, that is said before anything is done
    job_start "$work/refused" 2 --devices host:0 --checkpoint "$work/refused/run" --on-loss continue
    job_wait
    [ "$codes" != 0 ] && grep -q -e '--on-loss continue: over mpi the whole job ends' "$job/err.0" ||
        no "going on over MPI was not refused"
fi

i=0 killed=0 stopped=0 asked=0 continued=0 late=0 slowest=0
while [ $killed -lt "$count" ]; do
    i=$((i + 1))
    [ $i -le $((3 * count + 10)) ] || no "only $killed kills came before the end of a job"
    setup $((i % 2 ? 2 : 4)) "$([ -n "$found" ] && [ $((i % 8)) = 3 ] && echo found || echo host)"
    victim=$(((i - 1) / 2 % workers))
    after=$(within "$seed" $i $(($(cat "$whole/ms") * 8 / 10)))
    [ $((i % 10)) = 4 ] && after=$((after / 2)) # the step that it is in comes to its end
    what="job $i: worker $victim of $workers after $after ms"
    policy=stop
    [ "$engine" = gloo ] && [ $((i % 6)) = 2 ] && policy=continue
    # of 2 workers only the first may go on alone
    [ "$engine" = gloo ] && [ $((i % 9)) = 7 ] && [ "$workers$victim" = 21 ] && policy=continue
    rm -rf "$work/job"
    job_start "$work/job" "$workers" $options --checkpoint "$work/job/run" --checkpoint-every $every \
        --on-loss $policy
    job_await "$job/run"
    sleep "$(awk -v ms="$after" 'BEGIN { print ms / 1000 }')"
    if [ $((i % 5)) = 0 ]; then
        what="$what, stopped"
        job_signal STOP "$victim" || { late=$((late + 1)); job_done "$what"; continue; }
        sleep 3
        job_signal CONT "$victim"
        job_done "$what"
        job_keep_result
        job_same "$job" "$whole" "$what"
        stopped=$((stopped + 1))
        continue
    fi
    if [ $((i % 10)) = 4 ]; then
        what="$what, asked to end"
        job_signal TERM "$victim"
        job_wait
        case $codes in
        0*) late=$((late + 1)) ;;
        *) check_asked; asked=$((asked + 1)) ;;
        esac
        every=1000000 # the step at which it ended counts on from there
        resume "$what"
        continue
    fi
    job_kill "$victim" || { late=$((late + 1)); job_done "$what"; continue; }
    job_wait
    if [ "$engine" = mpi ]; then
        job_ended_soon
    elif [ $policy = stop ]; then
        check_survivors
    else
        check_continued
    fi
    killed=$((killed + 1))
    [ $policy = stop ] && resume "$what"
done
printf '%d kills over %s, %d workers stopped for 3 s, %d asked to end, all with the same bytes; ' \
    "$killed" "$engine" "$stopped" "$asked"
printf '%d jobs went on without the killed one; ' "$continued"
printf '%d came too late; the slowest answer to a kill took %d ms\n' "$late" "$slowest"
