#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --loss` and the optimizers lars, lamb and adam8: runs on the digits, resumed runs, wrong names.
# usage: losses.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
host="--devices host:0 --model mlp:32 --batch 96"

# run OPTIONS: the result on the held-out examples
run() {
    "$copse" train --quiet $host "$@" | head -1
}

# accuracy LEAST NAME OPTIONS: in percent
accuracy() {
    least=$1 name=$2
    shift 2
    is=$(run --epochs 20 "$@" | sed -n 's/^\([0-9]*\)\..*/\1/p')
    [ "${is:-0}" -ge "$least" ] && passed=$((passed + 1)) || no "$name: ${is:-no} of 100, $least are needed"
}

accuracy 85 'label smoothing' --loss 'cross_entropy smoothing=0.1'
accuracy 85 'binary cross-entropy' --loss 'binary_cross_entropy positive=3'
accuracy 85 'lars' --optimizer lars --optimizer-settings trust=0.02
accuracy 85 'lamb' --optimizer lamb --lr 0.02
accuracy 85 'adam8' --optimizer adam8
[ "$(run --epochs 2)" = "$(run --epochs 2 --loss cross_entropy)" ] && passed=$((passed + 1)) || no 'cross_entropy is another loss'
[ "$(run --epochs 2)" != "$(run --epochs 2 --loss 'cross_entropy ignore=3')" ] && passed=$((passed + 1)) || no 'ignore=3 changes nothing'

# Rare rows count as much as others: most of the rare class is found.
awk 'BEGIN { srand(3); OFS = ","; print "x", "z", "kind"; for (i = 0; i < 900; i++) { r = i % 18 == 0; print rand() + 0.6 * r, rand() + 0.6 * r, r ? "rare" : "often" } }' >"$work/rare.csv"
# recall OPTIONS: of the rare class, in percent
recall() {
    "$copse" train --quiet --devices host:0 --data "$work/rare.csv" --save "$work/rare" --epochs 20 "$@" >/dev/null 2>&1
    "$copse" evaluate "$work/rare" "$work/rare.csv" --devices host:0 | awk '$1 == "rare" { print int($4) }' | head -1
}
plain=$(recall) even=$(recall --loss 'cross_entropy weights=balanced')
[ "${plain:-100}" -lt 60 ] && [ "${even:-0}" -ge 80 ] && passed=$((passed + 1)) || no "recall of a rare class: $plain, balanced $even"

# The warning of unequal classes advises weights, where there are none.
train="train --quiet --devices host:0 --data $work/rare.csv --epochs 1"
"$copse" $train 2>"$work/stderr" >/dev/null
grep -q 'recall of each class, and give rare classes weight in the loss (--loss "cross_entropy weights=balanced", in Python class_weight=' "$work/stderr" ||
    no "unequal classes: $(cat "$work/stderr")"
for weights in balanced 1,18; do
    "$copse" $train --loss "cross_entropy weights=$weights" 2>"$work/stderr" >/dev/null
    grep -q 'look at the recall of each class$' "$work/stderr" && ! grep -q 'give rare' "$work/stderr" || no "weights=$weights: $(cat "$work/stderr")"
done

bad 'a name that is no loss' 'it is one of cross_entropy, binary_cross_entropy' train $host --loss crossentropy
bad 'a setting of another loss' 'it has smoothing=' train $host --loss 'cross_entropy delta=1'
bad 'a loss of numbers' 'huber is not one for classes' train $host --loss huber
bad 'a setting that lamb lacks' 'lamb has no such setting' train $host --optimizer lamb --optimizer-settings trust=1

# A resumed run needs the loss that it began with.
run --epochs 1 --loss binary_cross_entropy --checkpoint "$work/c" >/dev/null
bad 'a resumed run without its loss' 'was made with --loss=binary_cross_entropy' train $host --epochs 2 --checkpoint "$work/c" --resume
# ... and the settings of its rule.
run --epochs 1 --optimizer rmsprop --optimizer-settings beta2=0.95 --checkpoint "$work/r" >/dev/null
resume="train $host --optimizer rmsprop --epochs 2 --checkpoint $work/r --resume"
bad 'a resumed run without the settings' 'was made with --optimizer-settings=beta2=0.95, now it is without --optimizer-settings' $resume
bad 'a resumed run with other settings' 'was made with --optimizer-settings=beta2=0.95, now it is --optimizer-settings=beta2=0.9:' $resume \
    --optimizer-settings beta2=0.9
run --epochs 2 --optimizer rmsprop --optimizer-settings beta2=0.95 --checkpoint "$work/r" --resume >/dev/null
run --epochs 1 --optimizer rmsprop --checkpoint "$work/p" >/dev/null
bad 'a resumed run with new settings' 'was made without --optimizer-settings, now it is --optimizer-settings=beta2=0.95' \
    train $host --optimizer rmsprop --epochs 2 --checkpoint "$work/p" --resume --optimizer-settings beta2=0.95
printf "%d passed, %d failed\n" $passed $failed
[ $failed -eq 0 ]
