#!/bin/sh
# SPDX-License-Identifier: MIT
# --held-out and --split of `copse train`: a part, a file, none; and a resumed run that keeps what it began with.
# usage: held_out.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

# 200 rows of two common classes and 5 of a rare one; the columns of the other file are in another order
awk 'BEGIN { OFS = ","; srand(3); print "a,b,class"
    for (i = 0; i < 205; i++) { k = i % 41 == 40 ? "rare" : i % 2 ? "odd" : "even"; print (i % 2) + 2 * rand(), rand() + (i % 41 == 40), k } }' \
    >"$work/table.csv"
awk -F, 'BEGIN { OFS = ","; srand(4); print "class,b,a"
    for (i = 0; i < 40; i++) { k = i % 10 == 9 ? "rare" : i % 2 ? "odd" : "even"; print k, rand(), (i % 2) + 2 * rand() } }' >"$work/other.csv"
awk 'BEGIN { OFS = ","; srand(1); print "a,b"; for (i = 0; i < 150; i++) { x = 10 * rand(); print x, 3 * x + rand() } }' >"$work/numbers.csv"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "a%db ", i % 7 }' >"$work/text.txt"
awk 'BEGIN { for (i = 0; i < 60; i++) printf "a%db ", i % 5 }' >"$work/text2.txt"
host="train --devices host:0 --no-cross-check --model mlp:8"
job="$host --epochs 4 --dropout 0 --data $work/table.csv"

# field NAME FILE: of the last line that has it
field() {
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2" | tail -1
}
# is NAME VALUE WANTED
is() {
    [ "$2" = "$3" ] && passed=$((passed + 1)) || no "$1: $2, not $3"
}

# A part: by default a fifth.
for part in 0.2 0.5 0.1; do
    "$copse" $job --held-out $part --json >"$work/part.json" || no "the part $part"
    is "rows of $part" "$(field test_examples "$work/part.json")" "$(awk "BEGIN { print 205 - int(205 * (1 - $part) + 0.5) }")"
done
"$copse" $job --json >"$work/default.json" || no 'the default'
is 'the default' "$(field test_examples "$work/default.json")" 41
good 'each class' '164 for training, 41 held out, of each class its part, shuffled with seed 1$' $job
good 'random' '164 for training, 41 held out, shuffled with seed 1$' $job --split random
good 'a regression has no classes' '120 for training, 30 held out, shuffled with seed 1$' $host --epochs 1 --data "$work/numbers.csv" --task regression

# A file, read by the schema of the data: `copse evaluate` prints the same score.
"$copse" $job --held-out "$work/other.csv" --json --save "$work/m.st" >"$work/file.json" || no 'a file'
is 'all rows train' "$(field train_examples "$work/file.json")" 205
is 'rows of the file' "$(field test_examples "$work/file.json")" 40
"$copse" evaluate --devices host:0 --json "$work/m.st" "$work/other.csv" >"$work/evaluated.json" || no 'evaluating the file'
a=$(field test_loss "$work/file.json") b=$(sed 's/{"rows":40,"loss":\([^,]*\),.*/\1/' "$work/evaluated.json")
awk "BEGIN { d = $a / $b - 1; exit !(d < 1e-6 && d > -1e-6) }" || no "the loss is $a, evaluated $b"
good 'a text' "300|for training, .* held out: .*text2.txt" train --devices host:0 --no-cross-check --epochs 1 --context 4 \
    --tokens characters --data "$work/text.txt" --held-out "$work/text2.txt"

# None: all rows train, nothing is said of held-out examples, and the last epoch is saved.
"$copse" $job --held-out none --json --save "$work/all.st" >"$work/none.json" || no 'none'
is 'all train' "$(field train_examples "$work/none.json")" 205
is 'nothing is held out' "$(field test_examples "$work/none.json")" 0
grep -q 'test_loss\|test_accuracy\|null' "$work/none.json" && no "none: $(tail -1 "$work/none.json")"
is 'the last epoch' "$(field best_epoch "$work/none.json")" 4
good 'none says so' 'all for training, none held out: the last epoch counts$' $job --held-out none
grep -q '^[0-9.]* % of the 205 training examples were right in the last epoch (loss .*); none is held out$' "$work/stdout" || no "none: $(cat "$work/stdout")"
good 'none, a regression' '^mean absolute error .* on the 150 training examples in the last epoch' \
    $host --epochs 2 --data "$work/numbers.csv" --task regression --held-out none --plot "$work/none.svg"
grep -qi nan "$work/none.svg" && no 'NaN in a plot'
good 'info' '4 epochs; no example was held out' info "$work/all.st"
"$copse" $job --held-out none --checkpoint "$work/none_c" --checkpoint-every 5 --keep 99 --quiet >/dev/null || no 'none, checkpoints'
rm "$work"/none_c/step-*1[1-9].safetensors
"$copse" $job --held-out none --checkpoint "$work/none_c" --resume --quiet --save "$work/rest.st" >/dev/null || no 'none, resumed'
cmp -s "$work/all.st" "$work/rest.st" && passed=$((passed + 1)) || no 'none: a resumed run has another file'

# A resumed run keeps its part and its split, also where the command line names none; others are refused.
"$copse" $job --held-out 0.4 --split random --save "$work/whole.st" --checkpoint "$work/c" --checkpoint-every 3 --keep 99 --quiet >/dev/null || no 'the whole run'
mkdir "$work/cut" && cp "$work"/c/step-*03.safetensors "$work/cut"
cp -r "$work/cut" "$work/cut2"
"$copse" $job --save "$work/kept.st" --checkpoint "$work/cut" --resume --quiet >/dev/null || no 'the resumed run'
cmp -s "$work/whole.st" "$work/kept.st" && passed=$((passed + 1)) || no 'a resumed run has another split'
bad 'a percentage' '^copse train: --held-out: a part is a number: write 0.3 for 30 %$' $job --held-out 30%
bad 'standard input' '^copse train: --held-out: standard input cannot judge: give a part such as 0.2, a FILE, or none$' $job --held-out -
bad 'another part' "was made with --held-out=0.4, now it is --held-out=0.3" $job --held-out 0.3 --checkpoint "$work/cut2" --resume
bad 'another way' "was made with --split=random, now it is --split=stratified" $job --held-out 0.4 --split stratified --checkpoint "$work/cut2" --resume
good 'evaluating it' 'of the 82 held-out examples are right' evaluate --devices host:0 --checkpoint "$work/cut" --data "$work/table.csv"

# So does a run with a file, which is known by its content.
"$copse" $job --held-out "$work/other.csv" --checkpoint "$work/f" --quiet >/dev/null || no 'a file, checkpoints'
bad 'evaluating without the file' 'held out a file of its own: name it with --held-out' evaluate --devices host:0 --checkpoint "$work/f" --data "$work/table.csv"
good 'evaluating with the file' 'of the 40 held-out examples' evaluate --devices host:0 --checkpoint "$work/f" --data "$work/table.csv" --held-out "$work/other.csv"
cp "$work/table.csv" "$work/copy.csv"
bad 'another file' 'was made with --held-out=40 examples' $job --held-out "$work/copy.csv" --checkpoint "$work/f" --resume

bad 'evaluating with nothing' 'held out a file of its own: name it' evaluate --devices host:0 --checkpoint "$work/f" --data "$work/table.csv" --held-out none
bad 'evaluating a part with a file' "was made with --held-out 0.4, which holds no file out" evaluate --devices host:0 --checkpoint "$work/cut" --data "$work/table.csv" --held-out "$work/other.csv"
bad 'evaluating none with a file' "was made with --held-out none" evaluate --devices host:0 --checkpoint "$work/none_c" --data "$work/table.csv" --held-out "$work/other.csv"
bad 'a model with a file' '--held-out belongs to --checkpoint' evaluate "$work/all.st" "$work/table.csv" --held-out nonexist.csv

# A resumed run without the file: the rows that train, and so the batch, would be others. Options that do not fit its part.
head -206 "$work/table.csv" >"$work/few.csv"
few="$host --epochs 2 --data $work/few.csv"
"$copse" $few --held-out "$work/other.csv" --checkpoint "$work/s" --quiet >/dev/null || no 'a small table, checkpoints'
bad 'resuming without the file' 'held out a file of its own: name it with --held-out' $few --checkpoint "$work/s" --resume
bad 'resuming with a part' 'was made with --held-out=40 examples' $few --held-out 0.2 --checkpoint "$work/s" --resume
bad 'patience for a resumed none' "--patience needs a held-out part.*none_c/step.*was made with --held-out none" \
    $job --patience 2 --split stratified --checkpoint "$work/none_c" --resume
bad 'a split of a resumed none' '--split belongs to a part of --data' $job --split stratified --checkpoint "$work/none_c" --resume

# A checkpoint without the lines of both options, as of an earlier version: its run split at random.
mkdir "$work/old"
for point in "$work"/s/step-*[1-9].safetensors; do
    LC_ALL=C sed 's/--held-out=/--held-old=/' "$point" >"$work/old/$(basename "$point")"
done
bad 'an earlier version' 'of a version that split at random: give --split random' $few --split stratified --checkpoint "$work/old" --resume

# Options that would do nothing.
bad 'last of none' '--save-last: with --held-out none the last epoch is saved anyway' $job --held-out none --save-last --save x.st
bad 'last of nothing' '--save-last belongs to --save FILE' $job --save-last
bad 'delta of none' '--min-delta needs a held-out part' $host --data "$work/table.csv" --held-out none --min-delta 0.1
bad 'delta without patience' '--min-delta belongs to --patience N' $job --min-delta 0.1
head -n 40 "$work/table.csv" >"$work/few.csv"
bad 'delta of a few rows' '--min-delta belongs to --patience N: without it no run with so few held-out examples' $host --data "$work/few.csv" --min-delta 0.1
bad 'the file that trains' "--held-out: '.*table.csv' is the file of --data" $job --held-out "$work/../$(basename "$work")/table.csv"
bad 'delta of no patience' '--min-delta belongs to --patience N' $job --min-delta 0.1 --patience 0

# A part without an example.
bad 'a tiny part' '--held-out 1e-20 holds out none of the 205 examples' $job --held-out 1e-20
bad 'a small part' '--held-out 0.002 holds out none of the 205 examples' $job --held-out 0.002
bad 'nearly all' '--held-out 0.999 holds out all of the 205 examples' $job --held-out 0.999
for wrong in 0 1 1.5 -0.2; do
    bad "the part $wrong" '--held-out: a part is above 0 and below 1' $job --held-out $wrong
done
bad 'byte pairs of the held-out part' '--held-out: at most 0.2 with --tokens bpe' train --devices host:0 --tokens bpe:300 --data "$work/text.txt" --held-out 0.5
bad 'no such file' 'cannot open .*nowhere.csv' $job --held-out nowhere.csv
bad 'a file without labels' "labels|class" $job --held-out "$work/numbers.csv"
bad 'patience for nothing' '--patience needs a held-out part' $job --held-out none --patience 2
bad 'a plateau of nothing' '--schedule plateau needs a held-out part' $job --held-out none --schedule 'plateau 0.5 2'
bad 'a split of a file' '--split belongs to a part of --data' $job --held-out "$work/other.csv" --split random
bad 'classes of values' '--split stratified divides the examples of each class, and a regression has no classes' $host --data "$work/numbers.csv" --task regression --split stratified
printf '%d checks\n' "$passed"
[ $failed -eq 0 ] && echo 'the held-out part is a part, a file or nothing'
exit $failed
