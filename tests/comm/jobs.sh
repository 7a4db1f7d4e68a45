# SPDX-License-Identifier: MIT
# Jobs of `copse train` on several workers, for the tests that disturb them. Sourced; needs: engine, copse, node,
# modules, work (a folder). `limit`: seconds after which a job is ended and the test has failed; most take 2.
export COPSE_MODULES=$modules OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
limit=280

skip() { printf 'skipped: %s\n' "$1"; exit 77; }
# job_kill_all: what is left of the job
waiters=
job_kill_all() {
    for waiter in $waiters; do
        if [ "$engine" = mpi ]; then # the launcher ends its processes
            kill -TERM "$waiter" 2>/dev/null
        else
            pkill -KILL -P "$waiter" 2>/dev/null
        fi
    done
}
no() {
    job_kill_all
    printf 'FAILED: %s\n' "$*"
    [ -z "${job-}" ] || tail -n 4 "$job"/err.* "$job"/out.* 2>/dev/null
    exit 1
}
[ -e "$modules/copse_$engine.so" ] || skip "the engine $engine is not built"
[ "$engine" != mpi ] || command -v mpirun >/dev/null ||
    skip "mpirun is not there: install the Debian package openmpi-bin"

# On a busy machine tasks may wait long for each other, and say so. plain FILE: what they said besides.
plain() { grep -v -e 'warning: cluster: waiting since ' -e 'warning: .* has sent no heartbeat for ' "$1"; }

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# within(x, y, n): a number from 0 to n - 1, another for every x and y
within() { awk -v x="$1" -v y="$2" -v n="$3" 'BEGIN { srand(x * 7919 + y); rand(); print int(rand() * n) }'; }

# job_start JOB WORKERS OPTION...: starts a job whose files go to the folder JOB: pid.RANK, out.RANK, err.RANK and
# save. Where `spaces` names network namespaces and `hosts` their addresses, rank i runs in the i-th. The last
# `servers` of the ranks, after WORKERS, are parameter servers.
job_start() {
    job=$1 workers=$2
    shift 2
    mkdir -p "$job"
    rm -f "$job"/pid.* "$job"/code.*
    local tasks=$(($workers + ${servers-0}))
    set -- "$copse" train --quiet --save "$job/save" "$@"
    [ "$engine" != mpi ] || [ ${servers-0} = 0 ] || set -- "$@" --servers "$servers"
    if [ "$engine" = mpi ]; then
        # shellcheck disable=SC2016
        timeout -k 5 $limit mpirun --oversubscribe --bind-to none -n "$tasks" sh -c '
            rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-}} job=$0
            echo $$ >"$job/pid.$rank"
            exec "$@" >"$job/out.$rank" 2>"$job/err.$rank"' "$job" "$@" >"$job/mpirun.txt" 2>&1 &
        waiters=$!
        return
    fi
    local list= ps= rank=0 host space one type index
    waiters=
    for port in $("$node" ports "$tasks" $$); do
        host=$(echo "${hosts-}" | cut -d ' ' -f $((rank + 1)))
        one="\"${host:-127.0.0.1}:$port\""
        [ $rank -lt "$workers" ] && list="$list${list:+,}$one" || ps="$ps${ps:+,}$one"
        rank=$((rank + 1))
    done
    rank=0
    while [ $rank -lt "$tasks" ]; do
        type=worker index=$rank
        [ $rank -lt "$workers" ] || { type=ps; index=$((rank - workers)); }
        space=$(echo "${spaces-}" | cut -d ' ' -f $((rank + 1)))
        # shellcheck disable=SC2016,SC2086
        timeout -k 5 $limit ${space:+ip netns exec $space} sh -c 'echo $$ >"$0"; exec "$@"' \
            "$job/pid.$rank" "$@" --cluster \
            "{\"cluster\":{\"worker\":[$list]${ps:+,\"ps\":[$ps]}},\"task\":{\"type\":\"$type\",\"index\":$index}}" \
            >"$job/out.$rank" 2>"$job/err.$rank" &
        waiters="$waiters $!"
        rank=$((rank + 1))
    done
}

# job_wait: until all have ended; codes has their exit codes by rank, of mpirun with MPI.
job_wait() {
    codes=
    for waiter in $waiters; do
        wait "$waiter" 2>/dev/null
        codes="$codes${codes:+ }$?"
    done
    [ -z "$pulse" ] || { kill "$pulse"; wait "$pulse" 2>/dev/null; }
    pulse=
}

# job_is_over: whether all have ended, which job_wait has to find out still.
job_is_over() {
    for waiter in $waiters; do
        kill -0 "$waiter" 2>/dev/null && return 1
    done
    return 0
}

# job_done WHAT: the job ends well.
job_done() {
    job_wait
    for code in $codes; do
        [ "$code" = 0 ] || no "$1: exit codes $codes"
    done
}

# job_await FOLDER: until training is under way, as the first checkpoint in FOLDER tells.
job_await() {
    until ls "$1"/step-*0.safetensors >/dev/null 2>&1; do
        job_is_over && no "the job ended before it trained"
        sleep 0.02
    done
}

# job_kill RANK: kills a task; $begin is when it was gone, which with much memory takes a busy machine a while
job_kill() {
    local pid
    pid=$(cat "$job/pid.$1")
    job_pulse
    kill -KILL "$pid" 2>/dev/null || return
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.01
    done
    begin=$(now_ms)
}

# job_signal SIGNAL RANK
job_signal() { kill -"$1" "$(cat "$job/pid.$2")" 2>/dev/null; }

# job_pulse: from now on, until the end of the job, measures what the machine itself is late with
pulse=
job_pulse() {
    : >"$work/pulse"
    "$node" pulse "$work/pulse" &
    pulse=$!
}

# job_slack TO: milliseconds between job_pulse and the moment TO that the machine, not the job, is to blame for: a
# process that does next to nothing was late by so much
job_slack() {
    awk -v to="$1" '$1 - $2 - 50 <= to { late += $2 } END { print int(late) }' "$work/pulse"
}

# job_limit FROM TO MS WHAT: between the moments FROM, of job_pulse, and TO no more than MS milliseconds of the job's
# own passed; $slowest becomes the longest time.
job_limit() {
    local ms=$(($2 - $1))
    [ "$ms" -le "$3" ] || [ $((ms - $(job_slack "$2"))) -le "$3" ] || no "$what: $4 took $ms ms, $(job_slack "$2") of them the machine's"
    [ "$ms" -le "$slowest" ] || slowest=$ms
}

# job_said RANK: when a worker said its last on stderr
job_said() { echo $(($(date -r "$job/err.$1" +%s%N) / 1000000)); }

# job_names_lost RANK CODE WHO: a worker beside a lost task ended with CODE: 3, and said in one line, within 2 s of $begin,
# that WHO is lost, or 0, as it was done already. $what is for people.
job_names_lost() {
    [ "$2" != 0 ] || return 0
    [ "$2" = 3 ] || no "$what: worker $1 ended with $2"
    plain "$job/err.$1" >"$work/said"
    [ "$(wc -l <"$work/said")" = 1 ] && grep -q "lost $3 (" "$work/said" || no "$what: worker $1 said: $(cat "$job/err.$1")"
    job_limit "$begin" "$(job_said "$1")" 2000 "naming it by worker $1"
}

# job_was_killed CODE: the victim's exit code
job_was_killed() { [ "$1" = 137 ] || no "$what: the killed task ended with $1"; }

# job_ended_soon: over MPI, the whole job ended within 10 s of $begin
job_ended_soon() { job_limit "$begin" "$(now_ms)" 10000 'the end of the job'; }

newest() { ls "$1"/step-*.safetensors | tail -n 1; }

# job_same JOB REFERENCE WHAT: the file that was saved, the last checkpoint and the printed result are the same.
job_same() {
    cmp "$1/save" "$2/save" || no "$3: the saved file differs"
    cmp "$(newest "$1/run")" "$(newest "$2/run")" || no "$3: the last checkpoint differs"
    head -n 1 "$2/out.0" | cmp - "$1/out.0.first" || no "$3: the result differs"
    [ -z "$(find "$1/run" -name '*.tmp*')" ] || no "$3: a leftover stayed: $(ls "$1/run")"
}
# job_keep_result: the first line of the chief's result, for job_same
job_keep_result() { head -n 1 "$job/out.0" >"$job/out.0.first"; }
