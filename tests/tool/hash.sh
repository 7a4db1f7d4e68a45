#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --hash` and `copse compare-runs`: equal runs, runs that differ, and files that cannot be read.
# usage: hash.sh COPSE MAKE_LANGUAGE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
job="train --devices host:0 --model mlp:16 --epochs 1 --no-cross-check --quiet --dropout 0.1"

# differs NAME PATTERN A B: exit code 1, standard output matches
differs() {
    "$copse" compare-runs "$3" "$4" >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ $code -eq 1 ] || no "$1: exit code $code: $(cat "$work/stderr")"
    tr '\n' '|' <"$work/stdout" | grep -qE -- "$2" && passed=$((passed + 1)) || no "$1: $(cat "$work/stdout")"
}

# ---- networks of layers ----
good 'a run' 'held-out' $job --hash "$work/a.hash" --hash-variables --hash-launches 2
good 'the same again' 'held-out' $job --hash "$work/b.hash"
good 'another seed' 'held-out' $job --seed 2 --hash "$work/c.hash" --hash-variables --hash-launches 1
good 'another rate' 'held-out' $job --lr 0.003 --hash "$work/d.hash" --hash-variables
[ "$(head -1 "$work/a.hash")" = 'copse-hash 1' ] || no "head: $(head -1 "$work/a.hash")"
[ "$(grep -cE '^step [0-9]+ [0-9a-f]{16}$' "$work/b.hash")" -eq 23 ] || no "steps: $(cat "$work/b.hash")"
[ "$(grep -cE '^step [0-9]+( [0-9a-f]{16}){5}$' "$work/a.hash")" -eq 23 ] || no "variables: $(cat "$work/a.hash")"
[ "$(grep -cE '^launch 2 0 [0-9]+ [a-z_0-9]+ [0-9a-f]{16}$' "$work/a.hash")" -gt 10 ] || no "launches: $(cat "$work/a.hash")"
good 'equal' '^23 steps, equal in all variables$' compare-runs "$work/a.hash" "$work/b.hash"
differs 'another seed' '^step 1 differs: .*dense1.weight.* 4 of 4 variables differ\|.*--hash-launches 1\|$' "$work/a.hash" "$work/c.hash"
differs 'no variables' 'train both with --hash-variables' "$work/b.hash" "$work/c.hash"
# A launch, and a variable, of one file changed by hand: these are named.
sed 's/^\(launch 2 0 3 [a-z_]*\) .*/\1 0123456789abcdef/; s/^\(step 2 \)[^ ]* [^ ]* /\10123456789abcdef 0123456789abcdef /' "$work/a.hash" >"$work/e.hash"
differs 'a launch' "^step 2 differs: .*\\|  dense1.weight\\|  1 of 4 variables differs\\|  the first launch that differs: number 3 of replica 0, kernel $(sed -n 's/^launch 2 0 3 \([a-z_]*\) .*/\1/p' "$work/a.hash")\\|\$" "$work/a.hash" "$work/e.hash"
sed 's/^\(step 2 \)[^ ]* /\10123456789abcdef /' "$work/a.hash" >"$work/f.hash"
differs 'an update' 'launches of gradients are equal: the sums over replicas or the update differ' "$work/a.hash" "$work/f.hash"
sed 's/^launch 2 0 3 [a-z_]*/launch 2 0 3 other/; s/^\(step 2 \)[^ ]* /\10123456789abcdef /' "$work/a.hash" >"$work/g.hash"
differs 'other kernels' 'after 3 equal launches the runs launch different kernels' "$work/a.hash" "$work/g.hash"
head -20 "$work/b.hash" >"$work/short.hash"
differs 'fewer steps' '^19 steps, equal in all variables\|.* has 4 steps that the other file lacks' "$work/b.hash" "$work/short.hash"
printf 'step 24 0123' >>"$work/b.hash" # a run that was killed
good 'a last line without an end' '^23 steps, equal' compare-runs "$work/a.hash" "$work/b.hash"

# ---- sets of steps ----
H='0123456789abcdef'
steps() { # FILE STEP...: equal hashes
    file=$work/$1
    shift
    echo 'copse-hash 1' >"$file"
    for step; do echo "step $step $H" >>"$file"; done
}
steps s123 1 2 3
steps s234 2 3 4
steps s122 1 2 2
steps s12 1 2
differs 'other steps' "^2 steps, equal in all variables\|.*s123' has 1 step that the other file lacks; the first one is step 1\|.*s234' has 1 step that the other file lacks; the first one is step 4\|\$" "$work/s123" "$work/s234"
differs 'a step twice is one' "^2 steps, .*s123' has 1 step that the other file lacks; the first one is step 3\|\$" "$work/s123" "$work/s122"
good 'twice and once' '^2 steps, equal' compare-runs "$work/s12" "$work/s122"
sed "s/^step 2 .*/step 2 fedcba9876543210/" "$work/s123" >"$work/lost.hash" # a device was lost after step 2
printf 'step 2 %s\nstep 3 %s\n' $H $H >>"$work/lost.hash"
good 'the last line of a step counts' '^3 steps, equal' compare-runs "$work/lost.hash" "$work/s123"
good 'in the other order, too' '^3 steps, equal' compare-runs "$work/s123" "$work/lost.hash"
{
    echo 'copse-hash 1'
    echo "launch 2 0 0 copy fedcba9876543210"
    printf 'launch 2 0 %d copy %s\n' 0 $H 1 $H
    printf 'step %d %s\n' 1 $H 2 $H
} >"$work/again.hash"
{
    echo 'copse-hash 1'
    printf 'launch 2 0 %d copy %s\n' 0 $H 1 $H
    printf 'step %d %s\n' 1 $H 2 $H
} >"$work/once.hash"
good 'launches of a repeated step: the last ones' '^step 2: 2 launches, all equal$' compare-runs "$work/again.hash" "$work/once.hash"
sed 's/^launch 2 0 1 copy .*/launch 2 0 1 copy fedcba9876543210/' "$work/once.hash" >"$work/padding.hash"
good 'launches of equal steps' '^step 2: the variables are equal, launches are not:$' compare-runs "$work/once.hash" "$work/padding.hash"
grep -q '^  the first launch that differs: number 1 of replica 0, kernel copy$' "$work/stdout" || no "launches of equal steps: $(cat "$work/stdout")"
good 'launches of one file' "^step 2: its launches are in '.*once.hash' alone, and are not compared\$" compare-runs "$work/s12" "$work/once.hash"
awk 'BEGIN { print "copse-hash 1"; for (i = 1; i <= 300000; i++) printf "step %d %016x\n", i, i }' >"$work/long.hash"
good 'long runs' '^300000 steps, equal' compare-runs "$work/long.hash" "$work/long.hash"

# ---- variables in another order ----
printf 'copse-hash 1\nvariable a\nvariable b\nstep 1 1111111111111111 %s fedcba9876543210\n' $H >"$work/ab.hash"
printf 'copse-hash 1\nvariable b\nvariable a\nstep 1 2222222222222222 fedcba9876543210 %s\n' $H >"$work/ba.hash"
printf 'copse-hash 1\nvariable b\nvariable a\nstep 1 2222222222222222 0000000000000000 %s\n' $H >"$work/bx.hash"
printf 'copse-hash 1\nvariable a\nvariable c\nstep 1 3333333333333333 0000000000000000 %s\n' $H >"$work/ac.hash"
good 'another order' '^the files list the variables in different orders: they were compared by name$' compare-runs "$work/ab.hash" "$work/ba.hash"
differs 'by name' '^step 1 differs: [^|]*\|  b\|  1 of 2 variables differs\|' "$work/ab.hash" "$work/bx.hash"
differs 'another list' "^step 1 differs: [^|]*\|  the files list different variables: 2 and 2, 1 of them in both\|  b: is in '[^|]*ab.hash' alone\|  c: is in '[^|]*ac.hash' alone\|  a\|  1 of 1 variable differs\|" "$work/ab.hash" "$work/ac.hash"

# ---- a step that is repeated, and a run that is resumed ----
good 'two epochs at once' 'held-out' $job --epochs 2 --lr 0.01 --schedule constant --hash "$work/two.hash" --hash-variables
resume="train --devices host:0 --model mlp:16 --dropout 0.1 --lr 0.01 --schedule constant --no-cross-check --quiet --checkpoint $work/run --epochs"
good 'checkpoints' 'held-out' $resume 1 --hash "$work/h.hash" --hash-variables
cp "$work/h.hash" "$work/first.hash"
cp -r "$work/run" "$work/kept"
bad 'other settings' 'was made with --dropout' $resume 2 --resume --dropout 0.2 --hash "$work/h.hash" --hash-variables
cmp "$work/h.hash" "$work/first.hash" || no 'a run that is refused changed the file'
printf 'step 24 0123456789abcd' >>"$work/h.hash" # the run was killed
good 'resumed' 'held-out' $resume 2 --resume --hash "$work/h.hash" --hash-variables
cmp "$work/h.hash" "$work/two.hash" || no 'resumed: the file has other lines'
good 'both parts' '^46 steps, equal in all variables$' compare-runs "$work/h.hash" "$work/two.hash"
again() { # the same resumed run
    rm -rf "$work/run"
    cp -r "$work/kept" "$work/run"
}
again
good 'steps that come again' 'held-out' $resume 2 --resume --hash "$work/h.hash" --hash-variables
[ "$(grep -c '^step 24 ' "$work/h.hash")" -eq 2 ] || no 'steps that come again: no second line of step 24'
good 'they are equal' '^46 steps, equal' compare-runs "$work/h.hash" "$work/two.hash"
again
bad 'without variables' 'has hashes of other variables; give --hash-variables as' $resume 2 --resume --hash "$work/h.hash"
again
good 'another file' 'held-out' $resume 2 --resume --hash "$work/i.hash"
[ "$(sed -n 2p "$work/i.hash" | cut -c 1-8)" = 'step 24 ' ] || no "another file: $(head -3 "$work/i.hash")"
again
echo 'my notes' >"$work/notes"
bad 'no hashes' 'which is no file of --hash; name another file' $resume 2 --resume --hash "$work/notes"
[ "$(cat "$work/notes")" = 'my notes' ] || no 'no hashes: the file was changed'

# ---- adapters ----
"$2" "$work/model.gguf" llama || exit 1
i=0
while [ $i -lt 20 ]; do
    printf 'the hen sings.\nthe owl sleeps.\n'
    i=$((i + 1))
done >"$work/tale.txt"
adapt="train --model $work/model.gguf --data $work/tale.txt --devices host --context 16 --batch 2 --lora 2 --steps 4 --quiet"
good 'an adapter' 'saved' $adapt --save "$work/x.safetensors" --hash "$work/x.hash" --hash-variables --hash-launches 1
good 'the same adapter' 'saved' $adapt --save "$work/y.safetensors" --hash "$work/y.hash"
good 'equal adapters' '^4 steps, equal' compare-runs "$work/x.hash" "$work/y.hash"
grep -q '^variable .*lora_A' "$work/x.hash" || no 'no variables of the adapter'

# ---- what is refused ----
bad 'no file' 'give two files A and B' compare-runs "$work/a.hash"
bad 'missing' "cannot open '.*none'" compare-runs "$work/a.hash" "$work/none"
bad 'another file' 'is no file of `copse train --hash`' compare-runs "$work/a.hash" "$work/tale.txt"
printf 'copse-hash 1\nstep 1 0123\n' >"$work/bad.hash"
bad 'a short hash' "'.*', line 2: a hash for all variables" compare-runs "$work/a.hash" "$work/bad.hash"
printf 'copse-hash 1\nlaunch 1 0 x\n' >"$work/bad.hash"
bad 'a wrong launch' 'line 2: a launch has' compare-runs "$work/a.hash" "$work/bad.hash"
printf 'copse-hash 1\n' >"$work/bad.hash"
bad 'no step' 'has no step' compare-runs "$work/a.hash" "$work/bad.hash"
printf 'copse-hash 1\nstep 900 0123456789abcdef\n' >"$work/bad.hash"
bad 'other steps' 'have no step in common' compare-runs "$work/a.hash" "$work/bad.hash"
bad 'variables alone' '--hash FILE' $job --hash-variables
bad 'launches alone' '--hash FILE' $job --hash-launches 1
bad 'launches of step 0' '--hash-launches: steps are counted from 1' $job --hash "$work/a.hash" --hash-launches 0
bad 'launches of step 0 alone' '--hash-launches: steps are counted from 1' $job --hash-launches 0
bad 'launches of step 0 of an adapter' '--hash-launches: steps are counted from 1' $adapt --save "$work/z.safetensors" --hash "$work/z.hash" --hash-launches 0
printf 'copse-hash 1\nstep 1 %s\nvariable a\n' $H >"$work/bad.hash"
bad 'variables after a step' 'line 3: a line `variable` is after a line `step`' compare-runs "$work/a.hash" "$work/bad.hash"
"$copse" $job --hash "$work/z.hash" --hash-launches 1000 >"$work/stdout" 2>"$work/stderr" || no 'a step that never comes: refused'
[ "$(cat "$work/stderr")" = "copse train: --hash-launches 1000: '$work/z.hash' has no launch of it, as this run trained the steps 1 to 23" ] || no "a step that never comes: $(cat "$work/stderr")"
bad 'an empty path\' '--hash: the path is empty' $job --hash ''
bad 'no folder' '--hash: ' $job --hash "$work/none/a.hash"
bad 'the data' '--hash: would replace a file that is read' $adapt --save "$work/z.safetensors" --hash "$work/tale.txt"
bad 'folds' 'leave --plot' $job --folds 3 --hash "$work/a.hash"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
