#!/bin/sh
# SPDX-License-Identifier: MIT
# A run of `copse train` that diverges: it ends with exit code 1, one line that says what happened and what to do, and leaves
# the file of --save alone. Runs that merely learn little end with 0.
# usage: diverged.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
awk 'BEGIN { OFS = ","; srand(1); print "a,b,c"
    for (i = 0; i < 150; i++) { k = i % 3; print 2 * k + rand(), 5 - k + rand(), k } }' >"$work/classes.csv"
awk 'BEGIN { OFS = ","; srand(1); print "a,b"; for (i = 0; i < 150; i++) { x = 10 * rand(); print x, 3 * x + rand() } }' >"$work/numbers.csv"
job="train --devices host --no-cross-check --model mlp:16 --data"

# diverges NAME PATTERN ARGUMENT...: exit code 1, one line on standard error that matches
diverges() {
    name=$1 pattern=$2
    shift 2
    (cd "$work" && "$copse" "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ $code -eq 1 ] && [ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -qE -- "$pattern" "$work/stderr" && passed=$((passed + 1)) ||
        no "$name: exit code $code: $(cat "$work/stderr")"
}
diverges 'a finite loss' '^copse train: training diverged: the training loss of the last epoch is [0-9.]+e\+[0-9]+, of the first step [0-9.]+; lower --lr .it is 50.$' \
    $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5
diverges 'a regression' 'training diverged.*lower --lr' $job numbers.csv --task regression --optimizer sgd --lr 0.5 --schedule constant --epochs 2
diverges 'quiet' 'training diverged' $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --quiet
diverges 'JSON' 'training diverged' $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --json
grep -q '"event":"done"' "$work/stdout" || no 'JSON has no end'
diverges 'infinite' '^copse train: the loss of step [0-9]+ is (NaN|infinite) in epoch [0-9]+; training stopped: lower --lr .it is 500.$' \
    $job classes.csv --optimizer sgd --lr 500 --epochs 8
diverges 'the held-out loss alone' 'the held-out loss is (NaN|infinite) in epoch 1; training stopped: lower --lr' \
    $job classes.csv --optimizer sgd --lr 1e30 --epochs 1 --batch 120

diverges 'a new file' "the held-out loss is .*; 'nf.st' was not written$" $job classes.csv --optimizer sgd --lr 1e30 --epochs 1 --batch 120 \
    --save nf.st
[ ! -e "$work/nf.st" ] && [ ! -e "$work/nf.st.partial" ] || no 'NaN was saved'

diverges 'infinite, with checkpoints' '; the last checkpoint is nan/step-0*8.safetensors$' $job classes.csv --optimizer sgd --lr 500 --epochs 8 \
    --checkpoint nan --checkpoint-every 4

# The larger of two rates is the one to lower.
two='--optimizer sgd --schedule constant --dropout 0'
diverges 'the rate of the body' 'is NaN in .*lower --body-lr .it is 1e.30.$' $job classes.csv $two --lr 0.01 --body-lr 1e30 --epochs 3 --batch 10
diverges 'a finite loss by the body' 'training diverged: .*lower --body-lr .it is 1e.06.$' $job classes.csv $two --lr 1 --body-lr 1e6 --epochs 1 --batch 120
diverges 'the rate of the head' 'lower --lr .it is 1e.30.$' $job classes.csv $two --lr 1e30 --body-lr 1 --epochs 3 --batch 10

# The first step comes before any update: no learning rate helps.
diverges 'the first step' 'the loss of step 1 is NaN in epoch 1; training stopped: no update was made: look at the data, --init and --loss$' \
    $job classes.csv --loss 'cross_entropy weights=0,0,0'

# What was good stays.
"$copse" $job "$work/classes.csv" --quiet --epochs 2 --save "$work/good" >/dev/null || no 'the good run'
cp "$work/good" "$work/copy"
diverges 'a saved model' "lower --lr .it is 50.; 'good' is unchanged, 'good.partial' has the parameters$" \
    $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --save good
cmp -s "$work/good" "$work/copy" || no 'the model was replaced'
[ -s "$work/good.partial" ] || no 'there is no file of the parameters'
diverges 'a new model' "'new' was not written, 'new.partial' has the parameters$" $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --save new
[ ! -e "$work/new" ] || no 'a diverged model was written'
grep -q '^model:' "$work/stdout" && no 'a model is printed'
diverges 'with checkpoints' 'training diverged' $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --checkpoint points
diverges 'resumed at its end' 'training diverged' $job classes.csv --optimizer sgd --lr 50 --dropout 0.3 --epochs 5 --checkpoint points --resume

# The rate rises until the run diverges: the best epoch came before, and is saved. Without it the run has diverged.
rise='--optimizer sgd --lr 200 --epochs 60 --schedule'
good 'a good best epoch' '^epoch [0-9]+ of 60 has the lowest held-out loss, .*, and is saved$' \
    $job "$work/classes.csv" $rise 'warmup for 100%' --save "$work/best"
grep -q '^model:' "$work/stdout" || no 'the best epoch: no model is printed'
[ -s "$work/best" ] && [ ! -e "$work/best.partial" ] || no 'the best epoch is not in FILE'
diverges 'the last epoch' 'training diverged: the training loss of the last epoch' \
    $job classes.csv $rise 'warmup for 100%' --save-last --save last
# What is not saved is not said to be.
diverges 'stopped early' "training diverged: the training loss of the best epoch, [0-9]+, is .*'stopped' was not written, 'stopped.partial'" \
    train --devices host --no-cross-check --lr 1 --dropout 0 --weight-decay 0 --epochs 200 --patience 3 --save stopped
grep -q 'is saved' "$work/stdout" && no "it says that a model is saved: $(tail -3 "$work/stdout")"

# Little learned, overfitted, or worse than a constant: none of them diverged.
good 'chance' 'are right' $job "$work/classes.csv" --lr 1e-30 --epochs 1
awk 'BEGIN { OFS = ","; srand(7); print "a,b,c,d,e"; for (i = 0; i < 60; i++) print rand(), rand(), rand(), rand(), int(2 * rand()) }' >"$work/noise.csv"
good 'overfitted' 'are right' $job "$work/noise.csv" --model mlp:64,64 --dropout 0 --epochs 150
good 'a bad regression' '^R2 -' $job "$work/noise.csv" --task regression --lr 0.05 --epochs 30
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
