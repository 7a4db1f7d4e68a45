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
grep -qE '^training 40 steps of 4 windows each, learning rate 0.02' "$work/stdout" || no "no steps: $(cat "$work/stdout")"
grep -qE "^saved +'.*adapter.safetensors': the values of step [0-9]+, held-out loss [0-9.]+, perplexity" "$work/stdout" || no "nothing is saved: $(cat "$work/stdout")"
untrained=$(loss "$work/model.gguf") after=$(loss "$work/model.gguf" --lora "$work/adapter.safetensors")
awk -v a="$untrained" -v b="$after" 'BEGIN { exit !(b < a - 1) }' || no "loss $untrained, with the adapter $after"
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
grep -q '/[0-9]*  .*perplexity' "$work/stdout" && [ "$(grep -c "^step.*held-out loss" "$work/stdout")" -eq 2 ] ||
    no "patience does not stop: $(cat "$work/stdout")"
grep -qE '^stopped +after step [0-9]+: 1 epoch without a lower held-out loss' "$work/stdout" || no "patience says nothing: $(cat "$work/stdout")"
good 'quiet' "^saved .*the values of step 0, held-out loss [0-9.]+, perplexity" $train --lora 2 --steps 1 --lr 10 --quiet --save "$work/q.safetensors"
[ "$(wc -l <"$work/stdout")" -eq 1 ] || no "quiet: $(cat "$work/stdout")"
good 'the last values' '"saved_step": *1,' $train --lora 2 --steps 1 --lr 10 --json --save-last --save "$work/last.safetensors"
tr -d ' ' <"$work/stdout" | awk -F'"held_out_loss":' 'NF > 1 { split($2, v, ","); loss[++n] = v[1] } END { exit !(n == 3 && loss[3] + 0 == loss[2] + 0 && loss[3] > loss[1]) }' ||
    no "not the loss of the last values: $(cat "$work/stdout")"
good 'one of each' '^training 1 step of 1 window each' $train --batch 1 --lora 2 --lora-targets model.layers.0.mlp.up_proj --lora-rank-stabilised --steps 1 \
    --save "$work/one.safetensors"
grep -q 'alpha 4 (rank-stabilised), dropout 0: 1 weight,' "$work/stdout" || no "one weight: $(cat "$work/stdout")"

# ---- runs that diverge ----
# diverges NAME PATTERN ARGUMENT...: exit code 1, one line on standard error that matches
diverges() {
    name=$1 pattern=$2
    shift 2
    timeout 120 "$copse" "$@" >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ $code -eq 1 ] && [ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -qE -- "$pattern" "$work/stderr" && passed=$((passed + 1)) ||
        no "$name: exit code $code: $(cat "$work/stderr") $(cat "$work/stdout")"
}
diverges 'a held-out loss that is NaN' "the held-out loss is NaN after step 1; training stopped: lower --lr .it is 1e.30.; '.*' was not written$" $train \
    --lora 2 --lr 1e30 --steps 1 --save "$work/nan.safetensors"
[ ! -e "$work/nan.safetensors" ] || no 'NaN was saved'
diverges 'a good epoch before' "is NaN.*; training stopped: lower --lr .*; '.*' has the values of step [1-9][0-9]*, with the lowest held-out loss, [0-9.]+$" $train \
    --lora 2 --lr 1e30 --schedule 'constant 2e-32 for 50%; constant' --epochs 4 --save "$work/rescued.safetensors"
rescued=$(loss "$work/model.gguf" --lora "$work/rescued.safetensors")
awk -v a="$untrained" -v b="$rescued" 'BEGIN { exit !(b > 0 && b < a) }' || no "loss $untrained, rescued $rescued"

good 'a GGUF file' 'saved' $train --init "$work/adapter.safetensors" --lr 1e-30 --steps 1 --save "$work/adapter.gguf"
[ "$(loss "$work/model.gguf" --lora "$work/adapter.gguf" | cut -c1-6)" = "$(echo "$after" | cut -c1-6)" ] || no 'a GGUF file has another loss'

i=0
while [ $i -lt 40 ]; do
    printf '{"prompt": "Who sings?", "answer": "the hen"}\n{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "the owl"}]}\n'
    i=$((i + 1))
done >"$work/chat.jsonl"
good 'conversations' '^answers +7[0-9] conversations in windows of 5[0-9] tokens, [0-9]+ tokens to predict' $train --data "$work/chat.jsonl" \
    --context 0 --lora 4 --lr 0.03 --epochs 3 --save "$work/chat.safetensors"
perplexities=$(sed -n 's/.*perplexity //p' "$work/stdout")
echo "$perplexities" | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < first / 4) }' || no "answers are not learned: $perplexities"
{ printf '\357\273\277'; cat "$work/chat.jsonl"; } >"$work/mark.jsonl"
"$copse" $train --data "$work/mark.jsonl" --context 0 --lora 2 --steps 1 --save "$work/mark.safetensors" >"$work/stdout" 2>&1
grep -qE '^answers|line 1' "$work/stdout" || no "a byte order mark: these are not conversations: $(cat "$work/stdout")"
{ echo 'a text'; sed 's/^/{/' "$work/tale.txt"; } >"$work/brace.txt"
head -2 "$work/chat.jsonl" >"$work/two.jsonl"
good 'a text whose end begins with a brace' '^held out [0-9]+ windows' $train --data "$work/brace.txt" --held-out 0.05 --lora 2 --steps 1 \
    --save "$work/brace.safetensors"
good 'the last line is held out' '^held out 1 window at the end' $train --data "$work/two.jsonl" --context 0 --batch 1 --held-out 0.01 --steps 1 --lora 2 \
    --save "$work/cut.safetensors"
grep -qE '^data +1 window$' "$work/stdout" || no "the last line: $(cat "$work/stdout")"
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
bad 'a missing model' "cannot open '.*missing.gguf'" train --model "$work/missing.gguf" --data "$work/tale.txt" --lora 8 --save x
bad 'a missing model by its name' "cannot open '.*missing.gguf'" train --model "$work/missing.gguf" --data "$work/tale.txt" --save x
bad 'a text as model' 'tale.txt. is not a GGUF file' train --model "$work/tale.txt" --data "$work/tale.txt" --lora 8 --save x
bad 'a folder as model' 'is a folder' train --model "$work" --data "$work/tale.txt" --lora 8 --save x
bad 'no parent' "cannot write '/nope/x'" $train --lora 2 --steps 1 --save /nope/x
grep -q step "$work/stdout" && no "no parent: it trained first"
bad 'a file as parent' "cannot write '.*tale.txt/x'" $train --lora 2 --steps 1 --save "$work/tale.txt/x"
bad 'rank 0' '--lora: a rank of 1 to 1024' $train --lora 0 --save x
for option in steps epochs every; do
    bad "--$option 0" "--$option: must be at least 1" $train --$option 0 --save x
done
bad 'context 0' '--context 0: is for conversations' $train --context 0 --save x
printf '[\n{"prompt": "a", "answer": "b"}]\n' >"$work/list.json"
bad 'a list' 'one conversation per line' $train --data "$work/list.json" --save x
head -1 "$work/chat.jsonl" >"$work/line.jsonl"
bad 'one line' '--held-out: .* is one line' $train --data "$work/line.jsonl" --batch 1 --held-out 0.5 --save x
bad 'patience of one line' '--patience: .* is one line' $train --data "$work/line.jsonl" --batch 1 --patience 2 --save x
printf 'hello fox, the hen sings\nx' >"$work/x.txt"
bad 'a held-out part of one token' "the held-out part, 1 byte at the end of '.*x.txt': .*1 tokens; .*change --held-out" $train --data "$work/x.txt" --batch 1 --save x
bad 'no held-out file' "--held-out: cannot open 'missing.txt'" $train --held-out missing.txt --save x
bad 'a held-out folder' "--held-out: '.*' is a folder" $train --held-out "$work" --save x
bad 'half a folder' 'adapter_config.json beside the file' $train --save "$work/folder/adapter_model.safetensors"
export COPSE_CONFIG='{"cluster": {"worker": ["localhost:7000", "localhost:7001"]}, "task": {"type": "worker", "index": 1}}'
bad 'a worker of a job' 'adapters are trained by one process, .* use --devices' $train --lora 2 --save x
unset COPSE_CONFIG
bad 'a kernel' '--kernel and --classes belong to --checkpoint' evaluate "$work/model.gguf" "$work/tale.txt" --kernel matmul=wide
bad 'classes' '--kernel and --classes belong to --checkpoint' evaluate "$work/model.gguf" "$work/tale.txt" --classes 3
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
