#!/bin/sh
# SPDX-License-Identifier: MIT
# Checkpoints and the file of --save on a disk that fails: once, for some time, and until the end. A preloaded library makes
# fsync fail; where a small file system can be mounted, it becomes full.
# usage: failing_disk.sh COPSE FAILING_DISK.so
set -u
copse=$1 failing=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
cd "$work" || exit 1
job="train --devices host:0 --no-cross-check --model mlp:8 --batch 512 --epochs 4 --schedule constant --quiet" # 3 steps to an epoch

# run CODE NAME FIRST-LAST OPTION...: calls of fsync that fail; a checkpoint takes one, with up to two more tries
run() {
    want=$1 name=$2 range=$3
    shift 3
    FAIL_FSYNC=$range LD_PRELOAD=$failing "$copse" $job "$@" >stdout 2>stderr
    code=$?
    [ $code -eq "$want" ] && passed=$((passed + 1)) || no "$name: exit code $code: $(cat stderr)"
}
lines() {
    [ "$(wc -l <stderr)" -eq "$1" ] || no "$name: $(wc -l <stderr) lines: $(cat stderr)"
}
newest() {
    ls "$1" | tail -1
}
"$copse" $job >plain || no 'the plain run'
"$copse" $job --checkpoint whole --checkpoint-every 2 >/dev/null || no 'the whole run'

# One error is not even noticed; two are not.
run 0 'one error' 3-3 --checkpoint once --checkpoint-every 2
lines 0
cmp -s "whole/$(newest whole)" "once/$(newest once)" || no 'one error: another checkpoint'
run 0 'two errors' 3-4 --checkpoint twice --checkpoint-every 2
lines 0

# A checkpoint fails for good: one line, and the run goes on to the same result.
run 0 'one checkpoint' 3-5 --checkpoint some --checkpoint-every 2
grep -q "^copse: warning: monitor: .*Input/output error; while writing the checkpoint of step 4; it goes on, the newest checkpoint is some/step-0*2.safetensors$" stderr || no "$name: $(cat stderr)"
grep -q '^copse: warning: monitor: checkpoints are written again: some/step-0*6.safetensors$' stderr || no "$name: $(cat stderr)"
lines 2
head -1 plain | cmp -s - stdout 2>/dev/null || [ "$(head -1 plain)" = "$(head -1 stdout)" ] || no "$name: $(cat stdout)"
cmp -s "whole/$(newest whole)" "some/$(newest some)" || no "$name: another checkpoint"
ls some | grep -q tmp && no "$name: leftovers: $(ls some)"

# Until the end: the result is printed, and the code is 1.
FAIL_WITH=28 run 1 'all checkpoints' 2-9999 --checkpoint none --checkpoint-every 2
[ "$(head -1 plain)" = "$(head -1 stdout)" ] || no "$name: $(cat stdout)"
grep -q "^copse train: the last checkpoint was not written: .*No space left on device; while writing the checkpoint of step 12; the newest is none/step-0*0.safetensors$" stderr ||
    no "$name: $(cat stderr)"
lines 2
"$copse" $job --checkpoint none --checkpoint-every 2 --resume >resumed 2>&1 || no "$name: $(cat resumed)"
cmp -s "whole/$(newest whole)" "none/$(newest none)" || no "$name: resumed to another state: $(cat resumed)"

# The first checkpoint shows whether the place can be used.
run 2 'the first checkpoint' 1-9999 --checkpoint first
lines 1

# --save: FILE.partial after an epoch, FILE at the end.
FAIL_NAME=.partial run 0 'a partial file' 1-9999 --save p.st
grep -q "^copse train: .*p.st.partial.*Input/output error; while saving a model; training goes on$" stderr || no "$name: $(cat stderr)"
lines 1
[ -s p.st ] && [ ! -e p.st.partial ] || no "$name: $(ls)"
FAIL_NAME= run 1 'the model' 1-9999 --save q.st
grep -q "^copse train: 'q.st' was not written: .*Input/output error; while saving a model$" stderr || no "$name: $(cat stderr)"
[ "$(head -1 plain)" = "$(head -1 stdout)" ] || no "$name: $(cat stdout)"
[ ! -e q.st ] && [ ! -e q.st.partial ] || no "$name: $(ls)"
lines 2

# Several workers agree to go on.
if command -v mpirun >/dev/null && [ -n "${COPSE_MPI-}" ]; then
    workers="mpirun --allow-run-as-root --oversubscribe -n 2"
    $workers "$copse" $job --checkpoint pair --checkpoint-every 2 >stdout 2>stderr || no "two workers: $(cat stderr)"
    $workers env FAIL_FSYNC=2-4 LD_PRELOAD="$failing" "$copse" $job --checkpoint job --checkpoint-every 2 >stdout 2>stderr ||
        no "workers: $(cat stderr)"
    cmp -s "pair/$(newest pair)" "job/$(newest job)" || no "workers: another checkpoint"
    grep -c 'it goes on' stderr | grep -qx 1 || no "workers: $(cat stderr)"
else
    echo 'skipped: several workers: there is no mpirun, or no MPI in this build'
fi

# A file system of 64 KiB that is full after some checkpoints, and has room again.
mkdir small
if mount -t tmpfs -o size=64k none small 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    "$copse" $job --checkpoint small/c --checkpoint-every 1 --keep 50 >stdout 2>stderr
    code=$?
    [ $code -eq 1 ] && grep -q 'the last checkpoint was not written: .*No space left on device\|is the disk full' stderr || no "full: $code $(cat stderr)"
    lines() { :; }
    [ "$(head -1 plain)" = "$(head -1 stdout)" ] || no "full: $(cat stdout)"
    "$copse" info "small/c/$(newest small/c)" >/dev/null || no "full: the newest checkpoint is damaged"
else
    echo 'skipped: a full file system: it cannot be mounted here'
fi
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
