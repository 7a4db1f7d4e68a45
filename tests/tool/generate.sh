#!/bin/sh
# SPDX-License-Identifier: MIT
# generate.sh COPSE: `copse generate` continues the text that its model was trained on; the same seed gives the same bytes;
# wrong options, prompts and models: exit code 2 and one line.
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
cd "$work" || exit 1

i=0
while [ $i -lt 40 ]; do
    printf 'The owl saw a fox; it sl\303\251pt.\n'
    i=$((i + 1))
done >tale.txt
run="train --devices host:0 --data $work/tale.txt --quiet"
good train ' tokens are right' $run --tokens characters --context 8 --model gpt:1,16,2 --lr 0.01 --batch 16 --epochs 20 --save gpt.safetensors
good 'train default' ' tokens are right' $run --tokens characters --context 8 --epochs 1 --save whole.safetensors
good 'train bytes' ' tokens are right' $run --tokens bytes --context 8 --model 'embedding in 4; dense out' --epochs 1 --save bytes.safetensors
good 'train gru' ' tokens are right' $run --tokens characters --context 8 --model gru:1,24 --lr 0.01 --batch 16 --epochs 20 --save gru.safetensors
good 'train decoder' ' tokens are right' $run --tokens characters --context 8 --model decoder:1,16,2 --lr 0.01 --batch 16 --epochs 20 --save decoder.safetensors
i=0
while [ $i -lt 60 ]; do
    printf 'ab\000'
    i=$((i + 1))
done >nul.bin
good 'train NUL' ' tokens are right' train --devices host:0 --data "$work/nul.bin" --quiet --tokens bytes --context 4 \
    --model 'embedding in 4; dense out' --lr 0.1 --epochs 20 --save nul.safetensors
mv out/*.safetensors .
write="generate $work/gpt.safetensors --devices host:0"

# The most likely tokens are the line, from a prompt that is shorter than the window, and behind a longer one.
good greedy '^The owl saw a fox; it slépt.$' $write --prompt 'The o' --temperature 0 --length 80
[ "$(uniq stdout | wc -l)" -le 2 ] && [ "$(wc -m <stdout)" -le 86 ] || no "greedy: $(cat stdout)"
good behind '^e owl saw a fox; it slépt.$' $write --prompt 'e owl saw a fox' --temperature 0 --length 11
[ "$(wc -c <stdout)" -eq 28 ] || no "behind: $(od -c stdout)"
good 'line end' '^The owl saw a fox; it slépt.$' $write --temperature 0 --length 28
good 'one of all' '^The owl saw a fox' $write --prompt 'The owl' --top-k 1 --length 10

good gru '^The owl saw a fox; it slépt.$' generate "$work/gru.safetensors" --devices host:0 --prompt 'The o' --temperature 0 --length 60

good decoder '^The owl saw a fox; it slépt.$' generate "$work/decoder.safetensors" --devices host:0 --prompt 'The o' --temperature 0 --length 60

# Seeds.
good seed '^The' $write --prompt 'The' --temperature 2 --seed 7 --length 60
mv stdout one
good 'same seed' '^The' $write --prompt 'The' --temperature 2 --seed 7 --length 60
cmp -s stdout one || no "the same seed: $(cat stdout) after $(cat one)"
good 'another seed' '^The' $write --prompt 'The' --temperature 2 --seed 8 --length 60
cmp -s stdout one && no "another seed: $(cat stdout)"
good 'two limits' '^The' $write --prompt 'The' --temperature 2 --seed 7 --length 60 --top-k 3 --top-p 0.5
cmp -s stdout one && no "with limits: $(cat stdout)"

good json '^\{"prompt":"The","text":"[^"]*","tokens":60,"temperature":2,"top_k":0,"top_p":1,"seed":7\}$' \
    $write --prompt 'The' --temperature 2 --seed 7 --length 60 --json
good 'whole windows' '^The owl s' generate "$work/whole.safetensors" --devices host:0 --prompt 'The owl s' --length 20
good bytes '^The' generate "$work/bytes.safetensors" --devices host:0 --prompt 'The' --length 200 --seed 3
[ "$(wc -c <stdout)" -ge 203 ] && [ "$(wc -c <stdout)" -le 204 ] || no "bytes: $(wc -c <stdout)"
good 'json bytes' '^\{"prompt":"The","text":".*","tokens":200,' generate "$work/bytes.safetensors" --devices host:0 --prompt 'The' \
    --length 200 --temperature 9 --json
good 'json NUL' '^\{"prompt":"a","text":"b�ab�a","tokens":6,' generate "$work/nul.safetensors" --devices host:0 --prompt a \
    --length 6 --temperature 0 --json
good 'NUL' '^a' generate "$work/nul.safetensors" --devices host:0 --prompt a --length 6 --temperature 0
[ "$(od -An -c stdout | tr -d ' ')" = 'ab\0ab\0a\n' ] || no "NUL: $(od -An -c stdout)"

# ---- wrong input ----
# refuse NAME PATTERN ARGUMENT...: as bad, and nothing on standard output
refuse() {
    bad "$@"
    [ ! -s stdout ] || no "$1: printed $(cat stdout)"
}
refuse 'no model' 'give MODEL' generate
refuse 'two models' 'give MODEL' $write "$work/bytes.safetensors"
refuse nowhere 'nowhere.safetensors' generate nowhere.safetensors --devices host:0
refuse 'no model file' 'tale.txt' generate "$work/tale.txt" --devices host:0
refuse character 'the prompt: line 1, column 5: the character "z" .U.007A. is none of the 1[0-9] of the training text' $write --prompt 'The zw'
refuse utf8 'the prompt: line 1, column 2 .byte 1.: invalid UTF-8' $write --prompt "$(printf 'T\377')"
refuse brief 'the prompt has 7 characters; the network predicts only the token after a window of 8: give a prompt of at least 8' \
    generate "$work/whole.safetensors" --devices host:0 --prompt 'The owl'
refuse 'no prompt' 'the prompt has 0 characters' generate "$work/whole.safetensors" --devices host:0
refuse length '--length: it must be at least 1' $write --length 0
refuse 'negative length' "--length: '-1' is not a whole number from 0" $write --length -1
refuse temperature '--temperature: it must be at least 0' $write --temperature -0.5
refuse 'nan' "--temperature: 'nan' is not a number" $write --temperature nan
refuse 'top-p 0' '--top-p: it must be above 0 and at most 1' $write --top-p 0
refuse 'top-p 1.5' '--top-p: it must be above 0 and at most 1' $write --top-p 1.5
refuse 'top-k' "--top-k: '1.5' is not a whole number from 0" $write --top-k 1.5
refuse seed "--seed: 'x' is not a whole number" $write --seed x
refuse option 'did you mean --temperature' $write --temprature 1
refuse devices 'opencl:99' generate "$work/gpt.safetensors" --devices opencl:99
"$copse" train --devices host:0 --epochs 1 --quiet --save digits.safetensors >/dev/null
refuse table "digits.safetensors' is not a model of texts; .copse train --tokens. makes one" \
    generate "$work/digits.safetensors" --devices host:0

if [ -e /dev/full ]; then
    (cd out && "$copse" $write --length 5) >/dev/full 2>stderr
    [ $? -eq 1 ] && [ "$(cat stderr)" = 'copse: cannot write to standard output' ] || no "a full disk: $(cat stderr)"
fi

[ $failed -eq 0 ] && echo "$passed passed"
exit $((failed > 0))
