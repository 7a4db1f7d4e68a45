#!/bin/sh
# SPDX-License-Identifier: MIT
# Event files of `copse train --logdir` and `copse evaluate --logdir`: what is in them, resumed runs, wrong folders.
# usage: logdir.sh COPSE DIGITS.csv.gz
copse=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
digits=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
no() {
    echo "FAILED: $*"
    failed=1
}
# count FILE TAG: values of a tag
count() {
    grep -ao "$2" "$1" | wc -l
}

train="train --devices host:0 --model mlp:8 --batch 512 --quiet" # 1438 examples: 3 steps to an epoch
"$copse" $train --epochs 2 --logdir run --checkpoint state --checkpoint-every 1 >out 2>&1 || no "train: $(cat out)"
set -- run/events.out.tfevents.*
[ $# -eq 1 ] || no "files: $*"
[ "$(count "$1" loss/train)" = 6 ] || no "losses of steps: $(count "$1" loss/train)"
[ "$(count "$1" accuracy/train)" = 6 ] || no "accuracies of steps"
[ "$(count "$1" 'loss/held out')" = 2 ] || no "scores of epochs: $(count "$1" 'loss/held out')"
[ "$(count "$1" variables/dense2.weight)" = 2 ] || no "distributions: $(count "$1" variables/dense2.weight)"
grep -aq brain.Event:2 "$1" || no "no version"
cp "$1" first

"$copse" $train --epochs 3 --logdir run --checkpoint state --resume >out 2>&1 || no "resume: $(cat out)"
cmp -s "$1" first || no "the first file was changed"
set -- run/events.out.tfevents.*
[ $# -eq 2 ] || no "files after a resumed run: $*"
[ "$(count "$2" loss/train)" = 3 ] || no "a resumed run writes $(count "$2" loss/train) losses"

# A regression has other scores.
{ echo x,y; for i in $(seq 60); do echo "$i,$i.5"; done; } >line.csv
"$copse" train --devices host:0 --data line.csv --task regression --epochs 1 --logdir line --quiet >out 2>&1 ||
    no "regression: $(cat out)"
[ "$(count line/events.* 'mean absolute error/held out')" = 1 ] || no "no mean absolute error"
[ "$(count line/events.* 'R2/held out')" = 1 ] || no "no R2"

# A folder that cannot be made ends the command with one line.
"$copse" $train --epochs 1 --logdir no/such/folder >out 2>&1 && no "a folder without a parent"
grep -q "no/such/folder" out || no "the folder is not named: $(cat out)"
[ "$(wc -l <out)" -eq 1 ] || no "more than a line: $(cat out)"
"$copse" $train --epochs 1 --logdir "" >out 2>&1
[ $? -eq 2 ] || no "an empty path: $(cat out)"

# Pictures with the largest losses, where there are pictures.
"$copse" $train --epochs 1 --save digits.safetensors >out 2>&1 || no "save: $(cat out)"
"$copse" evaluate digits.safetensors "$digits" --logdir worst --quiet >out 2>&1 && no "a table has no pictures"
grep -q "shows pictures, and '.*digits.csv.gz' has none" out || no "the reason is not told: $(cat out)"
"$copse" evaluate --checkpoint state --logdir worst >out 2>&1
[ $? -eq 2 ] || no "--logdir of checkpoints: $(cat out)"
[ ! -e worst ] || no "a folder was made"
exit $failed
