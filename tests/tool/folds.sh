#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --folds K`: each fold is the run that trains on the others, means and deviations, the same on any devices, and what
# is refused.
# usage: folds.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

awk 'BEGIN { OFS = ","; srand(4); print "a,b,kind"
    for (i = 0; i < 60; i++) { k = i % 3; print 2 * k + 4 * rand(), 4 * rand() - k, "k" k } }' >"$work/table.csv"
awk 'BEGIN { OFS = ","; srand(4); print "a,price"; for (i = 0; i < 40; i++) { a = rand(); print a, 3 * a + rand() / 9 } }' >"$work/price.csv"
job="train --data $work/table.csv --model mlp:8 --epochs 6 --no-cross-check"

# values FILE KEY: of the fold events
values() {
    sed -n "s/.*\"event\":\"fold\",.*\"$2\":\([^,}]*\).*/\1/p" "$1"
}

"$copse" $job --devices host:0 --folds 4 --json >"$work/folds" 2>"$work/stderr" || no "folds: $(cat "$work/stderr")"
[ "$(grep -c '"event"' "$work/folds")" -eq 5 ] && [ ! -s "$work/stderr" ] || no "events: $(cat "$work/folds" "$work/stderr")"
for key in accuracy balanced_accuracy f1 auc loss; do
    values "$work/folds" $key | awk -v want="$(sed -n "s/.*\"event\":\"folds\".*\"$key\":\([^,}]*\),\"${key}_deviation\":\([^,}]*\).*/\1 \2/p" "$work/folds")" \
        '{ s += $1; q += $1 * $1 } END { split(want, w, " "); m = s / NR; v = q / NR - m * m; d = v > 0 ? sqrt(v) : 0
           exit !(NR == 4 && (w[1] - m) ^ 2 < 1e-18 && (w[2] - d) ^ 2 < 1e-12) }' || no "mean of $key: $(cat "$work/folds")"
done
# 15 rows are held out: an accuracy is a number of fifteenths, and not all are the same
values "$work/folds" accuracy | awk '{ n = $1 * 15; if ((n - int(n + 0.5)) ^ 2 > 1e-12) exit 1 }' || no 'accuracies are not of 15 rows'
[ "$(values "$work/folds" loss | sort -u | wc -l)" -eq 4 ] || no 'two folds are the same'

# the folds and results do not depend on the number of devices, but for rounding
"$copse" $job --devices host:0 --folds 4 --quiet >"$work/one"
"$copse" $job --devices host:0,host:0,host:0 --folds 4 --quiet | cmp -s - "$work/one" && passed=$((passed + 1)) || no 'other devices, other results'
"$copse" $job --devices host:0 --folds 4 --seed 2 --json | cmp -s - "$work/folds" && no 'the seed changes nothing'

good 'lines of folds' '^fold 4/4  epoch [1-6]  accuracy 0?[.0-9]+  balanced accuracy .*  F1 .*  ROC AUC .*  loss ' $job --devices host:0 --folds 4
grep -qE '^accuracy [01]\.[0-9]{4} \+- 0\.[0-9]{4}$' "$work/stdout" && grep -q 'no model is saved' "$work/stdout" || no "means: $(tail -8 "$work/stdout")"
[ "$(grep -c '^data ' "$work/stdout")" -eq 1 ] || no 'the data is described more than once'
good 'quiet folds' '^loss ' $job --devices host:0 --folds 4 --quiet
[ "$(wc -l <"$work/stdout")" -eq 5 ] || no "quiet folds: $(cat "$work/stdout")"
good 'folds of values' '^R2 ' train --data "$work/price.csv" --model mlp:8 --epochs 6 --devices host:0 --folds 4 --quiet
[ "$(wc -l <"$work/stdout")" -eq 3 ] || no "folds of values: $(cat "$work/stdout")"

# A class with fewer rows than folds: its area under the curve is of the folds that have it.
awk 'BEGIN { srand(4); print "a,b,kind"; for (i = 0; i < 41; i++) print rand() "," rand() "," (i == 7 ? "rare" : "k" i % 2) }' >"$work/rare.csv"
rare="train --data $work/rare.csv --model mlp:8 --epochs 2 --devices host:0 --no-cross-check"
"$copse" $rare --folds 2 >"$work/stdout" 2>"$work/stderr" || no "a rare class: $(cat "$work/stderr")"
grep -q '^copse: warning: --folds 2: class "rare" has fewer rows (1) than folds' "$work/stderr" || no "no warning: $(cat "$work/stderr")"
[ "$(grep -c 'has fewer rows' "$work/stderr")" -eq 1 ] || no "more than one warning: $(cat "$work/stderr")"
grep -q '^fold ./2 .* ROC AUC - ' "$work/stdout" && grep -q '^ROC AUC 0\.[0-9]* +- 0\.0000 (1 of 2 folds)$' "$work/stdout" ||
    no "a rare class: $(tail -6 "$work/stdout")"
"$copse" $rare --folds 2 --json >"$work/stdout" 2>/dev/null || no 'a rare class as JSON'
[ "$(grep -c '"auc":0' "$work/stdout")" -eq 2 ] && ! grep -q null "$work/stdout" || no "a rare class as JSON: $(cat "$work/stdout")"
# one fold for each row: none has all classes
"$copse" $rare --folds 41 >"$work/stdout" 2>"$work/stderr" || no 'a fold for each row'
[ "$(grep -c 'class "k0" (and 2 more) has fewer rows (21) than folds' "$work/stderr")" -eq 1 ] || no "a fold for each row: $(cat "$work/stderr")"
grep -q '^ROC AUC -$' "$work/stdout" || no "a fold for each row: $(tail -6 "$work/stdout")"
"$copse" $rare --folds 41 --json 2>/dev/null | grep -q '"auc' && no 'a score that no fold has is in JSON'

# --save: at last a run on all examples.
good 'folds that save' "^model: " $job --devices host:0 --folds 4 --save-last --save "$work/all.st"
grep -q 'folds; a model of all rows follows$' "$work/stdout" && ! grep -q 'no model is saved' "$work/stdout" || no "what is saved: $(cat "$work/stdout")"
"$copse" $job --devices host:0 --held-out none --quiet --save "$work/once.st" >/dev/null || no 'the run on all'
for file in all once; do
    "$copse" predict "$work/$file.st" "$work/table.csv" --devices host:0 >"$work/$file.csv" || no "predict $file"
done
cmp -s "$work/all.csv" "$work/once.csv" && passed=$((passed + 1)) || no 'the saved model differs from a run on all examples'

bad 'one fold' '^copse train: --folds: at least 2$' $job --folds 1
bad 'more folds than rows' '--folds 61: the data has 60 examples' $job --devices host:0 --folds 61
bad 'far more folds than rows' '^copse: --folds 4000000000: the data has 60 examples$' $job --devices host:0 --folds 4000000000
bad 'no fold' '^copse train: --folds: at least 2$' $job --folds 0
"$copse" train --help | grep -q -e '--folds K .*\[none\]' || no "the help of --folds: $("$copse" train --help | grep -e --folds)"
bad 'a held-out part' '--folds holds each example out once: leave --held-out out' $job --folds 4 --held-out 0.3
bad 'checkpoints' '--folds: its runs write no checkpoints' $job --folds 4 --checkpoint c
bad 'a plot' 'leave --plot, --logdir, --trace and --hash out' $job --folds 4 --plot p.svg
bad 'a text' 'the windows of a text overlap' train --data "$work/table.csv" --tokens bytes --folds 4
bad 'servers' 'trains in one process' $job --folds 4 --strategy parameter_server
tasks='"task":{"type":"worker","index":0}}'
COPSE_CONFIG="{\"cluster\":{\"worker\":[\"localhost:1\",\"localhost:2\"]},$tasks" bad 'a job in the environment' \
    '^copse: --folds trains in one process: .* start it without `copse launch`' $job --folds 4
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 bad 'a job of mpirun' 'trains in one process' $job --folds 4
bad 'options of jobs' '^copse train: --folds trains in one process: .* start it without `copse launch`' $job --folds 4 --servers 1
"$copse" launch -n 2 -- $job --devices host:0 --folds 2 >"$work/stdout" 2>&1
[ $? -eq 2 ] && grep -q 'trains in one process' "$work/stdout" && ! grep -q '^.*fold 1/2' "$work/stdout" || no "a job of copse launch: $(cat "$work/stdout")"
COPSE_CONFIG="{\"cluster\":{\"worker\":[\"localhost:1\"]},$tasks" good 'a job of one' '^accuracy ' $job --devices host:0 --folds 4 --quiet
bad 'values have no classes' '--split stratified .* a regression has no classes' train --data "$work/price.csv" --folds 4 --split stratified --devices host:0
[ $failed -eq 0 ] && echo "$passed checks of folds"
exit $((failed > 0))
