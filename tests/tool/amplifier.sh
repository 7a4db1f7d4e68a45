#!/bin/sh
# SPDX-License-Identifier: MIT
# amplifier.sh AMPLIFIER DEVICE: the application of examples/apps/amplifier. The loss falls, the network
# follows its amplifier by the error-to-signal ratio, and the model plays to the bit what the trained network played. Each recording
# that cannot be learned from is refused with a line that says why, and leaves no model.
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

# ---- files ----
"$program" --make dry.wav wet.wav --seconds 2 || no "no pair: code $?"
"$program" --make again.wav wet_again.wav --seconds 2 || no "no second pair"
cmp dry.wav again.wav && cmp wet.wav wet_again.wav || no 'a pair that is made again differs'
for samples in 16 24 32 float; do
    "$program" --make dry$samples.wav wet$samples.wav --seconds 2 --samples $samples || no "--samples $samples"
    "$program" --compare wet.wav wet$samples.wav --device "$device" >out 2>&1 || no "--compare, $samples: $(cat out)"
    sed -n 's/^error-to-signal ratio \([^,]*\), .*/\1/p' out | awk '{ n = $1 } END { exit !(NR == 1 && n < 1e-7) }' ||
        no "samples as $samples differ: $(cat out)"
done
"$program" --make dry8.wav wet8.wav --samples 8 2>out && no 'samples of 8 bits were written'
[ ! -e dry8.wav ] || no 'a file of 8 bits is left'

# ---- training ----
timeout 500 "$program" dry.wav wet.wav model.nam --epochs 4 --device "$device" --output output.wav --figure figure.svg >out 2>error ||
    no "training: code $?: $(cat error)"
awk '/^epoch/ { sub(":", "", $2); loss[$2] = $4 + 0; ratio[$2] = $NF; n++ }
     END { exit !(n == 4 && loss[4] < 0.8 * loss[1] && ratio[4] < 0.6 && loss[4] > 0) }' out || no "the loss does not fall: $(cat out)"
"$program" --play model.nam dry.wav played.wav --device "$device" || no "--play: code $?"
cmp output.wav played.wav || no 'the model plays something else than the network that was written'
grep -q '^<svg ' figure.svg && grep -q '^</svg>$' figure.svg || no 'figure.svg is no picture'
tail -n 1 model.nam | grep -q ']}$' || no 'model.nam does not end as JSON'

# ---- models that cannot be played ----
# unplayable FILE TEXT
unplayable() {
    "$program" --play "$1" dry.wav never.wav --device "$device" >out 2>error && no "$1 was played"
    grep -q "^amplifier: $1.*$2" error || no "$1: no '$2' in: $(cat error)"
    [ ! -e never.wav ] || no "$1 leaves a file"
}
sed 's/"dilations": \[1, 2/"dilations": [1, 3/' model.nam >other.nam
unplayable other.nam 'another network'
sed 's/"weights": \[[^,]*, /"weights": [/' model.nam >short.nam
unplayable short.nam 'damaged'
sed 's/"weights": \[[^,]*,/"weights": [nan,/' model.nam >nan.nam
unplayable nan.nam 'damaged'
unplayable absent.nam 'cannot be read'
{ head -c 24 dry.wav && printf '\104\254\000\000' && tail -c +29 dry.wav; } >rate.wav # 44,100
"$program" --play model.nam rate.wav never.wav --device "$device" 2>error && no 'a signal of another rate was played'
grep -q 'has 44100 samples a second, the model needs 48000' error || no "another rate: $(cat error)"

# ---- recordings that cannot be learned from ----
# refused DRY WET TEXT
refused() {
    "$program" "$1" "$2" never.nam --epochs 1 --device "$device" >out 2>error && no "$1 and $2 were accepted"
    [ "$(wc -l <error)" -eq 1 ] && grep -q "^amplifier: .*$3" error || no "$1, $2: no '$3' in: $(cat error)"
    [ ! -e never.nam ] || no "$1 and $2 leave a model"
}
samples() { tail -c +45 "$1"; }
begin() { head -c 44 dry16.wav; }
size=$(samples dry16.wav | wc -c)
zeros() { head -c "$1" /dev/zero; }
{ begin && zeros "$size"; } >silent.wav
{ begin && samples wet16.wav | head -c 50000 && printf '\377\177\377\177\377\177\377\177' && samples wet16.wav | tail -c +50009; } >clipped.wav
{ begin && samples wet16.wav | tail -c +2001 && zeros 2000; } >ahead.wav
{ begin && samples wet16.wav | head -c $((size / 10 * 8)) && zeros $((size - size / 10 * 8)); } >ends.wav
{ head -c 24 dry.wav && printf '\143\000\000\000' && tail -c +29 dry.wav; } >slow.wav
{ head -c 24 dry.wav && printf '\377\377\377\377' && tail -c +29 dry.wav; } >fast.wav
{ head -c 22 dry.wav && printf '\002' && tail -c +24 dry.wav; } >stereo.wav
{ head -c 20 dry.wav && printf '\002' && tail -c +22 dry.wav; } >adpcm.wav
{ head -c 34 dry.wav && printf '\010' && tail -c +36 dry.wav; } >eight.wav
{ head -c 44 dryfloat.wav && printf '\000\000\300\177' && tail -c +49 dryfloat.wav; } >nan.wav
head -c 1000 wet.wav >cut.wav
head -c 44 wet.wav >empty.wav
printf 'RIFF and nothing else' >text.wav
"$program" --make longer.wav other.wav --seconds 3
refused dry.wav rate.wav 'rate.wav: has 44100 samples a second, the dry signal 48000'
refused dry.wav other.wav 'other.wav: has 144000 samples, the dry signal 96000'
refused silent.wav wet16.wav 'silent.wav: is silent'
refused dry16.wav silent.wav 'silent.wav: is silent'
refused dry16.wav clipped.wav 'clipped.wav: clips after 0.521 s'
refused dry16.wav ahead.wav 'ahead.wav: is [0-9]* samples ([0-9.]* ms) ahead'
refused dry16.wav ends.wav 'ends.wav: the last tenth, which is held out, is silent'
refused slow.wav wet.wav 'slow.wav: has 99 samples a second: 1000 to 384000 are possible'
refused fast.wav wet.wav 'fast.wav: has 4294967295 samples a second'
refused dry.wav stereo.wav 'stereo.wav: has 2 channels'
refused dry.wav adpcm.wav 'adpcm.wav: is compressed'
refused dry.wav eight.wav 'eight.wav: has samples of another size'
refused nan.wav wet.wav 'nan.wav: sample 1 is not finite'
refused dry.wav cut.wav 'cut.wav: ends within its samples'
refused dry.wav empty.wav 'empty.wav: ends within its samples'
refused dry.wav text.wav 'text.wav: is no WAV file'
refused absent.wav wet.wav 'absent.wav: cannot be opened'
refused dry.wav . '\.: cannot be read'
"$program" dry.wav wet.wav no/folder.nam --epochs 1 --device host:99 2>error && no 'host:99 was found'
grep -q '^amplifier: ' error || no "host:99: $(cat error)"
"$program" dry.wav wet.wav 2>error && no 'two files were enough'
grep -q '^usage: ' error || no "two files: $(cat error)"
"$program" dry.wav wet.wav model.nam --epochs none 2>error && no '--epochs none was accepted'
grep -q '^amplifier: --epochs none: a whole number from 1 to 10000 is needed' error || no "--epochs none: $(cat error)"

for option in '--epochs 1.5' '--batch 2.7' '--seed 0.5'; do
    # shellcheck disable=SC2086
    "$program" dry.wav wet.wav never.nam $option --device "$device" >out 2>error && no "$option was accepted"
    grep -q "^amplifier: $option: a whole number from [01] to" error || no "$option: $(cat error)"
done
# ---- an option of another use, and two uses ----
"$program" --play model.nam dry.wav never.wav --epochs 3 2>error && no '--play takes --epochs'
grep -q '^amplifier: --play does not take --epochs$' error || no "--play --epochs: $(cat error)"
"$program" --make never.wav other.wav --play 2>error && no 'two uses are taken'
grep -q '^amplifier: --play after --make: give one of them, once$' error || no "two uses: $(cat error)"
"$program" --help >out 2>error || no "--help: code $?"
[ ! -s error ] && grep -q '^usage: amplifier DRY.wav' out || no "--help: $(cat out error)"

# ---- names that would overwrite a file of the same command ----
# kept FILE WHAT NEW ARGUMENT...
kept() {
    file=$1 what=$2 new=$3
    shift 3
    cksum dry.wav wet.wav model.nam >before
    timeout 60 "$program" "$@" >out 2>error
    [ $? -eq 2 ] || no "$*: accepted"
    [ "$(cat error)" = "amplifier: $file: is $what; give another name for $new" ] || no "$*: $(cat error)"
    cksum dry.wav wet.wav model.nam | cmp -s - before || no "$*: a file was overwritten"
}
ln -s wet.wav link.wav
few="--epochs 1 --device $device"
# shellcheck disable=SC2086
{
    kept dry.wav 'the dry recording' 'the model' dry.wav wet.wav dry.wav $few
    kept ./wet.wav 'the wet recording' 'the model' dry.wav wet.wav ./wet.wav $few
    kept link.wav 'the wet recording' 'the output' dry.wav wet.wav never.nam --output link.wav $few
    kept dry.wav 'the dry recording' 'the figure' dry.wav wet.wav never.nam --figure dry.wav $few
    kept never.nam 'the model' 'the output' dry.wav wet.wav never.nam --output never.nam $few
    kept dry.wav 'the dry recording' 'the output' --play model.nam dry.wav dry.wav --device "$device"
    kept model.nam 'the model' 'the output' --play model.nam dry.wav model.nam --device "$device"
    kept dry.wav 'the dry recording' 'the wet recording' --make dry.wav dry.wav --seconds 2
}
[ ! -e never.nam ] || no 'a refused command leaves a model'

# ---- a recording that begins late ----
{ begin && zeros 960 && samples wet16.wav | head -c $((size - 960)); } >late.wav
"$program" dry16.wav late.wav late.nam --epochs 1 --device "$device" >out 2>error || no "a late recording: $(cat error)"
grep -q '^delay: 48[0-9] samples (10.[0-9] ms); the wet signal is moved 46[0-9] samples earlier$' out || no "no delay in: $(cat out)"

[ $failed -eq 0 ] && echo "the amplifier is captured: $(grep -c . model.nam) line"
exit $failed
