#!/bin/sh
# SPDX-License-Identifier: MIT
# Fine-tuning: --freeze and --body-lr of `copse train`, with --init, checkpoints and batch norm; examples/fine_tune.c.
# usage: fine_tune.sh COPSE [EXAMPLE DIGITS]; without the example in a sanitized build, where it takes minutes
set -u
copse=$1 example=${2-} digits=${3-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

# ---- the example: eight pictures of each digit are enough where the body is known ----
if [ -n "$example" ]; then
    (cd "$work/out" && "$example" "$digits") >"$work/shown" || no "the example failed"
    grep -q '^4 variables are taken; the head is new, because the file has 5 classes, the data 10$' "$work/shown" ||
        no "the example: $(cat "$work/shown")"
    awk '/^fine-tuned/ { tuned = $3 } /^from scratch/ { scratch = $3 }
         END { exit !(scratch > 20 && tuned >= scratch + 10) }' "$work/shown" || no "fine-tuning does not help: $(cat "$work/shown")"
    [ -z "$(ls -A "$work/out")" ] || no "the example left $(ls -A "$work/out")"
fi

# ---- the command ----
table() { # FILE CLASS...: two numbers and one of the classes in each row
    file=$1
    shift
    awk -v classes="$*" 'BEGIN { OFS = ","; srand(2); n = split(classes, c, " "); print "a,b,class"
        for (i = 0; i < 90; i++) print rand() + i % n, rand(), c[i % n + 1] }' >"$work/$file"
}
table low.csv zero one two
table high.csv seven eight nine ten
model="dense 6 relu; batch_norm; dense 4 relu; dense out"
train="train --devices host --model"
"$copse" $train "$model" --quiet --epochs 3 --data "$work/low.csv" --save "$work/low" >/dev/null || no 'the first model'
tune() { # OUT OPTION...
    out=$1
    shift
    "$copse" $train "$model" --data "$work/high.csv" --init "$work/low" --epochs 2 --save "$work/$out" "$@" >"$work/shown" 2>&1 ||
        no "$out: $(cat "$work/shown")"
    "$copse" export "$work/$out" --npy "$work/$out.npy" >/dev/null || no "export $out"
}
"$copse" export "$work/low" --npy "$work/low.npy" >/dev/null || no 'export'
same() { # OUT NAME...: variables with the bits of the first model; the others are counted
    out=$1
    shift
    for file in "$work/low.npy"/*.npy; do
        name=$(basename "$file" .npy)
        [ "$name" = application ] && continue
        case " $* " in
        *" $name "*) cmp -s "$file" "$work/$out.npy/$name.npy" || no "$out: $name has changed" ;;
        *) cmp -s "$file" "$work/$out.npy/$name.npy" && no "$out: $name has not changed" ;;
        esac
    done
}
first="dense1.weight dense1.bias"
norm="batch_norm1.scale batch_norm1.offset batch_norm1.mean batch_norm1.variance"
tune none
same none
tune one --freeze 'dense1.*'
same one $first
grep -q '^frozen   2 of 8 variables, 18 of 78 parameters$' "$work/shown" || no "what is frozen: $(cat "$work/shown")"
grep -q "^init     .*low: took dense1, batch_norm1, dense2 (8 of 10 variables); left the head dense3 new: the file has 3 classes, the data 4$" \
    "$work/shown" || no "what is taken: $(cat "$work/shown")"
# A batch norm whose variables are frozen is one of an evaluation.
tune two --freeze 'dense1.*, batch_norm*'
same two $first $norm
tune body --freeze body
same body $first $norm dense2.weight dense2.bias
grep -q '^frozen   6 of 8 variables, 58 of 78 parameters$' "$work/shown" || no "what is frozen: $(cat "$work/shown")"

# Random weights that are frozen: one line on standard error, also with --quiet and --json.
random() { # PATTERN OPTION...
    pattern=$1
    shift
    "$copse" $train "$model" --data "$work/high.csv" --epochs 1 "$@" >"$work/shown" 2>"$work/stderr" || no "random: $*: $(cat "$work/stderr")"
    if [ -z "$pattern" ]; then [ ! -s "$work/stderr" ]; else
        [ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -q -e "$pattern" "$work/stderr"; fi || no "random: $*: $(cat "$work/stderr")"
}
alone='^copse: warning: --freeze: dense1 is frozen with its initial random values; start from trained ones with --init FILE'
random "$alone" --freeze 'dense1.*' --quiet
random "$alone" --freeze 'dense1.*' --json
random '^copse: warning: --freeze: dense1 and 1 more are frozen' --freeze body
random '^copse: warning: --group: dense2 is frozen' --group 'dense2.*: frozen'
random '' --freeze '*.bias'
random '' --freeze body --init "$work/low"
random "^copse: warning: --freeze: dense3 is frozen with its initial random values; '.*low' has none for it" --freeze 'dense3.*' --init "$work/low"
random "$alone" --freeze 'dense1.*' --checkpoint "$work/frozen" --resume
random '' --freeze 'dense1.*' --checkpoint "$work/frozen" --resume --epochs 2
rm -rf "$work/frozen"

# Frozen variables have no slots.
"$copse" $train "$model" --quiet --data "$work/high.csv" --init "$work/low" --freeze 'dense1.*' --epochs 1 --checkpoint "$work/slots" \
    >/dev/null || no 'a checkpoint'
cat "$work"/slots/*.safetensors | tr -c '[:print:]' '\n' >"$work/names"
grep -q '"dense2.weight/m"' "$work/names" || no "trained variables have slots"
grep -q '"dense1.weight/m"' "$work/names" && no "frozen variables have slots"

# --body-lr is the rate of all layers but the last.
sgd="--optimizer sgd --lr 0.1 --schedule constant"
tune rate $sgd --body-lr 0.025
tune group $sgd --group 'dense3.*: rate=1; *: rate=0.25'
cmp "$work/rate.npy/dense3.weight.npy" "$work/group.npy/dense3.weight.npy" && cmp "$work/rate.npy/dense1.weight.npy" \
    "$work/group.npy/dense1.weight.npy" || no '--body-lr is not a rate of the body'
tune whole $sgd
cmp -s "$work/rate.npy/dense1.weight.npy" "$work/whole.npy/dense1.weight.npy" && no '--body-lr has no effect'

# A resumed run has the same bits; other settings are refused.
run() { # OPTION...
    "$copse" $train "dense 6 relu; batch_norm; dense 4 relu; dense out" --data "$work/high.csv" --freeze 'dense1.*' --body-lr 0.001 --schedule constant "$@"
}
run --init "$work/low" --epochs 4 --save "$work/straight" >/dev/null || no 'straight'
run --init "$work/low" --epochs 2 --checkpoint "$work/run" >/dev/null || no 'the first half'
run --epochs 4 --checkpoint "$work/run" --resume --save "$work/resumed" >/dev/null || no 'the second half'
for name in straight resumed; do "$copse" export "$work/$name" --npy "$work/$name.npy" >/dev/null || no "export $name"; done
for file in "$work"/straight.npy/*.weight.npy; do
    cmp "$file" "$work/resumed.npy/$(basename "$file")" || no "resumed: $(basename "$file")"
done
bad 'another --freeze' "was made with --freeze=dense1.\*, now it is --freeze=dense2" $train "$model" --data "$work/high.csv" \
    --freeze 'dense2.*' --body-lr 0.001 --schedule constant --epochs 5 --checkpoint "$work/run" --resume
good 'evaluate' 'held-out examples are right' evaluate --checkpoint "$work/run" --data "$work/high.csv" --devices host

# ---- what is refused ----
bad 'no match' "^copse: --freeze: \"dens1.\*\" matches no trained variable; close names are 'dense1.weight', .*'dense3.weight', .*'batch_norm1.offset'" \
    $train "$model" --data "$work/low.csv" --freeze 'dens1.*'
bad 'everything' 'freeze all variables: leave one to train' $train "$model" --data "$work/low.csv" --freeze '*'
bad 'empty' '--freeze: give names or patterns' $train "$model" --data "$work/low.csv" --freeze ''
bad 'groups in --freeze' '--freeze: give names or patterns' $train "$model" --data "$work/low.csv" --freeze 'dense1.*: frozen'
bad 'a rate of 0' '--body-lr: must be greater than 0; --freeze body' $train "$model" --data "$work/low.csv" --body-lr 0
bad 'a rate of a frozen body' 'a frozen body has no rate' $train "$model" --data "$work/low.csv" --body-lr 0.1 --freeze body
bad 'no body' '--body-lr: no layer but the last one trains' $train 'dense out' --data "$work/low.csv" --body-lr 0.1
bad 'no body to freeze' '^copse: --freeze body: no layer but the last one trains' $train 'dense out' --data "$work/low.csv" --freeze body --quiet
bad 'all of it frozen' '--body-lr: no layer but the last one trains' $train 'dense 3; dense out' --data "$work/low.csv" --body-lr 0.1 \
    --freeze 'dense1.*'
bad 'groups beside it' 'leave --group out' $train "$model" --data "$work/low.csv" --body-lr 0.1 --group '*.bias: decay=0'
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
