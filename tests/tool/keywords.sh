#!/bin/sh
# SPDX-License-Identifier: MIT
# keywords.sh KEYWORDS DEVICE: the application of examples/apps/keywords. A network of an ONNX file learns words from recordings, the
# file that it writes learns other recordings further, finds held-out words, and tells the word of a recording; wrong files, folders
# and options are refused with one line.
set -u
program=$1 device=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# ---- recordings ----
"$program" --make near --count 20 --seed 1 || no "no recordings: code $?"
"$program" --make again --count 20 --seed 1 && diff -r near again || no 'recordings that are made again differ'
"$program" --make far --count 20 --seed 2 --noise 1 || no 'no noisy recordings'
cmp -s near/rise/03.wav far/rise/03.wav && no 'another seed makes the same recordings'
[ "$(ls near | tr '\n' ' ')" = 'fall noise rise tone ' ] && [ "$(ls near/rise | wc -l)" -eq 20 ] || no "recordings: $(ls near near/rise)"
[ "$(wc -c <near/tone/00.wav)" -eq 32044 ] || no "a recording has $(wc -c <near/tone/00.wav) bytes"

# ---- a new network ----
"$program" --new new.onnx near >out 2>error
code=$?
if [ $code -ne 0 ] && grep -q 'writes no ONNX files' error; then
    [ ! -e new.onnx ] || no 'a file is left'
    [ $failed -eq 0 ] && echo 'skipped: this build writes no ONNX files' && exit 77
    exit 1
fi
[ $code -eq 0 ] && [ ! -s error ] || no "--new: code $code: $(cat error)"
[ "$(tr '\n' ' ' <new.onnx.txt)" = 'fall noise rise tone ' ] || no "words: $(cat new.onnx.txt)"
"$program" --new same.onnx near >out && cmp new.onnx same.onnx || no 'the same seed makes another network'
"$program" --new other.onnx near --seed 2 >out && ! cmp -s new.onnx other.onnx || no 'another seed makes the same network'

# ---- training ----
# right FILE: held-out recordings that are right, before and after
right() {
    sed -n 's/^held-out recordings: \([0-9]*\) of 16 right, before \([0-9]*\);.*/\2 \1/p' "$1"
}
timeout 300 "$program" new.onnx near first.onnx --epochs 12 --device "$device" >first 2>error || no "training: $(cat error)"
[ ! -s error ] && head -n 1 first | grep -q '^80 recordings of 4 words$' || no "training: $(cat error first)"
[ "$(grep -c '^epoch [0-9]*: loss [0-9.]*, held-out loss [0-9.]*, accuracy [0-9.]* %$' first)" -eq 12 ] || no "epochs: $(cat first)"
[ "$(grep -cE '^(fall|noise|rise|tone) +[0-4] of 4, before [0-4]$' first)" -eq 4 ] || no "words: $(cat first)"
right first | awk '{ n++; good += $1 <= 12 && $2 >= 14 } END { exit !(n == 1 && good == 1) }' || no "the network learns nothing: $(cat first)"
cmp new.onnx.txt first.onnx.txt || no 'the words differ after the training'
timeout 300 "$program" new.onnx near same.onnx --epochs 12 --device "$device" >same 2>error
cmp first.onnx same.onnx || no 'the same training gives another file'

# ---- training on ----
timeout 300 "$program" first.onnx far second.onnx --epochs 12 --device "$device" >second 2>error || no "training on: $(cat error)"
right second | awk '{ n++; good += $2 > $1 } END { exit !(n == 1 && good == 1) }' || no "training on gains nothing: $(cat second)"
timeout 300 "$program" first.onnx far head.onnx --epochs 2 --trained '*dense*' --device "$device" >head 2>error || no "the head alone: $(cat error)"
cmp -s second.onnx head.onnx && no 'the head alone is all of the network'
rm -r far/tone && mkdir far/empty && printf 'no sound' >far/notes.txt
timeout 300 "$program" first.onnx far three.onnx --epochs 1 --device "$device" >three 2>error || no "three words: $(cat error)"
grep -q '^60 recordings of 4 words$' three && grep -qE '^tone +0 of 0, before 0$' three || no "three words: $(cat three)"
[ "$(cat error)" = 'keywords: far: 1 of 61 files are left out: they are no WORD/NAME.wav' ] || no "a file that is no recording: $(cat error)"

# A file that is beside the result stays, also the network itself, and one whose name a list could be written under.
cp first.onnx o.onnx.txt.txt && cp first.onnx.txt o.onnx.txt.txt.txt && echo mine >o.onnx.txt.0.part
timeout 300 "$program" o.onnx.txt.txt far o.onnx --epochs 1 --device "$device" >out 2>error || no "a network NAME.onnx.txt.txt: $(cat error)"
cmp first.onnx o.onnx.txt.txt || no 'the network that is read was overwritten'
cmp first.onnx.txt o.onnx.txt || no "words: $(cat o.onnx.txt)"
[ "$(cat o.onnx.txt.0.part)" = mine ] && rm o.onnx.txt.0.part || no 'a file with the name of a part was overwritten'
ln -s ../../near/rise/00.wav far/rise/link.wav
timeout 300 "$program" first.onnx far three.onnx --epochs 1 --device "$device" >three 2>error
[ "$(cat error)" = 'keywords: far: 2 of 62 files are left out: they are links, or no WORD/NAME.wav' ] || no "a link: $(cat error)"

# ---- signals ----
# stop_after PATTERN OUT ARGUMENT...: send SIGTERM when a line of the output fits, after a folder $blocked is made
# (--foreground: else timeout sends the signal twice, and the second one ends the program)
blocked=
stop_after() {
    pattern=$1 result=$2
    shift 2
    : >out
    timeout --foreground 300 "$program" first.onnx far "$result" --epochs 10000 --device "$device" "$@" >out 2>error &
    child=$!
    while kill -0 $child 2>/dev/null && ! grep -q "$pattern" out; do sleep 0.02; done
    [ -z "$blocked" ] || mkdir "$blocked"
    kill -TERM $child
    wait $child
    code=$?
    [ -n "$blocked" ] || { [ $code -eq 143 ] && cmp first.onnx.txt "$result.txt"; } || no "SIGTERM: code $code: $(cat error)"
    [ -n "$blocked" ] || grep -q '^held-out recordings: [0-9]* of ' out || no "SIGTERM: no result: $(cat out)"
}
rm far/rise/link.wav far/notes.txt
stop_after '^epoch 2:' early.onnx
best=$(sed 's/,//' out | awk '/^epoch / { sub(",", "", $7); if (!n++ || $7 < low) { low = $7; best = $2 } } END { sub(":", "", best); print best }')
[ "$(cat error)" = "keywords: signal 15: early.onnx has the values of epoch $best" ] || no "SIGTERM: $(cat error) instead of epoch $best: $(cat out)"
# Before an epoch is complete, the newest step is saved.
stop_after '^60 recordings' early.onnx --batch 1
value=step
grep -q '^epoch ' out && value=epoch
grep -qE "^keywords: signal 15: early.onnx has the values of $value [1-9][0-9]*\$" error || no "a signal in the first epoch: $(cat out error)"
# The network and its list of words are both new, or both as before, or a line says that they are not.
blocked=blocked.onnx
echo earlier >blocked.onnx.txt
stop_after '^epoch 2:' blocked.onnx
[ $code -eq 1 ] && [ "$(wc -l <error)" -eq 1 ] && [ "$(cat blocked.onnx.txt)" = earlier ] || no "a network that cannot be written: code $code: $(cat error blocked.onnx.txt)"
blocked=list.onnx.txt
stop_after '^epoch 2:' list.onnx
[ $code -eq 1 ] && [ "$(cat error)" = 'keywords: list.onnx.txt: cannot be written: list.onnx is new, its list of words is not' ] ||
    no "a list that cannot be written: code $code: $(cat error)"

# ---- listening ----
"$program" --listen first.onnx near/*/1*.wav --device "$device" >out 2>error || no "--listen: $(cat error)"
[ "$(wc -l <out)" -eq 40 ] || no "--listen: $(cat out)"
awk '{ split($1, path, "/"); if (path[2] == $2 && $3 > 0.25 && $3 <= 1) n++ } END { exit !(n >= 34) }' out || no "words are taken for others: $(cat out)"
# A recording that begins with two seconds of silence, and is a tenth as loud, is the same one.
{ printf 'RIFF\044\356\002\000WAVEfmt \020\000\000\000\001\000\001\000\200\076\000\000\000\175\000\000\002\000\020\000data\000\356\002\000'
    head -c 128000 /dev/zero; tail -c 32000 near/rise/10.wav; head -c 32000 /dev/zero; } >late.wav
"$program" --listen first.onnx near/rise/10.wav late.wav --device "$device" >out 2>error || no "a late word: $(cat error)"
[ "$(cut -d' ' -f2 out | uniq | wc -l)" -eq 1 ] || no "a late word is another one: $(cat out)"
cp first.onnx bare.onnx
"$program" --listen bare.onnx near/rise/10.wav --device "$device" >out 2>error && grep -qE '^near/rise/10.wav: output [0-3] [01]\.' out || no "no words: $(cat out error)"

# ---- what is refused ----
# refused CODE TEXT ARGUMENTS...: one line
refused() {
    code=$1 text=$2
    shift 2
    timeout 100 "$program" "$@" >out 2>error
    [ $? -eq "$code" ] || no "$*: another exit code than $code: $(cat error)"
    [ "$(wc -l <error)" -eq 1 ] && grep -q "^keywords: .*$text" error || no "$*: no '$text' in: $(cat error)"
    [ ! -e never.onnx ] && [ ! -e never.onnx.txt ] || no "$*: leaves a file"
}
mkdir -p empty slow/tone deep/a/b bad/tone more single/tone silent/tone
printf 'RIFF\044\000\000\000WAVEfmt \020\000\000\000\001\000\001\000\104\254\000\000\210\130\001\000\002\000\020\000data\002\000\000\000ab' >slow/tone/a.wav
cp near/tone/00.wav deep/a/b/00.wav && cp near/tone/00.wav single/tone
head -c 1000 near/tone/00.wav >bad/tone/a.wav
cp -r near/tone more/hello && cp -r near/fall more/fall
printf 'fall\nrise\n' >two.onnx.txt && cp first.onnx two.onnx
printf 'fall\nfall\n' >twice.onnx.txt && cp first.onnx twice.onnx
refused 1 'empty: has no file WORD/NAME.wav' first.onnx empty never.onnx
refused 1 'deep: has no file WORD/NAME.wav' first.onnx deep never.onnx
refused 1 'absent: No such file' first.onnx absent never.onnx
refused 1 'slow/tone/a.wav: has 44100 samples a second; 16000 are needed' first.onnx slow never.onnx
refused 1 'bad/tone/a.wav: ends within its samples' first.onnx bad never.onnx
refused 1 'more/hello/00.wav: the network does not know this word' first.onnx more never.onnx
cp -r far few && mv few/rise/00.wav . && rm few/rise/* && mv 00.wav few/rise
refused 1 'few: rise: 0 of 1 recordings are held out; at least 5 are needed' first.onnx few never.onnx
# A network that knows the words gains nothing at a rate that spoils it.
refused 1 'no epoch has lowered the held-out loss of [0-9.]*: never.onnx is not written' first.onnx near never.onnx --epochs 1 --rate 1 --device "$device"
refused 1 'the name of the result is empty' first.onnx near ''
mkdir place
refused 1 'place: is a folder; name a file' first.onnx near place
refused 1 'place/: is a folder; name a file' first.onnx near place/
refused 1 'list.onnx.txt: is a folder; name a file' first.onnx near list.onnx
refused 1 'same.onnx: is there; name a new file' --new same.onnx near
echo mine >list2.onnx.txt
refused 1 'list2.onnx.txt: is there; name a new file' --new list2.onnx near
cmp first.onnx same.onnx && [ "$(cat list2.onnx.txt)" = mine ] && [ ! -e list2.onnx ] || no '--new writes over a file'
refused 1 'single: has one word; two at least' --new never.onnx single
refused 1 'two.onnx: has 4 outputs for 2 words' --listen two.onnx near/tone/00.wav
refused 1 'twice.onnx.txt: an empty line, or a word that is there twice' --listen twice.onnx near/tone/00.wav
refused 1 'ONNX' --listen near/tone/00.wav near/tone/00.wav
refused 1 'is no WAV file' --listen first.onnx first.onnx
refused 1 'absent.onnx' absent.onnx near never.onnx
refused 1 'absent/never.onnx: cannot be written' first.onnx near absent/never.onnx --epochs 10000
refused 1 'host:99' first.onnx near never.onnx --device host:99
refused 1 'no_such_weight' first.onnx near never.onnx --trained no_such_weight
refused 1 'near: File exists' --make near
refused 2 'is first.onnx or in it; give the result another place' first.onnx near ./first.onnx
refused 2 'is first.onnx.txt or in it' first.onnx near first.onnx.txt
refused 2 'is near or in it' first.onnx near near/tone/00.wav
refused 2 'is near or in it' --new near/never.onnx near
refused 2 'epochs none: a whole number from 1 to 10000' first.onnx near never.onnx --epochs none
refused 2 'rate nan: a number from' first.onnx near never.onnx --rate nan
refused 2 '--colour is unknown or has no value' first.onnx near never.onnx --colour 3
refused 2 '--listen does not take --epochs' --listen first.onnx near/tone/00.wav --epochs 3
refused 2 '--make does not take --device' --make never --device host:0
refused 2 '--new after --make: give one of them, once' --make --new never
diff -r near again || no 'a recording was overwritten'
[ -z "$(find . -name '*.part')" ] && [ ! -e never ] || no "left: $(find . -name '*.part') $(ls)"
"$program" --help >out 2>error && grep -q '^usage: keywords --new' out && [ ! -s error ] || no '--help'
"$program" --listen --help >out 2>error && grep -q '^usage: keywords --new' out && [ ! -s error ] || no '--listen --help'
"$program" >out 2>error
[ $? -eq 2 ] && grep -q '^usage' error || no 'no arguments: another result than the usage'

[ $failed -eq 0 ] && echo 'the network knows the words'
exit $failed
