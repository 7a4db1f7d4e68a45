#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --precision`: the score of a network on the digits in f16 and bf16, on each device and on several; strategies
# that give the same bits; a killed run.
# usage: precision.sh COPSE [DEVICES...]
set -u
copse=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
host="--devices host:0 --model mlp:32 --batch 96"

# run OPTIONS: the result on the held-out examples
run() {
    "$copse" train --quiet "$@" | head -1
}

# accuracy OPTIONS: in tenths of a percent
accuracy() {
    run --model mlp:32 --batch 96 --epochs 8 "$@" | sed -n 's/^\([0-9]*\)\.\([0-9]\).*/\1\2/p'
}

bad 'a type that is no precision' '--precision' train $host --precision i32

# Not far from f32, and other numbers.
plain=$(accuracy --devices host:0)
for type in f16 bf16; do
    for devices in "$@"; do
        is=$(accuracy --devices "$devices" --precision $type)
        [ "$is" -ge $((plain - 15)) ] && passed=$((passed + 1)) || no "$type on $devices: $is of 1000, in f32 $plain"
    done
done
[ "$(run $host --epochs 2)" != "$(run $host --epochs 2 --precision bf16)" ] || no 'bf16 has the figures of f32'

# A device without a variant that reads 16 bits does more work than in f32: the command says so, once for each device.
says() { # COUNT OPTIONS
    want=$1
    shift
    "$copse" train --model mlp:8 --batch 512 --epochs 1 "$@" >"$work/said" 2>&1
    is=$(grep -c 'slower than f32' "$work/said")
    [ "$is" -eq "$want" ] && passed=$((passed + 1)) || no "$*: $is lines: $(head -12 "$work/said")"
}
says 1 --devices host:0 --precision f16
grep -q '^copse: warning: trainer: f16 is slower than f32 on host:0: no faster kernel reads 16 bits there, .*; use f32$' "$work/said" ||
    no "f16: $(cat "$work/said")"
says 1 --devices host:0 --precision bf16
says 1 --devices host:0,host:0 --precision f16
says 0 --devices host:0
says 1 --devices host:0 --precision f16 --quiet
says 0 --devices host:0 --precision bf16 --kernel matmul=half

# Strategies of one replica have the same bits, with any exchange two replicas have.
run $host --epochs 2 --precision f16 --save "$work/one" >/dev/null
for strategy in one_device collective 'accelerator --steps-per-run 7'; do
    run $host --epochs 2 --precision f16 --strategy $strategy --save "$work/is" >/dev/null
    cmp -s "$work/one" "$work/is" && passed=$((passed + 1)) || no "other bits with $strategy"
done
two="--devices host:0,host:0 --model mlp:32 --batch 96 --epochs 2 --precision f16"
run $two --reduction tree --save "$work/tree" >/dev/null
run $two --reduction sharded --transfer staged --bucket-bytes 512 --save "$work/sharded" >/dev/null
cmp -s "$work/tree" "$work/sharded" && passed=$((passed + 1)) || no 'other bits with another exchange'

# A run that is killed after a checkpoint goes on with the same bits; another precision is refused.
run $two --checkpoint "$work/whole" --checkpoint-every 1 >"$work/whole.txt"
"$copse" train $two --quiet --checkpoint "$work/cut" --checkpoint-every 1 >/dev/null 2>&1 &
while ! ls "$work/cut"/step-*.safetensors >/dev/null 2>&1 && kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
bad 'resume in f32' '--precision' train --devices host:0,host:0 --model mlp:32 --batch 96 --epochs 2 --checkpoint "$work/cut" --resume
"$copse" train $two --precision bf16 --checkpoint "$work/cut" --resume >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -v 'warning: .* slower than f32' "$work/stderr" | grep -q -- --precision && passed=$((passed + 1)) ||
    no "resume in bf16: $(cat "$work/stderr")"
run $two --checkpoint "$work/cut" --checkpoint-every 1 --resume >"$work/cut.txt"
cmp -s "$work/cut.txt" "$work/whole.txt" || no "the resumed run: $(cat "$work/cut.txt"); the whole one: $(cat "$work/whole.txt")"
newest() {
    ls "$1"/step-*.safetensors | tail -1
}
cmp -s "$(newest "$work/cut")" "$(newest "$work/whole")" && passed=$((passed + 1)) || no 'the last checkpoints differ'
printf "%d passed, %d failed\n" $passed $failed
[ $failed -eq 0 ]
