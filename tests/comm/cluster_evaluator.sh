#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_evaluator.sh COPSE NODE MODULES: the evaluator of a job measures every checkpoint that the chief writes, and
# ends with the job; it says the same of the last one as the chief and as `copse evaluate`. Files that are replaced or
# removed while it reads do no harm; without a chief it ends by its limit.
set -u
copse=$1 node=$2 modules=$3
export COPSE_MODULES=$modules
work=$(mktemp -d) || exit 1
children=
trap 'for p in $children; do pkill -KILL -P $p; kill -KILL $p; done 2>/dev/null; rm -rf "$work"' EXIT
limit=280
[ -e "$modules/copse_gloo.so" ] || { echo 'skipped: the engine gloo is not built'; exit 77; }

fail() { echo "FAILED: $1"; tail -n 5 "$work"/*.err "$work"/*.out; exit 1; }
last() { tail -n 1 "$work/$1.out"; }
accuracy() { last "$1" | sed -n 's/.*"accuracy":\([0-9.e-]*\).*/\1/p'; }
steps() { last "$1" | sed -n 's/.*"steps":\([0-9]*\).*/\1/p'; }
count() { cat "$work/$2.out" 2>/dev/null | grep -c "$1"; } # a task that was just started has none yet
newest() { ls "$1"/step-*.safetensors | tail -n 1; }

cluster= # set by new_job
new_job() {
    set -- $("$node" ports 3 $$)
    cluster="{\"chief\":[\"127.0.0.1:$1\"],\"worker\":[\"127.0.0.1:$2\"],\"evaluator\":[\"127.0.0.1:$3\"]}"
}
# task NAME ROLE COMMAND OPTION...: in the background; $child
task() {
    name=$1 role=$2 command=$3
    shift 3
    COPSE_CONFIG="{\"cluster\":$cluster,\"task\":{\"type\":\"$role\",\"index\":0}}" \
        timeout -k 5 $limit "$copse" $command "$@" >"$work/$name.out" 2>"$work/$name.err" &
    child=$!
    children="$children $child"
}
# job OPTION...: chief, worker and evaluator with one command line, the evaluator first; all end well
job() {
    new_job
    task evaluator evaluator train "$@"; evaluator=$child
    task worker worker worker "$@"; worker=$child
    task chief chief train "$@"; chief=$child
    wait $chief || fail "the chief ended with $?"
    wait $worker || fail "the worker ended with $?"
    wait $evaluator || fail "the evaluator ended with $?"
    children=
    [ ! -s "$work/evaluator.err" ] || fail "the evaluator complained"
    last evaluator | grep -q '"event":"done"' || fail "the evaluator saw no end"
    [ -n "$(accuracy chief)" ] && [ "$(accuracy chief)" = "$(accuracy evaluator)" ] ||
        fail "the evaluator found $(accuracy evaluator), the chief $(accuracy chief)"
    [ "$(steps chief)" = "$(steps evaluator)" ] || fail "the evaluator's last is not the job's last"
}
options="--devices host:0 --model mlp:24 --epochs 6 --json"

# every checkpoint, in order, the same as at one sitting afterwards
job $options --checkpoint "$work/run" --checkpoint-every 20 --keep 1000
[ "$(count '"evaluated"' evaluator)" = "$(ls "$work/run" | wc -l)" ] || fail "not every checkpoint was evaluated"
"$copse" evaluate --checkpoint "$work/run" --devices host:0 --json >"$work/once.out" || fail "copse evaluate"
[ "$(accuracy once)" = "$(accuracy evaluator)" ] && [ "$(steps once)" = "$(steps evaluator)" ] ||
    fail "copse evaluate of the folder differs"
"$copse" evaluate --checkpoint "$(newest "$work/run")" --devices host:0 --json >"$work/once.out" ||
    fail "copse evaluate of a file"
[ "$(accuracy once)" = "$(accuracy evaluator)" ] || fail "copse evaluate of the file differs"
timeout $limit "$copse" evaluate --checkpoint "$work/run" --watch --devices host:0 --json >"$work/again.out" ||
    fail "copse evaluate --watch"
cmp "$work/again.out" "$work/evaluator.out" || fail "watching afterwards found something else"

# files that go away, and one that is replaced, with every step
job $options --checkpoint "$work/few" --checkpoint-every 1 --keep 1
job $options --checkpoint "$work/one.safetensors" --checkpoint-every 1

# other strategies' checkpoints
for strategy in 'mirrored --devices host:0,host:0,host:0' 'accelerator --steps-per-run 4'; do
    rm -rf "$work/other"
    "$copse" train --devices host:0 --strategy $strategy --epochs 2 --json --checkpoint "$work/other" \
        >"$work/chief.out" || fail "training with $strategy"
    "$copse" evaluate --checkpoint "$work/other" --devices host:0 --json >"$work/once.out" ||
        fail "copse evaluate after $strategy"
    [ "$(accuracy once)" = "$(accuracy chief)" ] || fail "copse evaluate differs after $strategy"
done

# a damaged one is passed over while others may come, and an error where it is all there is
first=$(ls "$work"/run/* | sed -n 2p)
head -c 9000 "$first" >"$work/cut.safetensors"
"$copse" evaluate --checkpoint "$work/cut.safetensors" >"$work/cut.out" 2>"$work/cut.err"
[ $? = 2 ] || fail "a damaged file was evaluated"
cp "$work/cut.safetensors" "$first"
timeout $limit "$copse" evaluate --checkpoint "$work/run" --watch --devices host:0 --json >"$work/again.out" \
    2>"$work/again.err" || fail "a damaged file ended the watch"
grep -q 'warning: .* is passed over: ' "$work/again.err" || fail "no word about a damaged file"
[ "$(accuracy again)" = "$(accuracy evaluator)" ] || fail "after a damaged file something else was found"

# parameter servers, whose workers take turns at the batches: the chief's last turn is the end
set -- $("$node" ports 4 $$)
cluster="{\"chief\":[\"127.0.0.1:$1\"],\"worker\":[\"127.0.0.1:$2\"],\"ps\":[\"127.0.0.1:$3\"],\"evaluator\":[\"127.0.0.1:$4\"]}"
served="$options --strategy parameter_server --checkpoint $work/served --checkpoint-every 20"
task evaluator evaluator train $served; evaluator=$child
task server ps worker $served; server=$child
task worker worker worker $served; worker=$child
task chief chief train $served
wait $child || fail "the chief beside a server ended with $?"
wait $worker || fail "the worker beside a server ended with $?"
wait $server || fail "the server ended with $?"
wait $evaluator || fail "the evaluator of a job with a server ended with $?"
last evaluator | grep -q '"event":"done"' || fail "the evaluator of a job with a server saw no end"
"$copse" evaluate --checkpoint "$work/served" --devices host:0 --json >"$work/once.out" ||
    fail "copse evaluate after a job with a server"
[ "$(accuracy once)" = "$(accuracy evaluator)" ] || fail "copse evaluate differs after a job with a server"

# with nothing to evaluate: each in one line
new_job
task alone evaluator train $options --checkpoint "$work/nothing" --evaluator-patience 1
wait $child
[ $? = 3 ] || fail "the evaluator without a job did not end with 3"
grep -q "no new checkpoint in '.*nothing' for 1 s, none came at all" "$work/alone.err" || fail "no word of the limit"
task alone evaluator train $options
wait $child
[ $? = 2 ] || fail "the evaluator without --checkpoint did not end with 2"
grep -q 'give it the job.s --checkpoint PATH' "$work/alone.err" || fail "no word of what is missing"
[ "$(wc -l <"$work/alone.err")" = 1 ] || fail "more than a line"

# the chief is killed: the evaluator measures what is left and ends by its limit; asked to, it ends at once. Once more
# where the machine was so slow that none came for the limit while the chief lived.
end_of_a_chief() {
    rm -rf "$work/killed"
    task killed chief train $options --cluster '{"cluster":{"chief":["127.0.0.1:1"]},"task":{"type":"chief","index":0}}' \
        --epochs 100000 --checkpoint "$work/killed" --checkpoint-every 50
    killed=$child
    until [ "$(ls "$work/killed" 2>/dev/null | grep -c 'safetensors$')" -ge 3 ]; do
        kill -0 $killed 2>/dev/null || fail "the chief ended"
        sleep 0.05
    done
    task left evaluator train $options --epochs 100000 --checkpoint "$work/killed" --evaluator-patience 3; left=$child
    task asked evaluator worker $options --epochs 100000 --checkpoint "$work/killed"; asked=$child
    until [ "$(count '"evaluated"' left)" -ge 3 ] && [ "$(count '"evaluated"' asked)" -ge 3 ]; do
        kill -0 $asked 2>/dev/null || fail "nothing was evaluated"
        kill -0 $left 2>/dev/null || break
        sleep 0.05
    done
    is_early=0
    kill -0 $left 2>/dev/null || is_early=1
    pkill -KILL -P $killed || fail "the chief was gone already"
    wait $killed 2>/dev/null
    wait $left
    code=$?
    [ $code = 3 ] || fail "the evaluator of a killed chief did not end with 3 but with $code"
    [ $is_early = 0 ] || { pkill -KILL -P $asked; wait $asked 2>/dev/null; }
    return $is_early
}
tries=0
until end_of_a_chief; do
    tries=$((tries + 1))
    [ $tries -lt 10 ] || fail "no checkpoint for 3 s, again and again"
done
newest=$(newest "$work/killed" | sed 's/.*step-0*\([0-9]*\)[.].*/\1/')
grep -q "for 3 s, the last one is of step $newest: " "$work/left.err" || fail "the last one was not measured"
pkill -TERM -P $asked || fail "the other evaluator was gone already"
wait $asked
[ $? = 143 ] || fail "the evaluator that was asked to end did not end with 143"
grep -q 'was stopped$' "$work/asked.err" || fail "no word of the signal"
children=
echo "evaluators: every checkpoint of a job, one file and vanishing files, damage, no job, a killed chief, a signal"
