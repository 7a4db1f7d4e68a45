#!/bin/sh
# SPDX-License-Identifier: MIT
# denoiser.sh DENOISER DEVICE: the application of examples/apps/denoiser. The network removes noise from held-out pictures,
# its ONNX file computes what it computed, a picture of another size is denoised by it, and wrong files and options are
# refused with a line that says why.
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

# ---- pictures ----
"$program" --make clean.pgm noisy.pgm --seed 9 || no "no pictures: code $?"
"$program" --make again.pgm noisy_again.pgm --seed 9 || no 'no second pictures'
cmp clean.pgm again.pgm && cmp noisy.pgm noisy_again.pgm || no 'pictures that are made again differ'
"$program" --make other.pgm noisy_other.pgm --seed 8 && ! cmp -s clean.pgm other.pgm || no 'another seed gives the same picture'
"$program" --make clean.pgm quiet.pgm --seed 9 --photons 1000000 --read-noise 0 || no 'no picture without noise'
# A picture of 256 x 256 and 16 bits has a header of 17 bytes.
[ "$(wc -c <clean.pgm)" -eq 131089 ] || no "clean.pgm has $(wc -c <clean.pgm) bytes"

# ---- training ----
few="--epochs 2 --patches 64 --batch 4 --device $device"
# shellcheck disable=SC2086
timeout 500 "$program" model.onnx $few --figure figure.png >out 2>error
code=$?
if [ $code -ne 0 ] && grep -q 'writes no ONNX files' error; then
    [ ! -e model.onnx ] || no 'a file is left'
    [ $failed -eq 0 ] && echo 'skipped: this build writes no ONNX files' && exit 77
    exit 1
fi
[ $code -eq 0 ] || no "training: code $code: $(cat error)"
awk '/^held-out/ { gsub(":", ""); noisy = $4; network = $(NF - 4); gain = $(NF - 1) }
     END { exit !(noisy > 15 && gain > 4 && network - noisy > gain - 0.02 && network - noisy < gain + 0.02) }' out ||
    no "the gain is not above 4 dB: $(cat out error)"
awk '/^model.onnx: largest difference/ { n++; if ($NF <= 1e-5) good++ } END { exit !(n == 1 && good == 1) }' out ||
    no "the file computes something else: $(cat out)"
head -c 8 figure.png | od -An -tx1 | grep -q '89 50 4e 47 0d 0a 1a 0a' || no 'figure.png is no PNG file'

# ---- applying ----
"$program" --apply model.onnx noisy.pgm denoised.pgm --device "$device" || no "--apply: code $?"
[ "$(wc -c <denoised.pgm)" -eq 131089 ] || no "denoised.pgm has $(wc -c <denoised.pgm) bytes"
printf 'P5\n# a comment\n3 2\n255\n\000\100\200\300\377\020' >small.pgm
"$program" --apply model.onnx small.pgm small_out.pgm --device "$device" || no 'a picture of 3 x 2 is refused'
head -c 16 small_out.pgm | tr '\n' ' ' | grep -q '^P5 3 2 65535 ' || no 'another size than 3 x 2'

# ---- own pictures ----
# shellcheck disable=SC2086
timeout 500 "$program" own.onnx clean.pgm other.pgm --epochs 1 --patches 16 --batch 4 --device $device >out 2>error || no "own pictures: $(cat error)"
grep -q '^own.onnx: largest difference' out || no "own pictures: $(cat out)"
# shellcheck disable=SC2086
timeout 500 "$program" again.onnx clean.pgm other.pgm --epochs 1 --patches 16 --batch 4 --device $device >out 2>&1 || no "again: $(cat out)"
cmp own.onnx again.onnx || no 'the same training gives another file'

# ---- what is refused ----
# refused CODE TEXT ARGUMENTS...
refused() {
    code=$1 text=$2
    shift 2
    timeout 100 "$program" "$@" >out 2>error
    [ $? -eq "$code" ] || no "$*: another exit code than $code: $(cat error)"
    grep -q "^denoiser: .*$text" error || no "$*: no '$text' in: $(cat error)"
    [ ! -e never.onnx ] && [ ! -e never.pgm ] && [ ! -e never.png ] || no "$*: leaves a file"
}
printf 'P5\n3 2\n255\nabc' >short.pgm
printf 'P2\n3 2\n255\n1 2 3 4 5 6\n' >text.pgm
printf 'P5\n3 2\n99\n\000\001\377\003\004\005' >above.pgm
refused 1 'does not have the pixels' --apply model.onnx short.pgm never.pgm
refused 1 'does not have the pixels' --apply model.onnx above.pgm never.pgm
refused 1 'no binary PGM' --apply model.onnx text.pgm never.pgm
refused 1 'cannot be read' --apply model.onnx absent.pgm never.pgm
refused 1 'ONNX' --apply noisy.pgm noisy.pgm never.pgm
refused 1 'cannot be written' --apply model.onnx noisy.pgm absent/never.pgm
refused 1 'is 3 x 2; at least 64 x 256 are needed' never.onnx small.pgm
refused 1 'host:99' never.onnx --device host:99
refused 2 'epochs none: a whole number from 1 to 10000' never.onnx --epochs none
refused 2 'photons 0: a number from 1' never.onnx --photons 0
refused 2 'photons nan: a number from 1' never.onnx --photons nan
refused 2 '--colour is unknown' never.onnx --colour 3
refused 2 '--seed is unknown or has no value' never.onnx --seed
refused 2 '--apply does not take --epochs' --apply model.onnx noisy.pgm never.pgm --epochs 3
refused 2 '--apply does not take --photons' --photons 20 --apply model.onnx noisy.pgm never.pgm
refused 2 '--apply does not take --seed' --apply model.onnx noisy.pgm never.pgm --seed 1
refused 2 '--apply does not take --figure' --apply model.onnx noisy.pgm never.pgm --figure never.png
refused 2 '--make does not take --device' --make never.pgm other.pgm --device host:0
refused 2 '--make does not take --figure' --make never.pgm other.pgm --figure never.png
refused 2 '--make does not take --epochs' --make never.pgm other.pgm --epochs 3
refused 2 '--make after --apply: give one' --apply --make never.pgm other.pgm
refused 2 '--batch 32 is more than the 16 patches' never.onnx --batch 32 --patches 16
# What cannot be written is found before the training, which would take longer than the limit of `refused`.
refused 1 'absent/never.onnx: cannot be written' absent/never.onnx --epochs 10000
refused 1 'absent/never.png: cannot be written' never.onnx --epochs 10000 --figure absent/never.png
refused 1 ': is a folder; name a file' never.onnx --epochs 10000 --figure "$work"
refused 2 'named twice' never.onnx --figure ./never.onnx
cksum clean.pgm model.onnx noisy.pgm >before
refused 2 'named twice' model.onnx --figure ./model.onnx
[ ! -c /dev/full ] || refused 1 '/dev/full: cannot be written' --apply model.onnx small.pgm /dev/full
[ ! -e /dev/full ] || [ -c /dev/full ] || no '/dev/full was replaced'
mkdir full && cp noisy.pgm full/noisy.pgm && cp noisy.pgm full/kept.pgm
(ulimit -f 100 && trap '' XFSZ && "$program" --make full/kept.pgm full/other.pgm 2>error) && no 'a file above the limit is written'
grep -q 'kept.pgm: cannot be written' error || no "no room for kept.pgm: $(cat error)"
cmp noisy.pgm full/kept.pgm || no 'an error of writing loses the earlier picture'
[ "$(ls full | wc -l)" -eq 2 ] || no "an error of writing leaves files: $(ls full)"
refused 2 'named twice' --apply model.onnx noisy.pgm noisy.pgm
refused 2 'named twice' --apply model.onnx noisy.pgm ./model.onnx
refused 2 'named twice' --make clean.pgm ./clean.pgm
refused 2 'named twice' clean.pgm clean.pgm
refused 2 'named twice' never.onnx clean.pgm --figure clean.pgm
cksum clean.pgm model.onnx noisy.pgm | cmp -s - before || no 'a file was overwritten'
"$program" --help >out 2>error && grep -q '^usage: denoiser MODEL.onnx' out && [ ! -s error ] || no '--help'
"$program" >out 2>error
[ $? -eq 2 ] && grep -q '^usage' error || no 'no arguments: another result than the usage'

[ $failed -eq 0 ] && echo 'the denoiser denoises'
exit $failed
