#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse find-lr`: the table, the suggestion, JSON, the picture, options without effect.
# usage: find_lr.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
find="find-lr --devices host"

good 'a table' '^suggested learning rate: 0\.0[0-9]*, a tenth of the rate with the lowest smoothed loss$' $find --plot "$work/curve.svg"
grep -q '^ *1e-07 .*[0-9]' "$work/stdout" || no "no first rate: $(cat "$work/stdout")"
grep -q '  lowest$' "$work/stdout" || no 'the lowest loss is not marked'
grep -q 'learning rate 1e-07 (to 10 in 100 steps)' "$work/stdout" || no 'what the rates are'
grep -q '^the loss diverges: the test ended after [0-9]* of 100 steps$' "$work/stdout" || no 'divergence'
[ "$(wc -l <"$work/stdout")" -lt 45 ] || no "a long table: $(wc -l <"$work/stdout")"
[ -z "$(ls -A "$work/out")" ] || no "left $(ls -A "$work/out")"
grep -q "suggested learning rate" "$work/curve.svg" && grep -q '</svg>' "$work/curve.svg" || no 'the picture'
cp "$work/stdout" "$work/first"
good 'the same seed' 'suggested' $find --plot "$work/again.svg"
cmp "$work/first" "$work/stdout" && cmp "$work/curve.svg" "$work/again.svg" || no 'two runs of one seed differ'
good 'another seed' 'suggested' $find --seed 2
cmp -s "$work/first" "$work/stdout" && no '--seed has no effect'

# A run with the suggestion trains; one with ten thousand times of it does not.
good 'quiet' '^0\.[0-9]*$' $find --quiet
rate=$(cat "$work/stdout")
[ "$(wc -l <"$work/stdout")" -eq 1 ] || no "quiet: $(cat "$work/stdout")"
good 'training' '9[0-9]\.[0-9]* % of the 359 held-out examples' train --devices host --quiet --epochs 5 --lr "$rate"

good 'json' '^{"event":"done",.*"suggestion":0\.0[0-9]*,"diverged":true}$' $find --json
[ "$(grep -c '^{"event":"step","lr":' "$work/stdout")" -ge 50 ] || no 'json: steps'
(cd "$work/out" && $copse $find --model 'dense 16 relu; dense out' --optimizer sgd --batch 32 --freeze 'dense1.*' \
    --start-lr 1e-4 --end-lr 1 --steps 50) >"$work/stdout" 2>"$work/stderr" || no "options of train: $(cat "$work/stderr")"
grep -q suggested "$work/stdout" || no "options of train: $(cat "$work/stdout")"
[ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -q '^copse: warning: --freeze: dense1 is frozen with its initial random values' \
    "$work/stderr" || no "frozen random weights: $(cat "$work/stderr")"
grep -q 'sgd, learning rate 0.0001 (to 1 in 50 steps), batch 32' "$work/stdout" || no "options: $(cat "$work/stdout")"
grep -q '^frozen ' "$work/stdout" || no '--freeze'

for option in '--save x' '--lr 1' '--epochs=3' '--schedule constant' '--resume' '--cluster x' '--strategy mirrored' '--body-lr 1'; do
    bad "$option" "^copse find-lr: ${option%%[= ]*} belongs to .copse train.: the test" $find $option
done
bad 'rates' 'start-lr and --end-lr: must be greater than 0' $find --start-lr 1 --end-lr 0.5
bad 'no rate' 'must be greater than 0' $find --start-lr 0
bad 'steps' '^copse find-lr: --steps: 10 to 1000$' $find --steps 3
bad 'a misspelt option' 'did you mean --end-lr' $find --end-rl 1
bad 'data' '^copse: .*nothing.csv' $find --data nothing.csv
bad 'a check of train' '^copse find-lr: --batch: must be at least 1' $find --batch 0

# No rate of these lowers the loss enough: exit code 1, and what may help.
refused() { # WHAT ADVICE OPTION...
    what=$1 advice=$2
    shift 2
    "$copse" $find --steps 10 --quiet "$@" >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 1 ] && grep -q "^copse: no learning rate from .* lowers the loss by 10 %$advice\$" "$work/stderr" &&
        [ ! -s "$work/stdout" ] && passed=$((passed + 1)) || no "$what: $(cat "$work/stdout" "$work/stderr")"
}
few=': try more --steps, then other rates (--start-lr, --end-lr)'
refused 'no effect' "$few" --batch 1000 --start-lr 1e-30 --end-lr 1e-29
refused 'still falling' ': try a larger --end-lr, or more --steps' --model 'dense 16 relu; dense out' --batch 1438 --start-lr 1e-6 --end-lr 1e-5
refused 'ruined' ' before it diverges: try more --steps, or a lower --start-lr' --start-lr 1 --end-lr 3
good 'a trained network' . train --devices host --quiet --epochs 5 --save "$work/trained"
refused 'trained' "$few; a network that is trained already (--init) has little to gain: keep the rate of its training" \
    --batch 1000 --start-lr 1e-30 --end-lr 1e-29 --init "$work/trained"

# `copse tune` is about kernels, and says so first.
"$copse" tune --device host:0 --seconds 1 >"$work/stdout" 2>&1
head -1 "$work/stdout" | grep -q 'kernels, not hyperparameters.*copse find-lr' || no "tune: $(head -1 "$work/stdout")"
"$copse" tune --help | sed -n 3p | grep -q 'kernels, not hyperparameters' || no "tune --help: $("$copse" tune --help | head -3)"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
