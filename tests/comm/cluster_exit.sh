#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_exit.sh ENGINE COPSE LIAR NODE MODULES: how a job ends tells wrong use from a failure on the way. What is wrong
# on one task or on all, found before or after they have connected, ends every task with code 2, and so mpirun, and the
# task's line says it; over Gloo those of the others say it too, with its name. A device that fails is no wrong use.
set -u
engine=$1 copse=$2 liar=$3 node=$4 modules=$5
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/jobs.sh"

# one.sh: the tool, but the worker with rank $odd has the options $extra as well, and each leaves its code behind
cat >"$work/one.sh" <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}
[ -n "$rank" ] || rank=$(printf '%s\n' "$*" | sed -n 's/.*"type":"worker","index":\([0-9]*\)}.*/\1/p')
[ "$rank" != "$odd" ] || set -- "$@" $extra
"$tool" "$@"
code=$?
[ "$rank" != "$odd" ] || echo $code >"$job/code"
exit $code
END
chmod +x "$work/one.sh"
tool=$copse copse=$work/one.sh options="--devices host:0 --epochs 2 --model mlp:16"
export tool job odd extra

# ends CODE LINE WHAT WORKERS SERVERS ODD EXTRA OPTION...: every task ends with CODE, and that with rank ODD, the only one
# that has EXTRA as well, says LINE and nothing more; over Gloo the others do, too, and name it
ends() {
    local expected=$1 line=$2 what=$3 count=$4 rank said
    servers=$5 odd=$6 extra=$7 job=$work/job
    shift 7
    rm -rf "$work/job"
    # shellcheck disable=SC2086
    job_start "$work/job" "$count" $options "$@"
    job_wait
    for code in $codes; do
        [ "$code" = "$expected" ] || no "$what: exit codes $codes, not $expected"
    done
    # a launcher that is ending the job may end the shell before it has written this
    code=$(cat "$job/code" 2>/dev/null || { [ "$engine" = mpi ] && echo "$expected"; })
    [ "$code" = "$expected" ] || no "$what: the task that found it ended with $code"
    said=$work/said
    plain "$job/err.$odd" >"$said"
    [ "$(wc -l <"$said")" = 1 ] && grep -q "^copse: .*$line" "$said" || no "$what: task $odd said: $(cat "$said")"
    [ "$engine" = gloo ] || return 0
    rank=0
    while [ $rank -lt $((count + servers)) ]; do
        grep -q "$line" "$job/err.$rank" || no "$what: task $rank said: $(cat "$job/err.$rank")"
        [ -z "$extra" ] || [ $rank = "$odd" ] || grep -q "worker $odd (" "$job/err.$rank" ||
            no "$what: task $rank names nobody: $(cat "$job/err.$rank")"
        rank=$((rank + 1))
    done
}

ends 2 'cannot open missing' 'all have no data' 2 0 0 '' --data missing
ends 2 'cannot open missing' 'a worker has no data' 3 0 1 '--data missing'
ends 2 'cannot open missing' 'the chief has no data' 3 0 0 '--data missing'
ends 2 "differs in the settings of the trainer: it has 'learning rate 0.25', the first worker 'learning rate 0.00" 'other settings' 2 0 1 '--lr 0.25'
ends 2 'another --dropout than the first worker' 'an option that the library does not know' 2 0 1 '--dropout 0.25'
ends 2 'another --checkpoint than the first worker' 'a worker alone would checkpoint' 3 0 2 "--checkpoint $work/alone"
ends 2 'cannot open missing' 'the chief has no data, and there is a server' 2 1 0 '--data missing'
mkdir "$work/run"
(cd "$work/run" && "$tool" train --quiet $options --checkpoint . >/dev/null) || no "no checkpoint could be made"
ends 2 'there is a checkpoint already: .*; add --resume' 'a used folder' 2 0 0 '' --checkpoint "$work/run"
servers=0

# a worker is lost while the chief writes the checkpoint with which all were to stop; now and then it is done before
if [ "$engine" = gloo ]; then
    odd= tries=0 what="a worker is lost while all stop"
    while :; do
        rm -rf "$work/job"
        # shellcheck disable=SC2086
        job_start "$work/job" 2 $options --model mlp:20000 --epochs 1000 --batch 32 --checkpoint "$work/job/run"
        job_await "$job/run"
        pkill -TERM -P "$(cat "$job/pid.1")"
        until ls "$job/run" | grep -q tmp || job_is_over; do :; done
        pkill -KILL -P "$(cat "$job/pid.1")"
        job_wait
        [ "${codes% *}" = 143 ] || break
        tries=$((tries + 1))
        [ $tries -lt 20 ] || break
    done
    [ "$codes" = "3 137" ] || [ $tries = 20 ] || no "$what: exit codes $codes"
    [ $tries = 20 ] || plain "$job/err.0" | grep -q 'lost worker 1 (.*; start all workers again with --resume$' ||
        no "$what: the chief said: $(cat "$job/err.0")"
fi

# a device that fails on the way
tool=$liar odd=1 extra="--devices lying:0"
COPSE_LIE=lose:matmul
export COPSE_LIE
rm -rf "$work/job"
# shellcheck disable=SC2086
job_start "$work/job" 2 $options
job_wait
for code in $codes; do
    [ "$code" = 1 ] || [ "$code" = 3 ] || no "a device fails: exit codes $codes"
done
code=$(cat "$job/code" 2>/dev/null || { [ "$engine" = mpi ] && echo 1; })
[ "$code" = 1 ] || no "a device fails: its task ended with $code"
grep -q 'lying' "$job/err.1" || no "a device fails: its task said: $(cat "$job/err.1")"
