#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs that end early and runs that become longer: --save replaces a file only by a complete run, an ignored signal stays
# ignored, and --resume takes a larger --epochs.
# usage: stopped.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
small='--devices host --model mlp:8 --batch 256'
endless="$small --epochs 4000000000 --json"

# A shell starts background jobs with SIGINT ignored; below `timeout` it is not.
with='timeout 250'
# begin OPTION...: an endless run in the background, until it has finished two epochs
begin() {
    : >"$work/stdout"
    $with "$copse" train $endless "$@" >"$work/stdout" 2>"$work/stderr" &
    child=$!
    await 2
}
# await N: the run at hand has printed N epochs
await() {
    while kill -0 $child 2>/dev/null && [ "$(grep -c '"event":"epoch"' "$work/stdout")" -lt "$1" ]; do
        sleep 0.05
    done
}
# ends SIGNAL CODE: the run at hand, by this signal
ends() {
    kill -"$1" $child 2>/dev/null || no "the run ended before SIG$1: $(cat "$work/stderr")"
    wait $child
    got=$?
    [ $got -eq "$2" ] || no "SIG$1: exit code $got, not $2: $(cat "$work/stderr")"
}
whole() { [ -s "$1" ] && "$copse" train $small --quiet --epochs 1 --save "$1.probe" >"$work/null" 2>&1 &&
    [ "$(wc -c <"$1")" -ge 1000 ] || no "$1 is not a whole file"; rm -f "$1.probe"; }

# A complete run leaves FILE alone.
"$copse" train $small --epochs 2 --quiet --save "$work/p.st" >"$work/stdout" || no 'the first run'
[ -s "$work/p.st" ] && [ ! -e "$work/p.st.partial" ] || no "after a run: $(ls "$work")"

# A stopped one leaves FILE as it was, and what it has in FILE.partial.
sum=$(cksum <"$work/p.st")
for signal in INT TERM; do
    begin --seed 2 --save "$work/p.st"
    [ "$(cksum <"$work/p.st")" = "$sum" ] || no 'a run that is not complete replaced the file'
    ends $signal $([ $signal = INT ] && echo 130 || echo 143)
    [ "$(cksum <"$work/p.st")" = "$sum" ] || no "SIG$signal: the file was replaced"
    whole "$work/p.st.partial"
    grep -q '"event":"partial","path":".*/p.st.partial","steps":[1-9]' "$work/stdout" || no "$(tail -2 "$work/stdout")"
    tail -n 1 "$work/stdout" | grep -q '"event":"stopped"' || no "the last event: $(tail -n 1 "$work/stdout")"
done
# In words: one line
: >"$work/stdout"
$with "$copse" train $small --epochs 4000000000 --save "$work/new.st" >"$work/stdout" 2>"$work/stderr" &
child=$!
while kill -0 $child 2>/dev/null && ! grep -q '^epoch   1' "$work/stdout"; do
    sleep 0.05
done
ends INT 130
[ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -q \
    "^copse train: stopped after step [0-9]*; '.*/new.st.partial' has its parameters, '.*/new.st' was not written$" \
    "$work/stderr" || no "in words: $(cat "$work/stderr")"

# The next complete run replaces FILE, and removes FILE.partial.
"$copse" train $small --epochs 2 --seed 3 --quiet --save "$work/p.st" >"$work/stdout" || no 'the next run'
[ "$(cksum <"$work/p.st")" != "$sum" ] || no 'a complete run did not replace the file'
[ ! -e "$work/p.st.partial" ] || no 'a complete run left FILE.partial'

# An ignored signal stays ignored: with files to write and without.
with=
for options in '' "--save $work/q.st" "--checkpoint $work/points" "--checkpoint $work/points --resume"; do
    begin $options
    kill -INT $child
    await $(($(grep -c '"event":"epoch"' "$work/stdout") + 2))
    ends TERM 143
done
rm -rf "$work/watched"
"$copse" train $small --epochs 2 --quiet --checkpoint "$work/watched" >"$work/stdout" || no 'a run to be watched'
rm "$(ls "$work"/watched/*.safetensors | tail -n 1)" # its last one, so that the evaluator waits for more
"$copse" evaluate --checkpoint "$work/watched" --devices host --watch --json >"$work/stdout" 2>"$work/stderr" &
child=$!
while kill -0 $child 2>/dev/null && ! grep -q '"event":"evaluated"' "$work/stdout"; do
    sleep 0.05
done
kill -INT $child
kill -TERM $child # if it were not ignored, the first one would be reported
wait $child
code=$?
[ $code -eq 143 ] || no "evaluate --watch: exit code $code: $(cat "$work/stdout" "$work/stderr")"

# A longer run: a cosine follows the curve of the new length, so that training goes on.
long() { "$copse" train $small "$@" >"$work/stdout" 2>"$work/stderr" || no "$*: $(cat "$work/stderr")"; }
for schedule in cosine constant; do
    long --schedule $schedule --epochs 3 --checkpoint "$work/$schedule"
    grep 'are right' "$work/stdout" >"$work/three"
    long --schedule $schedule --epochs 5 --checkpoint "$work/$schedule" --resume
    grep -q '5 epochs instead of 3' "$work/stdout" || no "$schedule: $(cat "$work/stdout")"
    grep -q 'follows the cosine of the new length' "$work/stdout" && said=cosine || said=constant
    [ $said = $schedule ] || no "$schedule: $(cat "$work/stdout")"
    grep 'are right' "$work/stdout" >"$work/five"
    cmp -s "$work/three" "$work/five" && no "$schedule: nothing was learned after the third epoch: $(cat "$work/five")"
done
"$copse" train $small --epochs 2 --checkpoint "$work/cosine" --resume >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q 'of epoch 5 already, --epochs is 2' "$work/stderr" || no "shorter: $(cat "$work/stderr")"

[ $failed -eq 0 ] && echo 'stopped runs keep files, ignored signals stay ignored, runs become longer'
exit $failed
