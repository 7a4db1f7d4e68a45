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
[ "$(loss "$work/model.gguf" --lora "$work/folder=1")" = "$continued" ] || no 'a factor of 1 changes the loss'
[ "$(loss "$work/model.gguf" --lora "$work/folder=0.5" --lora "$work/folder=0.5" | cut -c1-6)" = "$(echo "$continued" | cut -c1-6)" ] ||
    no 'two halves of an adapter are not the adapter'
halved=$(loss "$work/model.gguf" --lora "$work/folder=0.5")
awk -v a="$untrained" -v b="$continued" -v h="$halved" 'BEGIN { exit !(h < a && h > b) }' || no "loss $untrained, $continued, with half of the adapter $halved"
good 'two adapters' 'the' generate "$work/model.gguf" --lora "$work/folder" --lora "$work/again.safetensors=-0.1" --prompt 'the ' --length 5 --temperature 0 --devices host
good 'a text' 'the' generate "$work/model.gguf" --lora "$work/folder" --prompt 'the ' --length 5 --temperature 0 --devices host
good 'two replicas' 'device +host:0' $train --lora 2 --steps 3 --devices host:0,host:0 --save "$work/two.safetensors"
good 'DoRA' '^adapter +DoRA, rank 2, alpha 4, dropout 0.1: 14 weights' $train --lora 2 --lora-dora --lora-dropout 0.1 --lr 0.02 --steps 30 --save "$work/dora"
dora=$(loss "$work/model.gguf" --lora "$work/dora")
awk -v a="$untrained" -v b="$dora" 'BEGIN { exit !(b < a - 0.5) }' || no "loss $untrained, with DoRA $dora"
grep -q '"use_dora":[[:space:]]*true' "$work/dora/adapter_config.json" || no "DoRA: $(cat "$work/dora/adapter_config.json")"
good 'DoRA goes on' 'DoRA, rank 2' $train --init "$work/dora" --steps 2 --save "$work/dora.safetensors"
good 'DoRA merged' '14 merged weights' export "$work/model.gguf" --lora "$work/dora" --merged "$work/dora.gguf"
[ "$(loss "$work/dora.gguf" | cut -c1-6)" = "$(echo "$dora" | cut -c1-6)" ] || no "merged DoRA has the loss $(loss "$work/dora.gguf"), not $dora"
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

# ---- resumed ----
# A run that is interrupted, whenever that is, ends with the bits of one that is not. With COPSE_TEST_SOME, as in the sanitized
# build, where an epoch takes two seconds, it is a third as long.
epochs=12
[ -z "${COPSE_TEST_SOME-}" ] || epochs=4
long="$train --lora 3 --lora-dropout 0.1 --lr 0.02 --epochs $epochs --batch 3"
good 'a whole run' 'saved' $long --save "$work/whole.safetensors" --hash "$work/whole.hash"
interrupt() { # SIGNAL: interrupt the run when it has a checkpoint; in $code its exit code
    "$copse" $long --save "$work/cut.safetensors" --checkpoint "$work/cut.state" --checkpoint-every 1 --resume --hash "$work/cut.hash" \
        >"$work/stdout" 2>"$work/stderr" &
    child=$!
    while [ ! -e "$work/cut.state" ] && kill -0 $child 2>/dev/null; do sleep 0.02; done
    kill -$1 $child 2>/dev/null
    wait $child 2>/dev/null
    code=$?
}
interrupt TERM
[ $code -eq 143 ] || no "a run that is stopped: exit code $code: $(cat "$work/stderr")"
grep -qE "^copse train: stopped after step [0-9]+; '.*cut.safetensors' has its values; the same command with --resume goes on$" "$work/stderr" ||
    no "a run that is stopped: $(cat "$work/stderr")"
bad 'a checkpoint that exists' "cut.state' exists; add --resume" $long --save "$work/cut.safetensors" --checkpoint "$work/cut.state"
bad 'another rate' "was made with --lr=0.0199999996, now it is --lr=0.0299999993: give the same settings" $long --lr 0.03 --save "$work/x" --checkpoint "$work/cut.state" --resume
differs() { # OPTION OLD NEW ARGUMENT...: a setting that a resumed run refuses by its name
    option=$1 old=$2 new=$3
    shift 3
    bad "another $option" "cut.state' was made with --$option=$old, now it is --$option=$new: give the same" $long --save "$work/x" \
        --checkpoint "$work/cut.state" --resume "$@"
}
differs lora 3 4 --lora 4
differs lora-alpha 6 2 --lora-alpha 2
differs lora-dropout 0.1[0-9]* 0 --lora-dropout 0
differs lora-dora no yes --lora-dora
differs lora-targets 'all, 14 weights' 'q_proj, 2 weights' --lora-targets q_proj
differs held-out '.*' '0 windows beside .*' --held-out none
differs epochs $epochs 13 --epochs 13
differs patience 0 3 --patience 3
differs save-last no yes --save-last
differs devices 'host:0 .*' 'host:0 .*, host:0 .*' --devices host:0,host:0
cp "$work/tale.txt" "$work/longer.txt"
echo 'the end' >>"$work/longer.txt"
differs data 'sum .*' 'sum .*' --data "$work/longer.txt"
mkdir "$work/same"
"$copse" export "$work/model.gguf" --lora "$work/folder" --merged "$work/same/model.gguf" >"$work/stdout" || no 'another model of the same name'
differs model 'model.gguf, 23[0-9]* parameters, sum .*' 'model.gguf, 23[0-9]* parameters, sum .*' --model "$work/same/model.gguf"
# the counters of a run: step, best step, judgements, steps since the newest line, three losses
header=$(od -An -tu8 -N8 "$work/cut.state" | tr -d ' ')
place=$(dd if="$work/cut.state" bs=1 skip=8 count="$header" 2>/dev/null | sed 's/.*"application.progress":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/')
damaged() { # COUNTER BYTES: eight bytes of a counter, and the checksum that the refusal names
    cp "$work/cut.state" "$work/damaged.state"
    printf "$2" | dd of="$work/damaged.state" bs=1 seek=$((8 + header + place + 8 * $1)) conv=notrunc 2>/dev/null
    "$copse" $long --save "$work/x" --checkpoint "$work/damaged.state" --resume >"$work/stdout" 2>"$work/stderr"
    LC_ALL=C sed -i "$(sed -n 's/.*checksum is \(crc32:[0-9a-f]*\), what it holds has \(crc32:[0-9a-f]*\).*/s,\1,\2,/p' "$work/stderr")" "$work/damaged.state"
    bad "counter $1 is $2" "damaged.state' is damaged: the counters" $long --save "$work/x" --checkpoint "$work/damaged.state" --resume
}
damaged 0 '\0\0\0\0\0\0\370\177' # NaN
damaged 0 '\0\0\0\0\0\0\360\277' # -1
damaged 0 '\0\0\0\0\0\0\340\077' # 0.5
damaged 0 '\0\0\0\0\0\0\360\103' # 2^64
damaged 1 '\0\0\0\0\0\0\360\103'
damaged 2 '\0\0\0\0\0\0\360\103'
damaged 3 '\0\0\0\0\0\0\360\277'
damaged 4 '\0\0\0\0\0\0\360\177' # infinite
bad 'no checkpoint' "was not made by copse train --lora --checkpoint" $long --save "$work/x" --checkpoint "$work/adapter.safetensors" --resume
good 'resumed' "^resumed +after step [0-9]+, from '.*cut.state'" $long --save "$work/cut.safetensors" --checkpoint "$work/cut.state" --resume --hash "$work/cut.hash"
cmp "$work/whole.safetensors" "$work/cut.safetensors" || no 'a resumed run has other bits'
cmp "$work/whole.hash" "$work/cut.hash" || no 'a step of a resumed run has another hash'
good 'a finished run' "^saved +'.*again.safetensors': the values of step" $long --save "$work/again.safetensors" --checkpoint "$work/cut.state" --resume
cmp "$work/whole.safetensors" "$work/again.safetensors" || no 'a finished run has other bits'
rm "$work/cut.state" "$work/cut.hash" "$work/cut.safetensors"
interrupt KILL
[ $code -eq 137 ] || no "a run that is killed: exit code $code"
[ ! -e "$work/cut.safetensors" ] || no 'a run that is killed wrote its adapter'
good 'resumed after a kill' '^resumed' $long --save "$work/cut.safetensors" --checkpoint "$work/cut.state" --resume
cmp "$work/whole.safetensors" "$work/cut.safetensors" || no 'a run that was killed has other bits'

# ---- merged with the model ----
merge="export $work/model.gguf --lora $work/folder --merged"
good 'a merged model' "^saved +'.*merged.gguf': 14 merged weights$" $merge "$work/merged.gguf"
[ "$(loss "$work/merged.gguf" | cut -c1-6)" = "$(echo "$continued" | cut -c1-6)" ] || no "the merged model has the loss $(loss "$work/merged.gguf"), not $continued"
"$2" "$work/blocks.gguf" blocks || exit 1
good 'a merged quantised model' 'merged weights, 12 of them f32 where the model is quantised$' export "$work/blocks.gguf" --lora "$work/folder=0.5" --merged "$work/half.gguf"
good 'a type' '14 merged weights$' export "$work/blocks.gguf" --lora "$work/folder=0.5" --merged "$work/half.gguf" --type f16 --force
good 'its types' 'blk.0.attn_q.weight +F16 ' info "$work/half.gguf"
bad 'it exists' 'merged.gguf. exists; --force replaces it' $merge "$work/merged.gguf"
bad 'itself' "merged would replace '.*model.gguf'" $merge "$work/model.gguf"
cp "$work/again.safetensors" "$work/read.gguf"
for file in "$work/read.gguf" "$work/folder/adapter_model.safetensors" "$work/folder/adapter_config.json"; do
    sum=$(cksum "$file")
    bad 'the adapter that is read' "merged would replace '.*', of the adapter" export "$work/model.gguf" --lora "$work/folder=0.5" --lora "$work/read.gguf=0.5" \
        --merged "$file" --force
    [ "$sum" = "$(cksum "$file")" ] || no "$file was replaced"
done
bad 'no folder for the merged model' "cannot make '$work/none/m.gguf': there is no folder '$work/none/'" $merge "$work/none/m.gguf"
bad 'another ending' "gives one: let '.*/m.bin' end in .gguf" $merge "$work/m.bin"
bad 'no adapter to merge' '--merged needs --lora ADAPTER' export "$work/model.gguf" --merged "$work/x.gguf"
bad 'an adapter without --merged' '--lora belongs to --merged' export "$work/adapter.safetensors" --npy "$work/x" --lora "$work/folder"
bad 'a type without --merged' '--type belongs to --merged' export "$work/adapter.safetensors" --npy "$work/x" --type f16
bad 'two forms' '--npy, --onnx or --merged: give one' export "$work/model.gguf" --npy "$work/x" --merged "$work/x"
bad 'no language model to merge' 'is no language model: a GGUF file, or' export "$work/adapter.safetensors" --lora "$work/folder" --merged "$work/x"

# ---- a folder instead of a GGUF file: the same model ----
"$2" "$work" folder || exit 1
good 'what a folder has' 'a language model in 1 file, 23840 parameters, 20 tensors' info "$work/model"
good 'its settings' 'model_type  *llama' info "$work/model"
good 'a folder as JSON' '"format": *"folder"' info "$work/model" --json
[ "$(loss "$work/model")" = "$untrained" ] || no "the folder has the loss $(loss "$work/model"), not $untrained"
[ "$(loss "$work/model/model.safetensors")" = "$untrained" ] || no 'its file of weights is another model'
[ "$(loss "$work/model" --lora "$work/adapter.safetensors")" = "$after" ] || no 'the adapter is another one there'
good 'its text' 'the' generate "$work/model" --prompt 'the ' --length 5 --temperature 0 --devices host
good 'training of a folder' 'rank 2' train --model "$work/model" --data "$work/tale.txt" --devices host --context 16 --lora 2 --steps 2 \
    --save "$work/of_folder.safetensors"
of_folder="train --data $work/tale.txt --devices host --context 16 --lora 2 --steps 2 --checkpoint $work/folder.state --save $work/of_folder.safetensors"
good 'a checkpoint of a folder' saved $of_folder --model "$work/model"
good 'a separator at the end' '^resumed' $of_folder --model "$work/model/" --resume
good 'a merged folder' "merged': 14 merged weights" export "$work/model" --lora "$work/folder" --merged "$work/merged"
[ "$(loss "$work/merged")" = "$(loss "$work/merged.gguf")" ] || no 'a merged folder is another model'
bad 'a folder that looks like a file' "leave the ending .gguf of '.*mm.gguf' out" export "$work/model" --lora "$work/folder" --merged "$work/mm.gguf"
bad 'no folder for a merged folder' "there is no folder '$work/none/'" export "$work/model" --lora "$work/folder" --merged "$work/none/m/"
bad 'a folder that exists' "merged' exists; name a new folder" export "$work/model" --lora "$work/folder" --merged "$work/merged" --force
mkdir "$work/empty"
cp "$work/model/config.json" "$work/empty"
bad 'a folder without weights' 'has neither model.safetensors nor' generate "$work/empty" --devices host
bad 'the memory of a folder' 'not a language model or an ONNX file' info --memory "$work/model"

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
good 'an ending in capitals' 'saved' $train --init "$work/adapter.safetensors" --lr 1e-30 --steps 1 --save "$work/capital.GGUF"
cmp "$work/adapter.gguf" "$work/capital.GGUF" || no 'capital.GGUF is no GGUF file'
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
"$copse" $train --data "$work/mark.jsonl" --lora 2 --context 0 --held-out none --epochs 1 --save "$work/answers.gguf" >"$work/stdout" 2>"$work/log" || no 'conversations with a mark'
predicted=$(sed -n 's/^answers .* \([0-9]*\) tokens to predict.*/\1/p' "$work/stdout")
good 'answers are evaluated' "^$predicted tokens of answers: loss" evaluate "$work/model.gguf" "$work/mark.jsonl" --devices host
good 'answers as JSON' '"conversations": *80' evaluate "$work/model.gguf" "$work/chat.jsonl" --devices host --json
printf '[\n{"prompt": "a", "answer": "b"}]' >"$work/list.json"
bad 'a list of conversations' "list.json' is a JSON list" evaluate "$work/model.gguf" "$work/list.json" --devices host
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
bad 'no model' '--model names it' train --lora 2 --data "$work/tale.txt" --save x
bad 'a missing model' "cannot open '.*missing.gguf'" train --model "$work/missing.gguf" --data "$work/tale.txt" --lora 8 --save x
bad 'a missing model by its name' "cannot open '.*missing.gguf'" train --model "$work/missing.gguf" --data "$work/tale.txt" --save x
bad 'a text as model' 'tale.txt. is neither a GGUF file nor' train --model "$work/tale.txt" --data "$work/tale.txt" --lora 8 --save x
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
bad 'resume' '--resume and --checkpoint-every need --checkpoint FILE' $train --resume --save x
bad 'a checkpoint as adapter' 'is the file of --save' $train --checkpoint x --save x
bad 'a checkpoint as a file of the adapter' 'checkpoint: is a file of --save' $train --checkpoint "$work/folder/adapter_model.safetensors" --save "$work/folder"
bad 'a checkpoint as the first adapter' 'would replace the adapter of --init' $train --init "$work/adapter.safetensors" --checkpoint "$work/adapter.safetensors" --save x
bad 'a checkpoint in the first adapter' 'would replace a file of --init' $train --init "$work/folder" --checkpoint "$work/folder/adapter_config.json" --save x
bad 'a checkpoint in the place of the data' '--checkpoint: would replace a file that is read' $train --checkpoint "$work/tale.txt" --save x
bad 'a checkpoint nowhere' "cannot write '/nope/x'" $train --checkpoint /nope/x --save x
bad '--checkpoint-every 0' '--checkpoint-every: must be at least 1' $train --checkpoint-every 0 --save x
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
bad 'DoRA as GGUF' 'GGUF files cannot hold DoRA' $train --lora 2 --lora-dora --steps 1 --save "$work/x.gguf"
grep -q step "$work/stdout" && no "DoRA as GGUF: it trained first"
bad 'DoRA in a sum' 'has magnitudes .DoRA., which cannot be added to others' generate "$work/model.gguf" --lora "$work/dora" --lora "$work/folder" --devices host
bad 'DoRA as GGUF while parsing' 'GGUF files cannot hold DoRA' $train --data "$work/missing.txt" --lora 2 --lora-dora --save "$work/x.GGUF"
bad 'DoRA of --init as GGUF' 'GGUF files cannot hold DoRA' $train --init "$work/dora" --steps 1 --save "$work/x.gguf"
mkdir -p "$work/runs/lr=0.01"
cp "$work/adapter.safetensors" "$work/runs/lr=0.01/ad"
good 'a mark in a folder' 'the' generate "$work/model.gguf" --lora "$work/runs/lr=0.01/ad" --prompt 'the ' --length 2 --devices host
bad 'a missing file below a mark' 'lr=0.01/no' generate "$work/model.gguf" --lora "$work/runs/lr=0.01/no" --devices host
bad 'no name' '--lora ADAPTER: the name of the adapter is empty, in .=0.5' generate "$work/model.gguf" --lora =0.5 --devices host
bad 'an empty name' '--lora ADAPTER: the name of the adapter is empty' generate "$work/model.gguf" --lora '' --devices host
bad 'a factor' "'half' is no number, in 'folder=half'" generate "$work/model.gguf" --lora folder=half --devices host
bad 'the factor 0' 'the factor of .*folder is 0; 1e-30 to 1e30' generate "$work/model.gguf" --lora "$work/folder=0" --devices host
bad 'no adapter' 'missing' evaluate "$work/model.gguf" "$work/tale.txt" --lora "$work/missing" --devices host

[ $failed -eq 0 ] && echo "$passed calls of adapters do what they should"
exit $failed
