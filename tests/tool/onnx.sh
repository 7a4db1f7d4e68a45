#!/bin/sh
# SPDX-License-Identifier: MIT
# ONNX files: `copse export --onnx`, `copse info`, `copse predict` and `copse train --model FILE.onnx`.
# usage: onnx.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
i=0
echo 'a,b,kind' >"$work/rows.csv"
while [ $i -lt 120 ]; do
    a=$((i * 7 % 23)) b=$((i * 5 % 19 + 100))
    [ $((a + 119 - b)) -gt 20 ] && kind=more || kind=less
    echo "$a,$b,$kind" >>"$work/rows.csv"
    i=$((i + 1))
done
cut -d, -f1,2 "$work/rows.csv" >"$work/new.csv"

# ---- a model, written and read again ----
good 'a model' 'saved' train --data "$work/rows.csv" --model mlp:8 --epochs 30 --lr 0.02 --save "$work/m.safetensors" --devices host
"$copse" export "$work/m.safetensors" --onnx "$work/m.onnx" >"$work/stdout" 2>"$work/stderr" || no "export: $(cat "$work/stderr")"
if grep -q 'protobuf-c' "$work/stderr"; then
    echo 'skipped: the library was built without protobuf-c'
    exit 77
fi
good 'what is in it' 'x +float +\[\?, 2\]' info "$work/m.onnx"
grep -q 'dense1.weight' "$work/stdout" || no "no weight: $(cat "$work/stdout")"
grep -q 'not read' "$work/stdout" && no "nodes that are not read: $(cat "$work/stdout")"
good 'JSON' '"opset": *21' info "$work/m.onnx" --json
good 'predictions of the model' 'rows' predict "$work/m.safetensors" "$work/new.csv" --devices host --output "$work/p.csv"
good 'predictions of the file' 'rows' predict "$work/m.onnx" "$work/new.csv" --devices host --output "$work/q.csv"
cut -d, -f2- "$work/p.csv" | tail -n +2 >"$work/want"
tail -n +2 "$work/q.csv" >"$work/got"
paste -d, "$work/want" "$work/got" | awk -F, '{ if ($1 - $3 > 1e-5 || $3 - $1 > 1e-5 || $2 - $4 > 1e-5 || $4 - $2 > 1e-5) bad = 1 }
    END { exit bad || NR != 120 }' || no 'the file predicts something else than the model'
good 'rows as JSON' '"values"' predict "$work/m.onnx" "$work/new.csv" --devices host --json
good 'an array' 'rows' predict "$work/m.onnx" "$work/new.csv" --devices host --output "$work/q.npy"

# ---- training ----
good 'a run' 'held-out loss' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/t.onnx" --epochs 3 --devices host
cmp -s "$work/m.onnx" "$work/t.onnx" && no 'the trained file has the old weights'
good 'a part of it' '2 of [0-9]+ weights' train --model "$work/m.onnx" --trained 'dense2.*' --data "$work/rows.csv" --held-out 0 \
    --save "$work/t.onnx" --epochs 1 --devices host
good 'as JSON' '"event": *"epoch"' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/t.onnx" --epochs 1 --devices host --json

good 'scales are not trained' '4 of 4 weights' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/t.onnx" --epochs 1 --devices host
good 'blanks in a list' '2 of [0-9]+ weights' train --model "$work/m.onnx" --trained 'dense2.weight, dense2.bias ' --data "$work/rows.csv" \
    --save "$work/t.onnx" --epochs 1 --devices host
good 'a column left out' 'rows' predict "$work/m.onnx" "$work/rows.csv" --ignore kind --devices host --output "$work/q.csv"
cp "$work/m.onnx" "$work/upper.ONNX"
good 'a name in capitals' 'opset|operator set' info "$work/upper.ONNX"

# a signal ends the run after a step, and the file has its values
"$copse" train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/stopped.onnx" --epochs 1000000 --devices host \
    >"$work/stdout" 2>"$work/stderr" &
run=$!
i=0
while [ $i -lt 600 ] && ! grep -q '^epoch  *2/' "$work/stdout"; do sleep 0.1; i=$((i + 1)); done
kill -TERM $run # a shell starts such a process with SIGINT ignored
wait $run
code=$?
[ $code -eq 143 ] || no "a signal: exit code $code"
grep -q "stopped after step .* has the values of epoch" "$work/stderr" || no "a signal: $(cat "$work/stderr")"
good 'the stopped file' 'dense1.weight' info "$work/stopped.onnx"

# ---- what is refused ----
bad 'a file that exists' '--force' export "$work/m.safetensors" --onnx "$work/m.onnx"
bad 'both forms' 'give one' export "$work/m.safetensors" --onnx "$work/z.onnx" --npy "$work/z"
bad 'another name' 'end in .onnx' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/t.bin"
bad 'no weight' "fits 'none" train --model "$work/m.onnx" --trained 'none*' --data "$work/rows.csv" --save "$work/t.onnx" --devices host
bad 'no labels' 'labels' train --model "$work/m.onnx" --data "$work/q.npy" --save "$work/t.onnx"
bad 'an evaluation' 'ONNX file' evaluate "$work/m.onnx" "$work/rows.csv"
bad 'columns are kept' 'not to ONNX files' predict "$work/m.onnx" "$work/new.csv" --keep-columns
printf 'no messages' >"$work/bad.onnx"
bad 'another file' 'no ONNX file' info "$work/bad.onnx"
bad 'texts' "column 'kind' has texts" predict "$work/m.onnx" "$work/rows.csv" --devices host
sed 's/more/1/; s/less/0/' "$work/rows.csv" >"$work/coded.csv"
bad 'too many columns' 'has 3 columns of numbers, and .* takes 2' predict "$work/m.onnx" "$work/coded.csv" --devices host
awk -F, 'NR == 1 { print "a,when,kind"; next } { printf "%s,2024-01-%02d,%s\n", $1, NR % 28 + 1, $3 }' "$work/rows.csv" >"$work/dates.csv"
bad 'dates' "column 'when' has dates" train --model "$work/m.onnx" --data "$work/dates.csv" --save "$work/z.onnx" --devices host
awk -F, 'NR > 1 { $3 = $1 % 3 } { print $1 "," $2 "," $3 }' "$work/rows.csv" >"$work/three.csv"
bad 'too many classes' "has 3 classes, and output 'y'" train --model "$work/m.onnx" --data "$work/three.csv" --save "$work/z.onnx" --devices host
bad 'an array as JSON' 'end in .npy' predict "$work/m.onnx" "$work/new.csv" --json --output "$work/z.npy"
bad 'a label of an array' 'belong to tables' train --model "$work/m.onnx" --data "$work/q.npy" --label a --save "$work/z.onnx" --devices host
bad 'over the data' 'would replace' train --model "$work/m.onnx" --data "$work/t.onnx" --save "$work/t.onnx"
bad 'over the labels' 'would replace' train --model "$work/m.onnx" --data "$work/q.npy" --labels "$work/t.onnx" --save "$work/t.onnx"
bad 'over the model' 'would replace' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/m.onnx"
bad 'an option of layers' 'train --model FILE.onnx --help' train --model "$work/m.onnx" --data "$work/rows.csv" --save "$work/z.onnx" --zigzag 3
bad 'a model without layers' 'takes a network of layers' find-lr --model "$work/m.onnx"
bad 'no plan of its memory' '--memory: FILE is' info "$work/m.onnx" --memory
bad 'options of a plan' 'belong to --memory' info "$work/m.onnx" --json --devices host --batch 4
bad 'no arrays of it' 'safetensors file' export "$work/m.onnx" --npy "$work/z"
bad 'a name without an end' 'end in .onnx' export "$work/m.safetensors" --onnx "$work/z"
bad 'layers as a file' 'copse export' train --data "$work/rows.csv" --save "$work/z.onnx"
bad 'ignored columns of a model' 'belongs to ONNX files' predict "$work/m.safetensors" "$work/new.csv" --ignore a
[ ! -e "$work/z.onnx" ] || no 'a refused export has written a file'

[ $failed -eq 0 ] && echo "$passed calls of ONNX files do what they should"
exit $failed
