#!/bin/sh
# SPDX-License-Identifier: MIT
# Adapters of language models: `copse train --lora`, `copse generate --lora`, `copse evaluate --lora`; examples/adapt.c.
# usage: adapters.sh COPSE MAKE_LANGUAGE EXAMPLE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
"$2" "$work/model.gguf" llama && "$2" "$work/other.gguf" qwen3 || exit 1
i=0
while [ $i -lt 40 ]; do
    printf 'the hen sings.\nthe owl sleeps.\nhello fox, hello cat!\n'
    i=$((i + 1))
done >"$work/tale.txt"

# ---- what works ----
train="train --model $work/model.gguf --data $work/tale.txt --devices host --context 16 --batch 4"
loss() { # NAME ARGUMENT...: the loss of `copse evaluate`
    "$copse" evaluate "$@" "$work/tale.txt" --devices host --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'
}
good 'a run' 'rank 3, alpha 6, dropout 0.1: 14 weights' $train --lora 3 --lora-dropout 0.1 --lr 0.02 --steps 40 \
    --save "$work/adapter.safetensors"
grep -qE '^step +0/40  held-out loss [0-9.]+  perplexity' "$work/stdout" || no "no first judgement: $(cat "$work/stdout")"
grep -qE "^saved +'.*adapter.safetensors'" "$work/stdout" || no "nothing is saved: $(cat "$work/stdout")"
before=$(loss "$work/model.gguf") after=$(loss "$work/model.gguf" --lora "$work/adapter.safetensors")
awk -v a="$before" -v b="$after" 'BEGIN { exit !(b < a - 1) }' || no "loss $before, with the adapter $after"
good 'the same bits again' 'adapter' $train --lora 3 --lora-dropout 0.1 --lr 0.02 --steps 40 --save "$work/again.safetensors"
cmp -s "$work/adapter.safetensors" "$work/again.safetensors" || no 'a second run has other bits'
good 'a folder, continued' 'rank 3, alpha 6' $train --init "$work/adapter.safetensors" --lr 0.001 --epochs 1 --save "$work/folder"
[ "$(ls "$work/folder" | tr '\n' ' ')" = 'adapter_config.json adapter_model.safetensors ' ] || no "folder: $(ls "$work/folder")"
continued=$(loss "$work/model.gguf" --lora "$work/folder")
awk -v a="$after" -v b="$continued" 'BEGIN { exit !(b < a) }' || no "loss $after, continued $continued"
good 'a text' 'the' generate "$work/model.gguf" --lora "$work/folder" --prompt 'the ' --length 5 --temperature 0 --devices host
good 'two replicas' 'device +host:0' $train --lora 2 --steps 3 --devices host:0,host:0 --save "$work/two.safetensors"
good 'JSON' '"event": *"done"' $train --lora 2 --steps 3 --json --save "$work/json.safetensors"
good 'a budget' 'saved' $train --lora 2 --steps 2 --memory 64MiB --save "$work/budget.safetensors"
good 'nothing is held out' 'none is held out' $train --lora 2 --steps 2 --held-out none --save "$work/none.safetensors"
good 'a held-out file' 'of another file' $train --lora 2 --steps 2 --held-out "$work/tale.txt" --save "$work/file.safetensors"
good 'patience' 'saved' $train --lora 2 --epochs 9 --lr 1e-30 --schedule constant --patience 1 --save "$work/patience.safetensors"
grep -q '/[0-9]*  .*perplexity' "$work/stdout" && [ "$(grep -c "held-out loss" "$work/stdout")" -eq 2 ] ||
    no "patience does not stop: $(cat "$work/stdout")"

good 'a GGUF file' 'saved' $train --init "$work/adapter.safetensors" --lr 1e-30 --steps 1 --save "$work/adapter.gguf"
[ "$(loss "$work/model.gguf" --lora "$work/adapter.gguf" | cut -c1-6)" = "$(echo "$after" | cut -c1-6)" ] || no 'a GGUF file has another loss'

i=0
while [ $i -lt 40 ]; do
    printf '{"prompt": "Who sings?", "answer": "the hen"}\n{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "the owl"}]}\n'
    i=$((i + 1))
done >"$work/chat.jsonl"
good 'conversations' '^answers +7[0-9] conversations in windows of 5[0-9] tokens, [0-9]+ tokens are predicted' $train --data "$work/chat.jsonl" \
    --context 0 --lora 4 --lr 0.03 --epochs 3 --save "$work/chat.safetensors"
perplexities=$(sed -n 's/.*perplexity //p' "$work/stdout")
echo "$perplexities" | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < first / 4) }' || no "answers are not learned: $perplexities"
good 'an answer' 'the hen' generate "$work/model.gguf" --lora "$work/chat.safetensors" --chat --prompt 'Who sings?' --temperature 0 \
    --length 8 --devices host

# ---- the example ----
"$3" "$work/model.gguf" "$work/tale.txt" "$work/example" 'the ' host >"$work/shown" 2>&1 || no "the example: $(cat "$work/shown")"
[ -s "$work/example/adapter_model.safetensors" ] && [ -s "$work/shown" ] || no "the example wrote $(ls "$work/example")"
"$3" "$work/model.gguf" "$work/missing" "$work/example" 'the ' host >"$work/shown" 2>&1 && no 'the example: no error'
grep -q '^adapt: .*missing' "$work/shown" || no "the example: $(cat "$work/shown")"

# ---- what is refused ----
: >"$work/cache/file"
bad 'no data' '--data FILE: a text' train --model "$work/model.gguf" --lora 2 --save x
bad 'no save' '--save PATH: is missing' train --model "$work/model.gguf" --data "$work/tale.txt"
bad 'no model' '--model FILE.gguf names it' train --lora 2 --data "$work/tale.txt" --save x
bad 'another option' "unknown option '--classes'" $train --classes 3 --save x
bad 'resume' "unknown option '--resume'" $train --resume --save x
printf '{"prompt": "a"}\n' >"$work/wrong.jsonl"
bad 'wrong conversations' 'line 1: neither a list "messages"' $train --data "$work/wrong.jsonl" --held-out none --save x
bad 'two lengths' 'both say how long' $train --epochs 1 --steps 2 --save x
bad 'a target' '"lm_head" fits no weight of' $train --lora-targets lm_head --save x
bad 'a rank' 'a rank of 2000; 1 to 1024' $train --lora 2000 --save x
bad 'a rate' '--lr: must be greater' $train --lr 0 --save x
bad 'a dropout' '--lora-dropout: must be' $train --lora-dropout 1 --save x
bad 'a batch' '--batch 4000: the text has' $train --batch 4000 --save x
bad 'its own settings' '--init: the adapter has its own' $train --init "$work/folder" --lora 4 --save x
bad 'the data as output' 'would replace a file that is read' $train --save "$work/tale.txt"
bad 'a file as a folder' 'a file of this name exists' $train --save "$work/cache/file"
cp "$work/adapter.safetensors" "$work/net.safetensors"
bad 'no language model' '.' generate "$work/net.safetensors" --lora "$work/folder"
bad 'no adapter' 'missing' evaluate "$work/model.gguf" "$work/tale.txt" --lora "$work/missing" --devices host

[ $failed -eq 0 ] && echo "$passed calls of adapters do what they should"
exit $failed
