#!/bin/sh
# SPDX-License-Identifier: MIT
# The training loss and accuracy that `copse train` prints for an epoch: of all its examples, each once, as the steps computed
# them; the same in a run that was stopped in the middle of an epoch. Which epochs have a line in a long run.
# usage: epochs.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

# 143 rows, 114 of them for training; the last batch of 32 has 18
awk 'BEGIN { OFS = ","; srand(3); print "a,b,c"; for (i = 0; i < 143; i++) { k = i % 3; print 2 * k + 3 * rand(), 3 - k + 3 * rand(), k } }' \
    >"$work/table.csv"
job="train --devices host:0 --data $work/table.csv --model mlp:8 --batch 32 --no-cross-check"

# epochs FILE: loss and accuracy of each epoch; right: rows that were right, of 114
epochs() {
    sed -n 's/.*"event":"epoch",.*"loss":\([^,]*\),"accuracy":\([^,]*\),"test_loss".*/\1 \2/p' "$1"
}

# With dropout, while the weights change: each accuracy is a number of rows.
"$copse" $job --epochs 12 --dropout 0.4 --json >"$work/run" || no 'the run'
[ "$(epochs "$work/run" | wc -l)" -eq 12 ] || no "epochs: $(cat "$work/run")"
epochs "$work/run" | awk '{ rows = $2 * 114; d = rows - int(rows + 0.5); if (d > 1e-9 || d < -1e-9) { print rows; bad = 1 } } END { exit bad }' \
    >"$work/parts" || no "parts of rows: $(cat "$work/parts")"

# Weights that do not change, without dropout: every epoch has the same rows right and the same mean loss, however they are
# divided into batches.
"$copse" $job --epochs 5 --dropout 0 --optimizer sgd --lr 1e-30 --schedule constant --json >"$work/still" || no 'the still run'
epochs "$work/still" | awk 'NR == 1 { loss = $1; accuracy = $2 }
    { d = $1 / loss - 1; if (d > 1e-6 || d < -1e-6 || $2 != accuracy) { print NR ": " $0; bad = 1 } } END { exit bad || NR != 5 }' \
    >"$work/differ" || no "weights that do not change: $(epochs "$work/still")"
grep -q "\"event\":\"done\".*\"loss\":$(epochs "$work/still" | tail -1 | cut -d' ' -f1)," "$work/still" ||
    no "the loss of 'done' is another: $(tail -1 "$work/still")"

# The lines have the same numbers, and runs of an accelerator too.
"$copse" $job --epochs 12 --dropout 0.4 >"$work/lines" || no 'the lines'
epochs "$work/run" | awk '{ printf "loss %.4f  accuracy %5.1f %%\n", $1, 100 * $2 }' >"$work/want"
sed -n 's/^epoch.*[0-9]  \(loss .* %\)  held-out.*/\1/p' "$work/lines" | cmp -s - "$work/want" || no "lines: $(cat "$work/lines")"
"$copse" $job --epochs 12 --dropout 0.4 --json --strategy accelerator --steps-per-run 3 >"$work/fast" || no 'the accelerator'
epochs "$work/fast" | awk '{ printf "loss %.4f  accuracy %5.1f %%\n", $1, 100 * $2 }' | cmp -s - "$work/want" ||
    no "accelerator: $(epochs "$work/fast")"

# Stopped after 6 steps, in the middle of the second epoch: an epoch has 4 steps. The checkpoint has the first 2 of them.
"$copse" $job --epochs 12 --dropout 0.4 --json --checkpoint "$work/c" --checkpoint-every 6 --keep 100 >"$work/whole" || no 'checkpoints'
mkdir "$work/cut" && cp "$work/c"/step-*6.safetensors "$work/cut" && rm -f "$work/cut"/step-*[1-9]6.safetensors
"$copse" $job --epochs 12 --dropout 0.4 --json --checkpoint "$work/cut" --resume >"$work/rest" || no 'the resumed run'
epochs "$work/run" | tail -11 >"$work/want"
epochs "$work/rest" | cmp -s - "$work/want" || no "a resumed run: $(epochs "$work/rest"), not $(cat "$work/want")"

# A regression: the mean of the absolute errors.
"$copse" $job --epochs 3 --dropout 0 --task regression --optimizer sgd --lr 1e-30 --schedule constant --json >"$work/number" || no 'regression'
sed -n 's/.*"loss":\([^,]*\),"mae":\([^,]*\),"test_loss".*/\1 \2/p' "$work/number" | awk 'NR == 1 { loss = $1; mae = $2 }
    { d = $1 / loss - 1; e = $2 / mae - 1; if (d * d > 1e-12 || e * e > 1e-12) bad = 1 } END { exit bad || NR != 3 }' ||
    no "regression: $(cat "$work/number")"

# A pipe gets a line for the first epoch of a long run, for the last one of each twentieth, and before that one for the best in it,
# if its held-out loss is lower than all before; all lines up to 40 epochs, and with --verbose.
# numbers FILE: the epochs that have a line
numbers() { sed -n 's|^epoch *\([0-9]*\)/.*|\1|p' "$1"; }
# expected FILE STEP: the same by the events of FILE
expected() {
    sed -n 's/.*"event":"epoch","epoch":\([0-9]*\),.*"test_loss":\([^,}]*\).*/\1 \2/p' "$1" | awk -v step="$2" '
        { if (NR == 1 || $2 < low) { low = $2; best = $1 }; last = $1; kept[$1] = best }
        END { for (e = 1; e <= last; e++) if (e == 1 || e % step == 0 || e == last) {
                  if (kept[e] > shown && kept[e] < e) print kept[e]
                  print e; shown = e } }'
}
long="$job --epochs 200 --dropout 0.4"
"$copse" $long --json >"$work/events" || no 'a long run'
"$copse" $long >"$work/long" || no 'a long run in lines'
expected "$work/events" 10 >"$work/want"
numbers "$work/long" | cmp -s - "$work/want" && [ "$(wc -l <"$work/want")" -ge 22 ] && [ "$(wc -l <"$work/want")" -le 41 ] ||
    no "lines of a long run: $(numbers "$work/long" | tr '\n' ' '), not $(tr '\n' ' ' <"$work/want")"
[ "$(grep -c '^lines    of every 10 epochs the last one, and the best one so far; --verbose prints all$' "$work/long")" -eq 1 ] ||
    no "nothing says which epochs have a line: $(head -8 "$work/long")"
"$copse" $long --verbose 2>/dev/null >"$work/all" || no '--verbose'
[ "$(numbers "$work/all" | wc -l)" -eq 200 ] && ! grep -q '^lines' "$work/all" || no "--verbose has $(numbers "$work/all" | wc -l) lines"
[ "$(epochs "$work/events" | wc -l)" -eq 200 ] || no '--json has no event for each epoch'
"$copse" $long --patience 7 --json >"$work/events" && "$copse" $long --patience 7 >"$work/long" || no 'a run that stops early'
expected "$work/events" 10 >"$work/want"
numbers "$work/long" | cmp -s - "$work/want" && [ "$(tail -1 "$work/want")" -lt 200 ] ||
    no "lines of a run that stops early: $(numbers "$work/long" | tr '\n' ' '), not $(tr '\n' ' ' <"$work/want")"
"$copse" $job --epochs 40 >"$work/short" && [ "$(numbers "$work/short" | wc -l)" -eq 40 ] && ! grep -q '^lines' "$work/short" ||
    no "40 epochs have $(numbers "$work/short" | wc -l) lines"
[ $failed -eq 0 ] && echo 'an epoch has the loss and the accuracy of its examples'
exit $failed
