#!/bin/sh
# SPDX-License-Identifier: MIT
# pictures.sh COPSE MAKE_PICTURES DIGITS: the command on folders of pictures. The digits as PNG files train to the same bits as
# the digits as IDX files; damaged pictures and wrong folders are exit code 2, one line with the file, and no file is written.
set -u
copse=$1 digits=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
"$2" "$digits" "$work"
code=$?
[ $code -eq 0 ] || { [ $code -eq 77 ] && echo "skipped: this build reads no pictures (libpng and libjpeg-turbo were not found)"; exit $code; }
png=$work/png
one=$(ls -d "$png"/3/* | head -n 1)

train() { "$copse" train --devices host:0 --model mlp:32 --epochs 8 --lr 0.01 --json "$@" >"$work/json" 2>&1 || no "train $*: $(cat "$work/json")"; }
field() { sed -n "\$s/.*\"$1\":\([-0-9.e]*\).*/\1/p" "$work/json"; }
share() { # the part of the time in which steps waited for data
    awk -v s="$(field data_wait)" 'BEGIN { exit !(s != "" && s + 0 >= 0 && s + 0 <= 1) }' || no "$1: data_wait is '$(field data_wait)'"
}

# ---- the same bits as IDX ----
train --data "$work/idx" --save "$work/idx.safetensors"; share idx
accuracy=$(field accuracy)
train --data "$png" --save "$work/png.safetensors"; share png
[ "$(field accuracy)" = "$accuracy" ] || no "PNG: accuracy $(field accuracy), IDX: $accuracy"
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.9) }' || no "accuracy $accuracy"
cmp "$work/idx.safetensors" "$work/png.safetensors" || no "PNG and IDX train to different models"
train --data "$work/jpeg" --epochs 24; share jpeg
awk -v a="$(field accuracy)" 'BEGIN { exit !(a > 0.9) }' || no "JPEG: accuracy $(field accuracy)"

# ---- augmentation: the same bits from PNG and from IDX fed ahead, and after a resume; another result than without ----
train --data "$png" --augment "shift 1; brightness 10" --save "$work/a.safetensors"
train --data "$work/idx" --augment "shift 1; brightness 10" --save "$work/b.safetensors" --prefetch 2
cmp "$work/a.safetensors" "$work/b.safetensors" || no "augmentation is not reproducible"
cmp -s "$work/a.safetensors" "$work/png.safetensors" && no "--augment changes nothing"
train --data "$png" --augment "shift 1; brightness 10" --epochs 4 --schedule constant --checkpoint "$work/run.safetensors"
train --data "$png" --augment "shift 1; brightness 10" --schedule constant --checkpoint "$work/run.safetensors" --resume --save "$work/a.safetensors"
train --data "$png" --augment "shift 1; brightness 10" --schedule constant --save "$work/b.safetensors"
"$copse" export "$work/a.safetensors" --npy "$work/a" >/dev/null && "$copse" export "$work/b.safetensors" --npy "$work/b" >/dev/null
for f in "$work"/a/dense*; do cmp "$f" "$work/b/$(basename "$f")" || no "a resumed run augments differently"; done

# ---- mixup: the same bits from PNG and from IDX fed ahead, other ones than without; what has none ----
mix='flip; mixup 0.3'
train --data "$png" --augment "$mix" --save "$work/a.safetensors"
train --data "$work/idx" --augment "$mix" --save "$work/b.safetensors" --prefetch 2
cmp "$work/a.safetensors" "$work/b.safetensors" || no "mixup is not reproducible"
train --data "$png" --augment flip --save "$work/b.safetensors"
cmp -s "$work/a.safetensors" "$work/b.safetensors" && no "mixup changes nothing"
bad mixup_regression 'mixup mixes classes' train --data "$work/idx" --task regression --devices host:0 --model mlp:32 --augment "$mix"
bad mixup_weights 'mixup needs it without weights=' train --data "$png" --devices host:0 --model mlp:32 --augment "$mix" \
    --loss "cross_entropy weights=balanced"
bad other_augment 'was made with --augment=shift 1; brightness 10, now it is --augment=flip' train --data "$png" --devices host:0 \
    --model mlp:32 --schedule constant --epochs 8 --lr 0.01 --checkpoint "$work/run.safetensors" --resume --augment flip
rm "$one"
bad other_data 'was made with --data=1797 examples .*, now it is --data=1796 examples' train --data "$png" --devices host:0 \
    --model mlp:32 --schedule constant --epochs 8 --lr 0.01 --checkpoint "$work/run.safetensors" --resume --augment "shift 1; brightness 10"

# ---- use ----
one=$(ls -d "$png"/3/* | head -n 1)
good train_says "pictures: 8 x 8, grey; resized; changed while training: flip" train --data "$png" --resize 8x8 --augment flip \
    --devices host:0 --epochs 1
good small '"event":"done"' train --data "$png" --resize 6x6 --devices host:0 --epochs 1 --save "$work/small.safetensors" --json
good info '"resize":"bilinear"' info "$work/small.safetensors"
good predict_file "^$one,3," predict "$work/png.safetensors" "$one" --devices host:0
good predict_resized "^$one,[0-9]," predict "$work/small.safetensors" "$one" --devices host:0
mkdir "$work/mine" && cp "$png"/7/00*.png "$work/mine"
good predict_folder "\"file\":\"$work/mine/00[0-9]*.png\",\"class\":\"7\"" predict "$work/png.safetensors" "$work/mine" --json --devices host:0
mkdir "$work/named" && cp -r "$work/mine" "$work/named/unknown"
good predict_unknown "^$work/named/unknown/00[0-9]*.png,7," predict "$work/png.safetensors" "$work/named" --devices host:0
good evaluate "^  $png/[0-9]/[0-9]*.png .[0-9.]*.$" evaluate "$work/png.safetensors" "$png" --devices host:0
good evaluate_json "\"file\":\"$png/" evaluate "$work/png.safetensors" "$png" --json --devices host:0

# ---- hostile ----
# hostile NAME PATTERN [OPTION...]: `copse train` on the folder $work/h
hostile() {
    name=$1 pattern=$2
    shift 2
    bad "$name" "$pattern" train --devices host:0 --data "$work/h" --save p.safetensors --plot p.svg --checkpoint c "$@"
}
begin() { rm -rf "$work/h"; mkdir "$work/h"; for c in 0 1; do mkdir "$work/h/$c"; cp "$png/$c"/00*.png "$work/h/$c"; done; }
begin; head -c 70 "$one" >"$work/h/1/cut.png"; hostile cut_png '/h/1/cut.png is a damaged PNG: the file is cut off'
begin; head -c 300 "$(ls -d "$work"/jpeg/3/* | head -n 1)" >"$work/h/1/cut.jpg"; hostile cut_jpeg '/h/1/cut.jpg is a damaged JPEG'
begin; { head -c 45 "$one"; printf U; tail -c +47 "$one"; } >"$work/h/1/crc.png"; hostile crc '/h/1/crc.png is a damaged PNG'
begin; : >"$work/h/1/empty.png"; hostile empty '/h/1/empty.png is not a picture'
begin; echo hello >"$work/h/1/text.png"; hostile text '/h/1/text.png is not a picture .PNG or JPEG.'
begin; printf 'GIF89a\1\0\1\0' >"$work/h/1/a.gif"; hostile gif '/h/1/a.gif is not a picture'
begin; printf '\211PNG\r\n\032\n\0\0\0\rIHDR\177\377\377\377\177\377\377\377\b\0\0\0\0' >"$work/h/1/bomb.png"
hostile bomb '/h/1/bomb.png is a damaged PNG' # the file is shorter than the checksum
begin; printf '\377\330\377\300\0\013\b\377\377\377\377\001\001\021\0\377\332\0\b\001\001\0\0\077\0' >"$work/h/1/bomb.jpg"
hostile bomb_jpeg '/h/1/bomb.jpg (has 65535 x 65535 pixels|is a damaged JPEG)'
begin; mkdir "$work/h/2"; hostile empty_class 'class folder .*/h/2 contains no pictures'
begin; mkdir "$work/h/2"; echo x >"$work/h/2/notes"; hostile no_pictures '/h/2/notes is not a picture'
begin; rm -r "$work/h/1"; hostile one_class 'all labels are "0"'
begin; mkdir "$work/h/1/more"; hostile nested 'class folder .*/h/1 contains the folder more'
begin; ln -s nowhere "$work/h/1/z.png"; hostile dangling '/h/1/z.png'
begin; cp "$one" "$work/h"; hostile beside '/h/.*png is beside class folders, such as 0'
begin; mkfifo "$work/h/1/pipe.png"; hostile pipe '/h/1/pipe.png is not a regular file'
begin; hostile resize_word "resize is '8by8', not WIDTHxHEIGHT" --resize 8by8
begin; hostile augment_word "augment: 'spin' is no step" --augment spin
begin; hostile scale 'leave out scale' --scale max
rm -rf "$work/h"; mkdir "$work/h"; hostile nothing 'no IDX pair .* and no pictures'
cp "$work"/mine/* "$work/h"; hostile no_classes 'the pictures have no classes: give a folder with one sub-folder per class'
bad resize_of_csv 'resize is for pictures' train --devices host:0 --resize 8x8
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
