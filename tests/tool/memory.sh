#!/bin/sh
# SPDX-License-Identifier: MIT
# memory.sh COPSE: `copse info --memory`, whose plan is that of `copse train` and of its --memory.
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
host='--devices host:0'
net='--model gpt:3,16,2 --context 16 --batch 8'

good text '^  values of a step +[0-9.]+ MiB +[0-9.]+ MiB$' info --memory $host $net
grep -q '^  most at once: [a-z_]* f32\[.*, backward pass$' "$work/stdout" || no "no op: $(cat "$work/stdout")"
good json '^\{"device":"host:0",.*"plain":\{"values":[0-9]+,.*"recomputed":\{.*\}\}$' info --memory $host $net --json
for part in plain recomputed; do
    for name in values kept peak recomputed_ops; do
        eval "${part}_$name=\$(sed 's/.*\"$part\":{\([^}]*\)}.*/\1/; s/.*\"$name\":\([0-9]*\).*/\1/' "$work/stdout")"
    done
done
others=$(($(sed 's/.*"variables":\([0-9]*\),"gradients":\([0-9]*\),"slots":\([0-9]*\),"others":\([0-9]*\).*/\1 + \2 + \3 + \4/' "$work/stdout")))
[ "$plain_recomputed_ops" -eq 0 ] && [ "$recomputed_recomputed_ops" -gt 0 ] || no "recomputed ops: $(cat "$work/stdout")"
[ "$recomputed_values" -lt "$plain_values" ] && [ "$recomputed_kept" -lt "$plain_kept" ] || no "recomputed: $(cat "$work/stdout")"
[ "$plain_kept" -lt "$plain_peak" ] && [ "$plain_peak" -le "$plain_values" ] || no "sizes: $(cat "$work/stdout")"

# The least is what --memory takes, and no less.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "some words, no %d\n", i % 7 }' >"$work/text.txt"
train="train $host --data $work/text.txt --tokens bytes --model gpt:3,16,2 --context 16 --batch 8 --epochs 1 --quiet"
good 'the least' ' tokens are right' $train --memory $((others + recomputed_values + 4096))
"$copse" $train --memory $((others + recomputed_values / 2)) >"$work/stdout" 2>"$work/stderr" && no 'less than the least'
grep -q 'the memory budget leaves' "$work/stderr" || no "less than the least: $(cat "$work/stderr")"
good 'a budget' '"fits":true' info --memory $host $net --json --budget $((others + plain_values * 6 / 10))
good 'too small a budget' '^  a budget of .* is too small: [0-9]+ bytes are the least$' info --memory $host $net --budget 64KiB

# Models of other data, and from files
good digits '^  most at once: ' info --memory $host --model mlp:32
good 'two replicas' '^host:0' info --memory --devices host:0,host:0 --model mlp:32
[ "$(grep -c '^host:0' "$work/stdout")" -eq 2 ] || no "two replicas: $(cat "$work/stdout")"
good save ' tokens are right' $train --save "$work/model"
good file '^  values of a step' info --memory $host --batch 4 "$work/model"
# bf16 saves memory, and is slower on this device: one warning.
"$copse" info --memory $host $net --precision bf16 --optimizer sgd >"$work/stdout" 2>"$work/stderr" &&
    grep -q '^  values of a step' "$work/stdout" && [ "$(grep -c 'slower than f32' "$work/stderr")" -eq 1 ] &&
    [ "$(wc -l <"$work/stderr")" -eq 1 ] && passed=$((passed + 1)) || no "half: $(cat "$work/stdout" "$work/stderr")"
bad nothing 'give either one FILE or --model' info --memory
bad 'file and model' 'give either one FILE or --model' info --memory --model mlp:3 "$work/model"
bad 'data of a file' 'FILE has its data' info --memory --context 4 "$work/model"
bad 'no plan' 'belong to --memory' info --context 4 "$work/model"
bad 'no batch' 'at least 1' info --memory --model mlp:3 --batch 0
bad 'no such network' 'no layer has this name' info --memory --model fly
bad 'tokens without a text' 'name it with --data' info --memory --model gpt:1,8,1 --tokens characters

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
