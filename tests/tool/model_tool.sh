#!/bin/sh
# SPDX-License-Identifier: MIT
# Weights in files: `copse train --init`, `copse info`, `copse export`. Good runs; damaged and hostile files, which give one
# line on standard error, exit code 2, and leave nothing behind.
# usage: model_tool.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
host="--devices host --epochs 2"

# number N BYTES: N as little-endian bytes
number() {
    n=$1 i=0
    while [ $i -lt "$2" ]; do
        printf "\\$(printf %03o $((n % 256)))"
        n=$((n / 256)) i=$((i + 1))
    done
}
# st FILE HEADER [DATA]: a file with this header; DATA in printf's form
st() {
    { number ${#2} 8; printf %s "$2"; printf "${3:-}"; } >"$1"
}

# ---- weights to start from ----
"$copse" train $host --quiet --save "$work/a.safetensors" >/dev/null || no 'no weights'
good init '6 of 6 variables' train $host --init "$work/a.safetensors"
grep -q 'set: dense1.weight, dense1.bias, ' "$work/stdout" || no "init: $(cat "$work/stdout")"
good 'init json' '^\{"event":"init",.*"matched":\["dense1.weight",.*"missing":\[\],"unused":\[\],"converted":0\}$' \
    train $host --json --init "$work/a.safetensors"
head -1 "$work/stdout" | grep -q '"event":"start"' || no 'the first event is not start'
st "$work/x" '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' '\000'
# The weights are those of the file: no training, and evaluation agrees with the run that wrote them.
"$copse" train $host --quiet >"$work/first" && "$copse" train --devices host --epochs 1 --lr 1e-30 --quiet \
    --init "$work/a.safetensors" >"$work/second"
[ "$(head -1 "$work/first")" = "$(head -1 "$work/second")" ] ||
    no "init has other weights: $(head -1 "$work/first") $(head -1 "$work/second")"
# Some variables; the others keep their initial values. Another name in the file is not used.
st "$work/some" '{"dense1.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"other":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}' \
    '\000\000\000\000\000\000\000\000\000\000\000\000'
good 'init of some' '1 of 4 variables' train $host --model mlp:2 --init "$work/some"
grep -q 'not in the file: dense1.weight, dense2.weight, dense2.bias$' "$work/stdout" || no "missing: $(cat "$work/stdout")"
grep -q 'not used: other$' "$work/stdout" || no "unused: $(cat "$work/stdout")"
# f16 is converted: 0x3c00 is 1
st "$work/half" '{"dense1.bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}' '\000\074\000\074'
good 'init from f16' '1 of 4 variables, 1 converted to F32' train $host --model mlp:2 --init "$work/half"
# A run on parameter servers, of two replicas, and one that is resumed.
good 'init with servers' '6 of 6' train $host --strategy parameter_server --init "$work/a.safetensors"
good 'init of replicas' '6 of 6' train --epochs 1 --devices host:0,host:0 --init "$work/a.safetensors"
good 'init and resume' '6 of 6' train $host --init "$work/a.safetensors" --checkpoint "$work/points" --resume
good 'init and resume again' 'resumed ' train $host --init "$work/a.safetensors" --checkpoint "$work/points" --resume

save="--save $work/out/p.safetensors"
bad 'init of another shape' "'dense2.weight' is F32 \[128, 64\], the variable is F32 \[128, 32\]" \
    train $host $save --model mlp:128,32 --init "$work/a.safetensors"
bad 'init in the wrong layout' 'without that it would fit' train $host $save --init "$work/a.safetensors" --init-layout torch
bad 'init of nothing' "no array with the name of a variable: it has 'x'" train $host $save --init "$work/x"
bad 'init of no file' 'nowhere' train $host $save --init "$work/nowhere"
bad 'init layout alone' '--init-layout belongs to --init' train $host $save --init-layout torch
bad 'init is save' "'.*' is the file of --init" train $host --init "$work/a.safetensors" --save "$work/a.safetensors"
st "$work/ints" '{"dense1.bias":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}' '\000\000\000\000\000\000\000\000'
bad 'init from integers' "'dense1.bias' is I32, the variable is F32" train $host $save --model mlp:2 --init "$work/ints"
st "$work/nan" '{"dense1.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' '\000\000\000\000\000\000\300\177'
bad 'init from NaN' "'dense1.bias' is NaN at element 1" train $host $save --model mlp:2 --init "$work/nan"
# A file of PyTorch's: its layout must be said. dense1.weight is [2, 64] there.
zeros=$(printf '\\000%.0s' $(seq 512))
st "$work/torch" '{"__metadata__":{"format":"pt"},"dense1.weight":{"dtype":"F32","shape":[2,64],"data_offsets":[0,512]}}' "$zeros"
bad 'init from PyTorch' '"format": "pt".*--init-layout copse or torch' train $host $save --model mlp:2 --init "$work/torch"
good 'init from PyTorch with its layout' '1 of 4' train $host --model mlp:2 --init "$work/torch" --init-layout torch

# ---- info ----
st "$work/x" '{"__metadata__":{"note":"two\nlines \u001b[31m"},"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"x/m":{"dtype":"F32","shape":[],"data_offsets":[24,28]},"application/n":{"dtype":"U8","shape":[1],"data_offsets":[28,29]}}' \
    "$(printf '\\000%.0s' $(seq 29))"
good info '^ *x +F32 +\[2, 3\] +6$' info "$work/x"
head -1 "$work/stdout" | grep -q ': 6 parameters, 3 arrays, ' || no "info: $(head -1 "$work/stdout")"
grep -q '^2 of the arrays are slots' "$work/stdout" || no 'slots are parameters'
grep -q '^ *note  two$' "$work/stdout" && grep -q '^ *lines ?\[31m$' "$work/stdout" || no "metadata: $(cat "$work/stdout")"
good 'info json' '^\{"path":".*","bytes":[0-9]+,"parameters":6,"arrays":\[\{"name":"x","type":"F32","shape":\[2,3\],"elements":6\},.*"metadata":\{"note":"two\\nlines \\u001b\[31m"\}\}$' \
    info "$work/x" --json
good 'info of weights' '17226 parameters, 6 arrays' info "$work/a.safetensors"
good 'info of a checkpoint' 'format +copse-checkpoint-1' info "$work/points/$(ls "$work/points" | tail -1)"
head -1 "$work/stdout" | grep -q ': 17226 parameters, 20 arrays' || no "info of a checkpoint: $(head -1 "$work/stdout")"
bad 'info of nothing' 'which file' info
bad 'info of two' 'which file' info "$work/x" "$work/x"
bad 'info of no file' 'nowhere' info "$work/nowhere"
bad 'info of a folder' 'out' info "$work/out"
bad 'export of nothing' 'which file' export --npy out
bad 'export to nowhere' '--npy DIR' export "$work/x"

# ---- hostile files: every command that reads one says a line ----
mkdir "$work/hostile"
cd "$work/hostile" || exit 1
: >empty
printf 'no safetensors at all' >text
{ number 99999999 8; printf '{}'; } >huge_header
printf '\377\377\377\377\377\377\377\377{}' >largest_header
head -c 3000 "$work/a.safetensors" >cut
{ cat "$work/a.safetensors"; printf x; } >longer
st no_json '{"x":'
st deep '{"x":{"a":{"b":{"c":{"d":1}}}}}'
st array_root '[1,2]'
st unknown_type '{"x":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}}' '\000\000\000\000'
st overlap '{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' '\000\000\000'
st gap '{"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' '\000\000'
st twice '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' '\000\000'
st wrong_size '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}' '\000\000\000\000'
st overflow '{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}' '\000\000\000\000'
st negative '{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}' '\000\000\000\000'
st fraction '{"x":{"dtype":"F32","shape":[0.5],"data_offsets":[0,4]}}' '\000\000\000\000'
st number_metadata '{"__metadata__":{"a":1}}'
st extra_field '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}}' '\000'
st no_utf8 "$(printf '{"\377":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')" '\000'
mkfifo pipe
for file in *; do
    bad "info of $file" '^copse: ' info "$work/hostile/$file"
    bad "export of $file" '^copse: ' export "$work/hostile/$file" --npy npy
    bad "init from $file" '^copse: ' train $host $save --init "$work/hostile/$file"
done
cd "$work" || exit 1

# ---- export ----
st names '{"a/b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},".h":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"":{"dtype":"I16","shape":[],"data_offsets":[11,13]},"../up":{"dtype":"BOOL","shape":[0,2],"data_offsets":[13,13]},"z":{"dtype":"BF16","shape":[1,1],"data_offsets":[13,15]}}' \
    '\001\002\003\004\005\006\007\010\011\012\013\014\015\200\077'
good export '^5 arrays: npy$' export "$work/names" --npy npy
[ "$(ls -A out/npy | tr '\n' ' ')" = '%.npy %2E.%2Fup.npy %2Eh.npy a%2Fb.npy z.npy ' ] || no "files: $(ls -A out/npy)"
# npy FILE DESCR SHAPE: checks its header of 128 bytes; its elements on standard output
npy() {
    [ "$(head -c 10 "$1" | od -An -tx1 | tr -d ' ')" = 934e554d505901007600 ] || echo "no npy: $1"
    [ "$(head -c 128 "$1" | tail -c +11 | sed 's/ *$//')" = "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" ] ||
        echo "header: $(head -c 128 "$1")"
    tail -c +129 "$1" | od -An -tx1 | tr -d ' \n'
}
[ "$(npy out/npy/a%2Fb.npy '<f4' '2,')" = 0102030405060708 ] || no "a/b: $(npy out/npy/a%2Fb.npy '<f4' '2,')"
[ "$(npy out/npy/%2Eh.npy '|u1' '3,')" = 090a0b ] || no '.h'
[ "$(npy out/npy/%.npy '<i2' '')" = 0c0d ] || no 'the array without a name'
[ "$(npy out/npy/%2E.%2Fup.npy '|b1' '0, 2,')" = '' ] || no 'the empty array'
[ "$(npy out/npy/z.npy '<f4' '1, 1,')" = 0000803f ] || no 'bf16 is no f32'
# Nothing is overwritten without --force, and then nothing is written.
rm out/npy/z.npy
printf old >out/npy/a%2Fb.npy
(cd out && "$copse" export "$work/names" --npy npy) 2>stderr
[ $? -eq 2 ] && grep -q 'exists; --force' stderr && [ "$(cat out/npy/a%2Fb.npy)" = old ] && [ ! -e out/npy/z.npy ] ||
    no "export over a file: $(cat stderr)"
good 'export with force' '^5 arrays' export "$work/names" --npy npy/ --force
[ "$(ls -A out/npy | wc -l)" -eq 5 ] && [ "$(npy out/npy/a%2Fb.npy '<f4' '2,')" = 0102030405060708 ] || no 'force'
rm out/npy/z.npy out/npy/a%2Fb.npy out/npy/%*
printf mine >out/npy/mine
good 'export beside other files' '^5 arrays' export "$work/names" --npy npy
[ "$(ls -A out/npy | wc -l)" -eq 6 ] && [ "$(cat out/npy/mine)" = mine ] || no "other files: $(ls -A out/npy)"
rm -rf out; mkdir out
st long "{\"$(printf 'x%.0s' $(seq 300))\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" '\000'
bad 'export of a long name' 'too long for a file' export "$work/long" --npy npy
bad 'export to a file' 'not a folder' export "$work/names" --npy "$work/long"
bad 'export below nothing' 'cannot make the folder' export "$work/names" --npy nowhere/npy
# The disk is full in the middle: the limit is on the size of a file.
st big "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[4000],\"data_offsets\":[1,4001]}}" \
    "$(printf '\\000%.0s' $(seq 4001))"
(ulimit -f 1 && cd out && "$copse" export "$work/big" --npy npy) >stdout 2>stderr
[ $? -eq 2 ] && [ "$(wc -l <stderr)" -eq 1 ] && [ -z "$(ls -A out)" ] || no "a full disk: $(cat stderr) $(ls -A out)"

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
