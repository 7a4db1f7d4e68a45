#!/bin/sh
# SPDX-License-Identifier: MIT
# Parameter groups and moving averages of `copse train`: --group, --average, --save-average, with files and checkpoints.
# usage: groups.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
host="--devices host --model mlp:16 --optimizer sgd --schedule constant"
group="dense1.*: frozen; *.bias: decay=0, rate=0.5"

# score OPTIONS: the line with the score on the held-out examples
score() {
    "$copse" train --quiet "$@" | head -1
}

bad 'group without a match' '"w9" matches no trained variable; close names are .dense1.bias' train $host --group "w9: frozen"
bad 'group text' 'write PATTERN: SETTINGS' train $host --group "*.bias"
bad 'average of 1' '--average: a number from 0 to 1 is needed' train $host --average 1
bad 'save-average alone' '--save-average belongs to' train $host --average 0.9 --save-average
bad 'average with servers' 'parameter servers have the variables' train $host --strategy parameter_server --average 0.9

# Frozen variables do not move: a run that trains nothing else has the score that it began with.
first=$(score $host --epochs 1 --lr 1e-30)
[ "$(score $host --epochs 2 --group "dense?.weight: frozen; *.bias: rate=1e-30")" = "$first" ] ||
    no "frozen weights moved"
[ "$(score $host --epochs 2 --group "dense2.weight: frozen; *.bias: rate=1e-30")" != "$first" ] ||
    no "dense1.weight did not move"
[ "$(score $host --epochs 2 --strategy parameter_server --group "dense?.weight: frozen; *.bias: rate=1e-30")" = "$first" ] ||
    no "servers moved frozen weights"

# The score is that of the averages. The file has them on request.
own=$(score $host --epochs 2 --save "$work/own")
average=$(score $host --epochs 2 --average 0.9 --save "$work/average" --save-average)
score $host --epochs 2 --average 0.9 --save "$work/values" >/dev/null
[ "$own" != "$average" ] || no "the score is not of averages: $own"
[ "$(score $host --epochs 1 --lr 1e-30 --init "$work/average")" = "$average" ] || no "the file does not have the averages"
[ "$(score $host --epochs 1 --lr 1e-30 --init "$work/values")" = "$own" ] || no "the file does not have the values"

# A resumed run has the same bits; other groups are refused.
score $host --epochs 1 --group "$group" --average 0.9 --checkpoint "$work/points" >/dev/null
resumed=$(score $host --epochs 2 --group "$group" --average 0.9 --checkpoint "$work/points" --resume --save "$work/resumed")
[ "$resumed" = "$(score $host --epochs 2 --group "$group" --average 0.9 --save "$work/whole")" ] || no "resumed: $resumed"
bad 'resume with another group' 'was made with --group=' train $host --epochs 3 --group "*.bias: decay=1" --average 0.9 \
    --checkpoint "$work/points" --resume
bad 'resume without groups' 'was made with --group=dense1.*, now it is without --group: give the same settings' train $host --epochs 3 --average 0.9 \
    --checkpoint "$work/points" --resume
score $host --epochs 1 --checkpoint "$work/plain" >/dev/null
bad 'resume with groups that the run did not have' 'was made without --group, now it is --group=dense1' train $host --epochs 3 \
    --group "$group" --checkpoint "$work/plain" --resume
bad 'resume without the average' 'was made with --average=0.[0-9]*, now it is without --average' train $host --epochs 3 \
    --group "$group" --checkpoint "$work/points" --resume
printf "%d passed, %d failed\n" $passed $failed
[ $failed -eq 0 ]
