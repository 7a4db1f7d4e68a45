#!/bin/sh
# SPDX-License-Identifier: MIT
# Early stopping of `copse train`: when it stops, which epoch --save writes, and a resumed run that ends as the undisturbed one.
# usage: early_stopping.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

# Classes that overlap: the held-out loss falls and rises again. 160 rows train, in 5 steps an epoch.
awk 'BEGIN { OFS = ","; srand(3); print "a,b,c,d,class"
    for (i = 0; i < 200; i++) { k = i % 3; print 2 * k + 5 * rand(), 5 * rand() - k, rand(), rand(), "k" k } }' >"$work/table.csv"
data="$work/table.csv"
job="train --devices host:0 --data $data --model mlp:32 --batch 32 --dropout 0 --lr 0.02 --schedule constant --no-cross-check --epochs 40"

# epochs FILE: the number of an epoch and its held-out loss; values FILE: what the model predicts
epochs() {
    sed -n 's/.*"event":"epoch","epoch":\([0-9]*\),.*"test_loss":\([^,]*\),.*/\1 \2/p' "$1"
}
values() {
    "$copse" predict --devices host:0 "$1" "$data" || no "predictions of $1"
}
# same NAME A B
same() {
    cmp -s "$2" "$3" && passed=$((passed + 1)) || no "$1: $2 and $3 differ"
}

"$copse" $job --json >"$work/all.json" || no 'the whole run'
[ "$(epochs "$work/all.json" | wc -l)" -eq 40 ] || no '--epochs alone does not train all of them'
best=$(epochs "$work/all.json" | sort -g -k 2 | head -1 | cut -d' ' -f1)
[ "$best" -gt 2 ] && [ "$best" -lt 34 ] || no "the best epoch is $best: this shows nothing"
grep -q "\"event\":\"done\".*\"best_epoch\":$best," "$work/all.json" || no "not the best epoch: $(tail -1 "$work/all.json")"

# It stops 3 epochs after the last one that was lower than all before.
stop=$(epochs "$work/all.json" | awk 'NR == 1 || $2 < low { low = $2; waited = 0; best = $1; next }
    ++waited == 3 { print $1, best, low; exit }')
set -- $stop
stop=$1 best=$2 loss=$(printf %.4f "$3")
(cd "$work" && "$copse" $job --patience 3 --save best.st --checkpoint points --checkpoint-every 4 --keep 1000) >"$work/out.txt" 2>"$work/err.txt" ||
    no "the run that stops: $(cat "$work/err.txt")"
[ "$(grep -c '^epoch .*accuracy' "$work/out.txt")" -eq "$stop" ] || no "it did not stop after epoch $stop: $(cat "$work/out.txt")"
line="epoch $best of $stop has the lowest held-out loss, $loss, and is saved; training stopped: 3 epochs without a lower one (--patience)"
grep -qxF "$line" "$work/out.txt" || no "no line '$line': $(tail -5 "$work/out.txt")"
grep -q "held-out examples are right (loss $loss)" "$work/out.txt" || no "the result is of another epoch: $(tail -5 "$work/out.txt")"
[ ! -e "$work/best.st.partial" ] || no 'FILE.partial is left'

# --save has the values of that epoch, or with --save-last the values of the last one.
"$copse" $job --epochs "$best" --save-last --quiet --save "$work/short.st" >/dev/null || no 'the short run'
"$copse" $job --epochs "$stop" --save-last --quiet --save "$work/long.st" >/dev/null || no 'the longer run'
"$copse" $job --patience 3 --save-last --save "$work/last.st" >"$work/last.txt" || no 'the last epoch'
grep -q "^epoch $stop, the last one, counts and is saved; training stopped: 3 epochs without" "$work/last.txt" || no "the last epoch: $(tail -5 "$work/last.txt")"
for file in best short long last; do
    values "$work/$file.st" >"$work/$file.csv"
done
same 'the best epoch' "$work/best.csv" "$work/short.csv"
same 'the last epoch' "$work/last.csv" "$work/long.csv"
cmp -s "$work/best.csv" "$work/last.csv" && no 'the best epoch is the last one: this shows nothing'

# A larger min-delta waits for more.
"$copse" $job --patience 3 --min-delta 10 --json >"$work/delta.json" || no 'min-delta'
[ "$(epochs "$work/delta.json" | wc -l)" -eq 4 ] || no "min-delta: $(epochs "$work/delta.json")"

# A run that is resumed from any of its checkpoints stops in the same epoch, with the same file.
count=0
for point in "$work"/points/step-*.safetensors; do
    case $point in *0000[05].safetensors | *0000000[1-9][24680].safetensors | *16.safetensors | *3[02].safetensors) ;; *) continue ;; esac
    rm -rf "$work/cut"; mkdir "$work/cut"; cp "$point" "$work/cut"
    "$copse" $job --patience 3 --save "$work/rest.st" --checkpoint "$work/cut" --resume >"$work/rest.txt" 2>&1 || no "resuming $point: $(tail -2 "$work/rest.txt")"
    grep -qxF "$line" "$work/rest.txt" || no "resumed from $point: $(tail -4 "$work/rest.txt")"
    same "resumed from $point" "$work/rest.st" "$work/best.st"
    count=$((count + 1))
done
[ $count -ge 5 ] || no "only $count checkpoints"

# The checkpoint of a run that stopped has the last state: with more patience it goes on as if it had not stopped.
cp -r "$work/points" "$work/more"
"$copse" $job --patience 30 --epochs 25 --save "$work/more.st" --checkpoint "$work/more" --resume --quiet >/dev/null || no 'more patience'
"$copse" $job --patience 30 --epochs 25 --save "$work/once.st" --quiet >/dev/null || no 'the same at once'
values "$work/more.st" >"$work/more.csv"; values "$work/once.st" >"$work/once.csv"
same 'more patience' "$work/more.csv" "$work/once.csv"

# An evaluator sees that the run is over, though not all epochs are done; also where the last checkpoint was due at the last step.
"$copse" $job --patience 3 --checkpoint "$work/ends" --checkpoint-every 5 --quiet >/dev/null || no 'checkpoints at the ends of epochs'
timeout 60 "$copse" evaluate --checkpoint "$work/ends" --data "$data" --devices host:0 --watch --evaluator-patience 20 >"$work/watch.txt" 2>&1 ||
    no "the evaluator: $(tail -2 "$work/watch.txt")"
grep -q 'the run is over' "$work/watch.txt" || no "the evaluator saw no end: $(tail -2 "$work/watch.txt")"

# Averages: the best epoch is judged, and saved, with them.
"$copse" $job --patience 3 --average 0.9 --save-average --json --save "$work/mean.st" >"$work/mean.json" || no 'averages'
at=$(sed -n 's/.*"event":"done".*"best_epoch":\([0-9]*\),.*/\1/p' "$work/mean.json")
"$copse" $job --epochs "$at" --save-last --average 0.9 --save-average --quiet --save "$work/mean_short.st" >/dev/null || no 'averages, short'
values "$work/mean.st" >"$work/mean.csv"; values "$work/mean_short.st" >"$work/mean_short.csv"
same 'averages' "$work/mean.csv" "$work/mean_short.csv"

# Without --epochs the rows decide. Small tables train 1,000 steps, 2,000 from 1,000 rows on, and the last epoch counts if fewer
# than 1,000 rows are held out; larger ones have a patience of a quarter of the epochs, and train not more than about 20,000 steps.
# With --epochs there is no patience.
short="train --devices host:0 --model mlp:2 --no-cross-check --json --data"
"$copse" $short "$data" >"$work/small.json" || no 'a small table'
grep -q '"event":"start".*"epochs":334,' "$work/small.json" || no "epochs of a small table: $(head -1 "$work/small.json")"
[ "$(epochs "$work/small.json" | wc -l)" -eq 334 ] && grep -q '"event":"done".*"best_epoch":334,' "$work/small.json" ||
    no "a small table: $(tail -1 "$work/small.json")"
"$copse" train --devices host:0 --model mlp:2 --no-cross-check --data "$data" --save "$work/small.st" >"$work/small.txt" || no 'lines of a small table'
grep -qxF 'epoch 334, the last one, counts and is saved: too few examples are held out to choose another (--patience N would)' "$work/small.txt" ||
    no "lines of a small table: $(tail -4 "$work/small.txt")"
"$copse" $short "$data" --patience 5 >"$work/patient.json" || no 'a small table with --patience'
grep -q '"event":"done".*"best_epoch":334,' "$work/patient.json" && no '--patience does not choose the epoch of a small table'
awk 'BEGIN { OFS = ","; srand(5); print "a,b,c,d,e,f,g,h,class"
    for (i = 0; i < 6000; i++) { k = i % 2; print k + 3 * rand(), rand(), rand(), rand(), rand(), rand(), rand(), rand(), k } }' >"$work/middle.csv"
"$copse" $short "$work/middle.csv" --model mlp:64,64 --dropout 0 --weight-decay 0 >"$work/middle.json" 2>/dev/null || no 'a table with many judges'
count=$(epochs "$work/middle.json" | wc -l) want=$(epochs "$work/middle.json" | awk 'NR == 1 || $2 < low { low = $2; waited = 0; next } ++waited == 10 { print $1; exit }')
[ "$count" -eq "${want:-40}" ] || no "a table with many judges stopped after epoch $count, not ${want:-40}"
"$copse" train --devices host:0 --no-cross-check --data "$work/middle.csv" --model mlp:64,64 --dropout 0 --weight-decay 0 2>/dev/null | grep -q '; training stopped: 10 epochs without a lower one (as no length was given; --epochs N trains all)$' || no 'the line of an automatic stop'
grep -q '"event":"done".*"best_epoch":40,' "$work/middle.json" && no 'the last epoch counts though many examples judge'
awk 'BEGIN { OFS = ","; srand(5); print "a,class"; for (i = 0; i < 40000; i++) { k = i % 2; print k + 3 * rand(), k } }' >"$work/large.csv"
for pair in "8 5" "16 10" "64 40"; do # 32,000 rows train: 4,000, 2,000 and 500 steps
    set -- $pair
    "$copse" $short "$work/large.csv" --batch $1 2>/dev/null | head -1 >"$work/start.json"
    grep -q "\"epochs\":$2," "$work/start.json" || no "epochs of a large table in batches of $1: $(cat "$work/start.json")"
done

bad 'a negative delta' '--min-delta: must be at least 0, and finite$' $job --min-delta -1
bad 'patience of a word' "--patience: 'long' is not a whole number" $job --patience long
bad 'parameter servers' '--patience: workers of parameter servers do not train in step' $job --patience 3 --strategy parameter_server
printf '%d checks\n' "$passed"
[ $failed -eq 0 ] && echo 'early stopping keeps the best epoch'
exit $failed
