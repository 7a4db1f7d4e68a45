#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/trust.c over drivers that abort and hang while it asks for conformance: it prints the verdict and exits
# normally, the kernel is blocked, and no helper process outlives it.
# usage: trust_example.sh TRUST LYING-COPSE
set -u
trust=$1
liar=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work"
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# expect CODE NAME PROGRAM ARGUMENT...: standard output in $work/stdout
expect() {
    code=$1 name=$2
    shift 2
    timeout 250 "$@" >"$work/stdout" 2>"$work/stderr"
    got=$?
    [ $got -eq "$code" ] || no "$name: exit code $got: $(cat "$work/stdout" "$work/stderr")"
}

says() {
    grep -qE -- "$1" "$work/stdout" || no "$name: nothing like '$1' in: $(cat "$work/stdout")"
}

expect 0 'honest' "$trust" lying:0 argmax,relu
says '^[1-9][0-9]* passed, 0 failed, 0 not reached$'
expect 2 'no device' "$trust" lying:7 argmax
grep -q 'lying:7' "$work/stderr" || no "no device: $(cat "$work/stderr")"

# the kernel of argmax aborts: each of its cases is a CRASH, the cases of relu pass, the kernel is blocked
export COPSE_LIE=crash:argmax
expect 1 'crash' "$trust" lying:0 argmax,relu
says '^CRASH run argmax .* the process died of signal 6'
says '^[1-9][0-9]* passed, [1-9][0-9]* failed, 0 not reached$'
export COPSE_LIE=hang:argmax
expect 1 'hang' "$trust" lying:0 argmax 0.5
says '^TIMEOUT run argmax .* no end after 0.5 s; the process was killed'
says 'failed, 0 not reached$'

# a variant that crashes is blocked for later programs
export COPSE_LIE=crash:matmul
expect 1 'block' "$trust" lying:0 matmul
unset COPSE_LIE
"$liar" devices | grep -q 'blocked: matmul' || no "block: not blocked: $(cat "$work/stdout")"

# what ends the example ends the process that hangs
export COPSE_LIE=hang:argmax
"$trust" lying:0 argmax 250 >"$work/stdout" 2>&1 &
parent=$!
child=
while [ -z "$child" ] && kill -0 $parent 2>/dev/null; do
    child=$(pgrep -P $parent -f ' --kind 2 ')
done
kill -KILL $parent
wait $parent 2>/dev/null
tries=0
while kill -0 "$child" 2>/dev/null && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -KILL "$child" 2>/dev/null && no 'the process that hangs goes on without the example'
[ $failed -eq 0 ] && echo 'the example survives'
exit $failed
