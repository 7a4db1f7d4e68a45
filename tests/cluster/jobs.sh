# SPDX-License-Identifier: MIT
# Jobs of `copse train` on several workers, for the tests that disturb them. Sourced; needs: engine, copse, node,
# modules, work (a folder). `limit`: seconds after which a job is ended and the test has failed; most take 2.
export COPSE_MODULES=$modules OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
limit=280

skip() { printf 'skipped: %s\n' "$1"; exit 77; }
no() {
    printf 'FAILED: %s\n' "$*"
    [ -z "${job-}" ] || tail -n 4 "$job"/err.* "$job"/out.* 2>/dev/null
    exit 1
}
[ -e "$modules/copse_$engine.so" ] || skip "the engine $engine is not built"
[ "$engine" != mpi ] || command -v mpirun >/dev/null ||
    skip "mpirun is not there: install the Debian package openmpi-bin"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# within(x, y, n): a number from 0 to n - 1, another for every x and y
within() { awk -v x="$1" -v y="$2" -v n="$3" 'BEGIN { srand(x * 7919 + y); rand(); print int(rand() * n) }'; }

# job_start JOB WORKERS OPTION...: starts a job whose files go to the folder JOB: pid.RANK, out.RANK, err.RANK and
# save. Where `spaces` names network namespaces and `hosts` their addresses, rank i runs in the i-th. The last
# `servers` of the ranks, behind WORKERS, are parameter servers.
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
    for port in $("$node" ports "$tasks"); do
        host=$(echo "${hosts-}" | cut -d ' ' -f $((rank + 1)))
        one="\"${host:-127.0.0.1}:$port\""
        [ $rank -lt "$workers" ] && list="$list${list:+,}$one" || ps="$ps${ps:+,}$one"
        rank=$((rank + 1))
    done
    waiters= rank=0
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
    local end=$(($(now_ms) + 30000))
    until ls "$1"/step-*0.safetensors >/dev/null 2>&1; do
        [ "$(now_ms)" -lt $end ] || no "no training after 30 s"
        sleep 0.02
    done
}

# job_signal SIGNAL RANK
job_signal() { kill -"$1" "$(cat "$job/pid.$2")" 2>/dev/null; }

# job_said_after MS RANK: milliseconds from the moment MS to what a worker said on stderr last
job_said_after() { echo $(($(date -r "$job/err.$2" +%s%N) / 1000000 - $1)); }

# job_names_lost RANK CODE WHO: a worker beside a lost task ended with CODE: 3, and said in one line, within 2 s of $begin,
# that WHO is lost, or 0, as it was done already. $what is for people; $slowest becomes the longest time.
job_names_lost() {
    local said=$job/err.$1 ms
    [ "$2" != 0 ] || return 0
    [ "$2" = 3 ] || no "$what: worker $1 ended with $2"
    [ "$(wc -l <"$said")" = 1 ] && grep -q "lost $3 (" "$said" || no "$what: worker $1 said: $(cat "$said")"
    ms=$(job_said_after "$begin" "$1")
    [ "$ms" -le 2000 ] || no "$what: worker $1 took $ms ms to name it"
    [ "$ms" -le "$slowest" ] || slowest=$ms
}

# job_was_killed CODE: the victim's exit code
job_was_killed() { [ "$1" = 137 ] || no "$what: the killed task ended with $1"; }

# job_ended_soon: over MPI, the whole job ended within 10 s of $begin
job_ended_soon() {
    local ms=$(($(now_ms) - begin))
    [ "$ms" -le 10000 ] || no "$what: the job ended after $ms ms"
    [ "$ms" -le "$slowest" ] || slowest=$ms
}

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
