#!/bin/sh
# SPDX-License-Identifier: MIT
# The command as a person or a program meets it: good runs, and bad input of every kind, which gives
# one line on standard error, exit code 2, and leaves no file behind.
# usage: tool.sh COPSE DIGITS.csv.gz
set -u
copse=$1
digits=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
mkdir "$work/cache" "$work/out"
failed=0
passed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=$((failed + 1))
}

# bad NAME PATTERN ARGUMENT...: exit code 2, one line that matches, nothing in out/
bad() {
    name=$1 pattern=$2
    shift 2
    (cd "$work/out" && timeout 120 "$copse" "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    before=$failed
    [ $code -eq 2 ] || no "$name: exit code $code"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || no "$name: not one line: $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stderr" || no "$name: $(cat "$work/stderr")"
    [ -z "$(ls -A "$work/out")" ] || no "$name: left $(ls -A "$work/out")"
    rm -rf "$work/out"; mkdir "$work/out"
    [ $failed -eq $before ] && passed=$((passed + 1))
}

# good NAME PATTERN ARGUMENT...: exit code 0, standard output matches, nothing on standard error
good() {
    name=$1 pattern=$2
    shift 2
    (cd "$work/out" && timeout 120 "$copse" "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    before=$failed
    [ $code -eq 0 ] || no "$name: exit code $code: $(cat "$work/stderr")"
    [ ! -s "$work/stderr" ] || no "$name: said $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stdout" || no "$name: $(tail -3 "$work/stdout")"
    [ $failed -eq $before ] && passed=$((passed + 1))
}

save="--save $work/out/p.safetensors --plot $work/out/p.svg"
host="--devices host --epochs 2"

# ---- good runs ----
good version '^copse [0-9]+\.[0-9]+\.[0-9]+$' --version
good help 'devices .*list' --help
good 'train help' '--devices WHICH' train --help
good devices '^host:0' devices
good 'devices json' '"id":"host:0"' devices --json
good train 'held-out examples are right' train $host
good 'train a list' 'on 3 devices' train --epochs 2 --devices host:0,host:0,host:0
good 'train save and plot' 'safetensors' train $host --save p.safetensors --plot p.svg
[ -s "$work/out/p.safetensors" ] && [ -s "$work/out/p.svg" ] || no 'files were not written'
grep -q '</svg>' "$work/out/p.svg" || no 'the plot is not whole'
[ "$(ls -A "$work/out" | wc -l)" -eq 2 ] || no "extra files: $(ls -A "$work/out")"
rm -rf "$work/out"; mkdir "$work/out"
good 'train json' '^\{"event":"done","steps":46,"loss":[0-9.e-]+,"accuracy":0\.[0-9]+,.*"seconds":.*"samples_per_s":.*"devices":\["host:0"\]\}$' \
    train $host --json
grep -vq '^{' "$work/stdout" && no 'a line that is not an object'
for optimizer in adamw sgd momentum nesterov; do
    good "$optimizer" 'right' train $host --optimizer $optimizer --quiet
done
good dropout 'right' train $host --dropout 0.2 --weight-decay 0.01 --schedule constant --quiet

# The same seed gives the same figures, another one others.
"$copse" train $host --quiet --seed 5 | head -1 >"$work/a"
"$copse" train $host --quiet --seed 5 | head -1 >"$work/b"
"$copse" train $host --quiet --seed 6 | head -1 >"$work/c"
cmp -s "$work/a" "$work/b" || no 'the same seed gave other figures'
cmp -s "$work/a" "$work/c" && no 'another seed gave the same figures'

# ---- bad input ----
bad 'no command' 'no command' fly
bad 'unknown option' "unknown option '--fly'" train --fly
bad 'no value' '--lr needs a value' train --lr
bad 'text for a number' "--lr: 'fast' is not a number" train --lr fast
bad 'negative count' "--batch: '-3'" train --batch -3
bad 'zero batch' '--batch' train --batch 0
bad 'negative rate' '--lr' train --lr=-1
bad 'unknown optimizer' 'adam' train --optimizer lion
bad 'bad model' 'mlp:' train --model cnn
bad 'model without width' 'mlp:' train --model mlp:0
bad 'missing file' 'nowhere.csv' train $host $save --data "$work/nowhere.csv"
bad 'empty folder' 'IDX' train $host $save --data "$work/out"

gzip -dc "$digits" >"$work/digits.csv"
head -c 20000 "$digits" >"$work/cut.csv.gz"
bad 'truncated gzip' 'cut.csv.gz' train $host $save --data "$work/cut.csv.gz"
sed '17s/^\([^,]*,[^,]*\),[^,]*/\1,seven/' "$work/digits.csv" >"$work/text.csv"
bad 'text cell' 'row 17.*column 3|column 3.*row 17' train $host $save --data "$work/text.csv"
bad 'labels out of range' 'label' train $host $save --classes 5
sed '9s/,[^,]*$/,-2/' "$work/digits.csv" >"$work/negative.csv"
bad 'negative label' 'row 9' train $host $save --data "$work/negative.csv"
: >"$work/empty.csv"
bad 'empty file' 'empty.csv' train $host $save --data "$work/empty.csv"
bad 'unknown device' 'cuda' train $save --devices cuda:0
bad 'no such device' 'host:7' train $save --devices host:7
bad 'batch larger than the data' 'batch' train $host $save --batch 100000
bad 'one device, two named' 'one_device' train $host $save --strategy one_device --devices host:0,host:0
bad 'unknown matmul' 'matmul' train $host --matmul fastest
COPSE_DISABLE=opencl,vulkan
export COPSE_DISABLE
bad 'opencl without OpenCL' 'opencl' train $save --devices opencl
good 'train without drivers' 'on 1 device$' train --epochs 2
unset COPSE_DISABLE
bad 'rate too large' 'step [0-9]+' train $host --lr 1e30 --optimizer sgd --save "$work/out/p.safetensors"
bad 'save into a missing folder' 'nowhere' train $host --save "$work/nowhere/p.safetensors"
bad 'plot into a missing folder' 'nowhere' train $host --plot "$work/nowhere/p.svg"

# After a good first epoch a run that fails keeps what was good.
"$copse" train --devices host --epochs 3 --save "$work/kept.safetensors" --quiet >/dev/null || no 'kept: first run'
cp "$work/kept.safetensors" "$work/before"
"$copse" train --devices host --epochs 3 --optimizer sgd --lr 1e30 --save "$work/kept.safetensors" \
    --quiet >/dev/null 2>&1
cmp -s "$work/before" "$work/kept.safetensors" || no 'a failed run replaced the saved parameters'

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
