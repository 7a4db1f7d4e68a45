#!/bin/sh
# SPDX-License-Identifier: MIT
# completer.sh COMPLETER MAKE_LANGUAGE COPSE DEVICE: the application of examples/apps/completer. An adapter that learns the texts of a
# folder lowers the perplexity of lines that it has not seen, its file completes a prompt as the training printed it, a signal ends
# the training after a step, and wrong models, folders, adapters and options are refused with one line.
set -u
program=$1 device=$4
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

"$2" model.gguf llama && "$2" . folder && mv model model_folder || exit 1
mkdir -p notes/more/deep notes/.git
tale() { # COUNT
    i=0
    while [ $i -lt "$1" ]; do
        printf 'the hen sings.\nthe owl sleeps.\nhello fox, hello cat!\n'
        i=$((i + 1))
    done
}
tale 15 >notes/a.txt
tale 10 >notes/more/b.md
tale 5 >notes/more/deep/c
printf 'PK\000\001\377\376' >notes/a.zip
printf 'caf\351\n' >notes/latin.txt
printf '\000' >notes/.git/index
ln -s .. notes/more/up
ln -s nowhere notes/broken

# ---- training ----
settings="--window 16 --rank 4 --device $device"
# shellcheck disable=SC2086
run() { # ARGUMENT...
    timeout 300 "$program" "$@" $settings >out 2>error
    code=$?
}
run model.gguf notes adapter.safetensors --epochs 3 --rate 0.02 --prompt 'the owl' --length 6
[ $code -eq 0 ] || no "training: code $code: $(cat error)"
[ "$(wc -l <error)" -eq 1 ] && grep -q '^completer: notes: 4 of 7 files are left out: .*a.zip' error || no "files that are no texts: $(cat error)"
grep -qE '^texts    3 files, 15[0-9][0-9] bytes; 1[0-9][0-9] bytes are held out$' out || no "texts: $(cat out)"
[ "$(grep -c '^epoch [123]: training loss [0-9.]*, held-out perplexity [0-9.]*, saved$' out)" -ge 1 ] || no "epochs: $(cat out)"
[ "$(grep -c '^epoch ' out)" -eq 3 ] || no "not 3 epochs: $(cat out)"
awk '/^held-out perplexity: / { n++; before = $3; after = $7 } /^held-out perplexity [0-9.]* without an adapter/ { first = $3 }
     /^epoch / { sub(",", "", $8); if (!best || $8 < best) best = $8 }
     END { exit !(n == 1 && first == before && after == best && after > 1 && after < before / 3) }' out || no "the gain: $(cat out)"
grep -a '^without: the owl' out | cut -c10- >plain
grep -a '^with:    the owl' out | cut -c10- >adapted
[ -s plain ] && [ -s adapted ] && ! cmp -s plain adapted || no "the adapter changes no completion: $(cat out)"
cp adapter.safetensors first.safetensors
run model.gguf notes adapter.safetensors --epochs 3 --rate 0.02
cmp first.safetensors adapter.safetensors || no 'the same training gives another file'
run model.gguf notes adapter.safetensors --epochs 3 --rate 0.02 --seed 2
cmp -s first.safetensors adapter.safetensors && no 'another seed gives the same file'
grep -q 'saved as a folder' out && no 'a file is called a folder'
run model_folder notes peft --epochs 1 --rate 0.02
grep -q '^adapter  peft is saved as a folder$' out || no "no line about a folder: $(cat out)"
[ $code -eq 0 ] && [ "$(ls peft | tr '\n' ' ')" = 'adapter_config.json adapter_model.safetensors ' ] || no "a folder: code $code: $(cat error)"

# ---- completing ----
complete="--complete --length 6 --device $device"
# shellcheck disable=SC2086
"$program" $complete model.gguf first.safetensors --prompt 'the owl' >out 2>error || no "--complete: $(cat error)"
cmp out adapted || no "the file completes otherwise: $(cat out) and $(cat adapted)"
# shellcheck disable=SC2086
"$program" $complete model.gguf --prompt 'the owl' >out 2>error || no "without an adapter: $(cat error)"
cmp out plain || no "the model completes otherwise: $(cat out) and $(cat plain)"
# shellcheck disable=SC2086
printf 'the owl\r\n\nthe owl' | "$program" $complete model.gguf first.safetensors >out 2>error || no "standard input: $(cat error)"
cat adapted adapted | cmp - out || no "standard input: $(cat out)"
for name in one one.again two; do
    # shellcheck disable=SC2086
    "$program" $complete model.gguf first.safetensors --prompt 'the owl' --temperature 5 --seed $([ $name = two ] && echo 2 || echo 1) >drawn.$name 2>error ||
        no "drawn: $(cat error)"
done
cmp drawn.one drawn.one.again || no 'the same seed draws another text'
cmp -s drawn.one drawn.two && no 'another seed draws the same text'
[ ! -c /dev/full ] || {
    # shellcheck disable=SC2086
    "$program" $complete model.gguf --prompt 'the owl' >/dev/full 2>error && no 'a full output is no error'
    grep -q '^completer: the output cannot be written' error || no "a full output: $(cat error)"
}

# ---- signals ----
# stop_after PATTERN ARGUMENT...: send SIGTERM when a line of the output fits
# (--foreground: else timeout sends the signal twice, and the second one ends the program)
stop_after() {
    pattern=$1
    shift
    : >out
    # shellcheck disable=SC2086
    timeout --foreground 300 "$program" "$@" $settings >out 2>error &
    child=$!
    while kill -0 $child 2>/dev/null && ! grep -q "$pattern" out; do sleep 0.02; done
    kill -TERM $child
    wait $child
    code=$?
    [ $code -eq 143 ] || no "SIGTERM: code $code: $(cat error)"
}
cp first.safetensors kept.safetensors
stop_after '^epoch 1:.*saved$' model.gguf notes kept.safetensors --epochs 10000 --rate 0.001
# The newest epoch that was saved stays, whatever the step is.
saved=$(sed -n 's/^epoch \([0-9]*\):.*saved$/\1/p' out | tail -n 1)
[ "$(tail -n 1 error)" = "completer: signal 15: kept.safetensors has the values of epoch $saved" ] || no "SIGTERM: $(cat error)"
# Before an epoch is saved, the newest step is. The first epoch is long.
mkdir lengthy && tale 400 >lengthy/a.txt
stop_after '^adapter  rank' model.gguf lengthy early.safetensors --epochs 10000 --rate 0.001
value=step
grep -q '^epoch.*saved$' out && value=epoch
grep -qE "^completer: signal 15: early.safetensors has the values of $value [1-9][0-9]*\$" error && [ -s early.safetensors ] || no "a signal in the first epoch: $(cat error)"
cmp -s first.safetensors kept.safetensors && no 'a signal saves nothing'
# shellcheck disable=SC2086
"$program" $complete model.gguf kept.safetensors --prompt 'the' >out 2>error || no "after a signal: $(cat error)"

# ---- what is refused ----
# refused CODE TEXT ARGUMENTS...: one line
refused() {
    code=$1 text=$2
    shift 2
    timeout 100 "$program" --device "$device" "$@" </dev/null >out 2>error
    [ $? -eq "$code" ] || no "$*: another exit code than $code: $(cat error)"
    [ "$(wc -l <error)" -eq 1 ] && grep -q "^completer: .*$text" error || no "$*: no '$text' in: $(cat error)"
    [ ! -e never.safetensors ] || no "$*: leaves a file"
}
mkdir empty binary one blank
cp notes/a.zip binary/a.txt && cp model.gguf binary/b.txt
printf 'one line without another' >one/line.txt
: >blank/a.txt
refused 1 'empty: has no text$' model.gguf empty never.safetensors
refused 1 'binary: has no text: .*a.txt' model.gguf binary never.safetensors
refused 1 'one: no line can be held out' model.gguf one never.safetensors
refused 1 'blank: no line can be held out' model.gguf blank never.safetensors
refused 1 'absent: No such file' model.gguf absent never.safetensors
refused 1 'notes/a.txt: Not a directory' model.gguf notes/a.txt never.safetensors
refused 1 'absent.gguf' absent.gguf notes never.safetensors
refused 1 'does not begin with' notes/a.txt notes never.safetensors
refused 1 'host:99' model.gguf notes never.safetensors --device host:99
refused 1 'absent/never.safetensors: cannot be written' model.gguf notes absent/never.safetensors
refused 1 'the name of the result is empty' model.gguf notes ''
mkdir folder.safetensors && printf 'mine\n' >file
refused 1 'folder.safetensors: is a folder; name a file' model.gguf notes folder.safetensors
refused 1 'file: is a file; name a folder' model.gguf notes file
[ "$(cat file)" = mine ] || no 'a file was overwritten'
refused 1 'a.txt/never: cannot be written' model.gguf notes/more notes/a.txt/never
sed 's/layers\.1\./layers.7./g' first.safetensors >other.safetensors # of a model with more layers
refused 1 'layers.7' --complete model.gguf other.safetensors --prompt the
refused 1 'absent.safetensors' --complete model.gguf absent.safetensors --prompt the
refused 1 'a.zip' --complete model.gguf notes/a.zip --prompt the
refused 2 'is notes or in it; give the adapter another place' model.gguf notes notes
refused 2 'is notes or in it' model.gguf notes notes/more/never.safetensors
refused 2 'is ./notes or in it' model.gguf ./notes notes/../notes/a.txt
refused 2 'is model.gguf or in it' model.gguf notes ./model.gguf
refused 2 'is model_folder or in it' model_folder notes model_folder/model.safetensors
refused 2 'epochs none: a whole number from 1 to 10000' model.gguf notes never.safetensors --epochs none
refused 2 'rate nan: a number from' model.gguf notes never.safetensors --rate nan
refused 2 '--colour is unknown' model.gguf notes never.safetensors --colour 3
refused 2 '--complete does not take --epochs' --complete model.gguf --epochs 3
cksum model.gguf model_folder/* notes/a.txt >before
# A model that knows the held-out line learns other lines.
"$3" export model.gguf --lora first.safetensors --merged adapted.gguf >out 2>error || no "merging: $(cat error)"
mkdir others
{
    i=0
    while [ $i -lt 60 ]; do
        echo '{ZYXW} qqq @@@ 0123456789'
        i=$((i + 1))
    done
    printf 'the hen sings.\n'
} >others/a.txt
run adapted.gguf others never.safetensors --epochs 2 --rate 0.02 --held-out 0.01
[ $code -eq 1 ] && [ "$(wc -l <error)" -eq 1 ] && [ ! -e never.safetensors ] && grep -q '^completer: no epoch has lowered the held-out perplexity: never.safetensors is not written' error ||
    no "nothing is gained: code $code: $(cat out error)"
run model.gguf notes/more/deep adapter.safetensors --epochs 1 --rate 0.02
[ $code -eq 0 ] && [ ! -s error ] || no "a folder of texts alone: $(cat error)"
cksum model.gguf model_folder/* notes/a.txt | cmp -s - before || no 'a file was overwritten'
[ -z "$(find . -name '*.part')" ] || no "left: $(find . -name '*.part')"
head -c 70000 /dev/zero | tr '\0' a >long
# shellcheck disable=SC2086
"$program" $complete model.gguf <long >out 2>error && no 'a long line is taken'
grep -q '^completer: a line of standard input has more than' error || no "a long line: $(cat error)"
"$program" --help >out 2>error && grep -q '^usage: completer MODEL FOLDER ADAPTER' out && [ ! -s error ] || no '--help'
"$program" --complete --help >out 2>error && grep -q '^usage: completer MODEL' out && [ ! -s error ] || no '--complete --help'
"$program" >out 2>error
[ $? -eq 2 ] && grep -q '^usage' error || no 'no arguments: another result than the usage'

[ $failed -eq 0 ] && echo 'the completer completes'
exit $failed
