#!/bin/sh
# SPDX-License-Identifier: MIT
# Weights and models in files: `copse train --init` and `--save`, `copse info`, `copse export`, `copse predict`,
# `copse evaluate`. Good runs; damaged and hostile files, which give one
# line on standard error, exit code 2, and leave nothing behind.
# usage: model_tool.sh COPSE DIGITS.csv.gz
set -u
copse=$1
digits=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
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
grep -q ': took dense1, dense2, dense3 (6 of 6 variables)$' "$work/stdout" || no "init: $(cat "$work/stdout")"
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
grep -q 'not in the file: dense1.weight, dense2$' "$work/stdout" || no "missing: $(cat "$work/stdout")"
grep -q 'not used: other$' "$work/stdout" || no "unused: $(cat "$work/stdout")"
# f16 is converted: 0x3c00 is 1
st "$work/half" '{"dense1.bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}' '\000\074\000\074'
good 'init from f16' '1 of 4 variables, 1 converted to f32' train $host --model mlp:2 --init "$work/half"
# A run on parameter servers, of two replicas, and one that is resumed.
good 'init with servers' '6 of 6' train $host --strategy parameter_server --init "$work/a.safetensors"
good 'init of replicas' '6 of 6' train --epochs 1 --devices host:0,host:0 --init "$work/a.safetensors"
good 'init and resume' '6 of 6' train $host --init "$work/a.safetensors" --checkpoint "$work/points" --resume
good 'init and resume again' 'resumed ' train $host --init "$work/a.safetensors" --checkpoint "$work/points" --resume

save="--save $work/out/p.safetensors"
bad 'init of another shape' "'dense2.weight' is f32 \[128, 64\], the variable is f32 \[128, 32\]" \
    train $host $save --model mlp:128,32 --init "$work/a.safetensors"
bad 'init in the wrong layout' 'without that it would fit' train $host $save --init "$work/a.safetensors" --init-layout torch
bad 'init of nothing' "no array with the name of a variable: it has 'x'" train $host $save --init "$work/x"
bad 'init of no file' 'nowhere' train $host $save --init "$work/nowhere"
bad 'init layout alone' '--init-layout belongs to --init' train $host $save --init-layout torch
bad 'init is save' "'.*' is the file of --init" train $host --init "$work/a.safetensors" --save "$work/a.safetensors"
st "$work/ints" '{"dense1.bias":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}' '\000\000\000\000\000\000\000\000'
bad 'init from integers' "'dense1.bias' is i32, the variable is f32" train $host $save --model mlp:2 --init "$work/ints"
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
good info '^ *x +f32 +\[2, 3\] +6$' info "$work/x"
head -1 "$work/stdout" | grep -q ': 6 parameters, 3 arrays, ' || no "info: $(head -1 "$work/stdout")"
grep -q '^2 of the arrays are slots' "$work/stdout" || no 'slots are parameters'
grep -q '^ *note  two$' "$work/stdout" && grep -q '^ *lines ?\[31m$' "$work/stdout" || no "metadata: $(cat "$work/stdout")"
good 'info json' '^\{"path":".*","bytes":[0-9]+,"parameters":6,"arrays":\[\{"name":"x","type":"f32","shape":\[2,3\],"elements":6\},.*"metadata":\{"note":"two\\nlines \\u001b\[31m"\}\}$' \
    info "$work/x" --json
good 'info of a model' '17226 parameters, 8 arrays' info "$work/a.safetensors"
good 'info of a checkpoint' 'format +copse-checkpoint-1' info "$work/points/$(ls "$work/points" | tail -1)"
head -1 "$work/stdout" | grep -q ': 17226 parameters, 27 arrays' || no "info of a checkpoint: $(head -1 "$work/stdout")"
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

# ---- a model: trained here, used on rows without labels in another process ----
cd "$work" || exit 1
gzip -dc "$digits" >digits.csv
head -200 digits.csv | cut -d, -f1-64 >rows.csv
good 'train a model' 'model: +model.safetensors' train $host --save model.safetensors
mv out/model.safetensors .
good predict '^class,0,1,2,3,4,5,6,7,8,9$' predict "$work/model.safetensors" "$work/rows.csv" --devices host
cp stdout predictions.csv
[ "$(wc -l <predictions.csv)" -eq 201 ] || no "rows: $(wc -l <predictions.csv)"
good 'predict with labels, on the first of the devices' '^class,' predict "$work/model.safetensors" "$work/digits.csv" --devices host:0,host:0
head -201 stdout | cmp -s - predictions.csv || no 'labels change predictions'
good 'predict json' '^\{"row":200,"class":"[0-9]","probabilities":\{"0":.*\}\}$' \
    predict "$work/model.safetensors" "$work/rows.csv" --devices host --json
good 'predict to a file' '^200 rows: p.csv$' predict "$work/model.safetensors" "$work/rows.csv" --devices host --output p.csv
cmp -s out/p.csv predictions.csv || no 'the file differs from standard output'
rm -f out/p.csv
if command -v python3 >/dev/null; then
    python3 "$here/model_numpy.py" model.safetensors rows.csv predictions.csv
    code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || no 'NumPy computes other predictions'
else
    echo 'skipped: NumPy: there is no python3'
fi

# PyTorch's layout, there and back: the matrices are transposed, and the predictions are the same.
"$copse" export model.safetensors --npy npy >/dev/null || no 'export of a model'
cat >turn.awk <<'END'
{ for (i = 1; i <= NF; i++) byte[n++] = $i }
END { for (o = 0; o < columns; o++) for (i = 0; i < rows; i++) for (b = 0; b < 4; b++)
    printf "\\%s", byte[(i * columns + o) * 4 + b] }
END
# turned NAME ROWS COLUMNS: the transposed matrix
turned() {
    printf "$(tail -c +129 "npy/$1.npy" | od -An -v -to1 | awk -v rows="$2" -v columns="$3" -f turn.awk)"
}
{
    turned dense1.weight 64 128; tail -c +129 npy/dense1.bias.npy
    turned dense2.weight 128 64; tail -c +129 npy/dense2.bias.npy
    turned dense3.weight 64 10; tail -c +129 npy/dense3.bias.npy
} >turned
header='{"__metadata__":{"format":"pt"}' at=0
for entry in 'dense1.weight 128,64 32768' 'dense1.bias 128 512' 'dense2.weight 64,128 32768' 'dense2.bias 64 256' \
    'dense3.weight 10,64 2560' 'dense3.bias 10 40'; do
    set -- $entry
    header="$header,\"$1\":{\"dtype\":\"F32\",\"shape\":[$2],\"data_offsets\":[$at,$((at + $3))]}"
    at=$((at + $3))
done
header="$header}"
{ number ${#header} 8; printf %s "$header"; cat turned; } >torch.safetensors
good 'train from PyTorch' '6 of 6 variables' train --devices host --epochs 1 --lr 1e-30 --init "$work/torch.safetensors" \
    --init-layout torch --save back.safetensors
"$copse" predict out/back.safetensors rows.csv --devices host >stdout
cmp -s stdout predictions.csv || no 'the weights of PyTorch give other predictions'
rm -f out/back.safetensors

good evaluate '^[0-9.]+ % of the 1797 rows are right' evaluate "$work/model.safetensors" "$work/digits.csv" --devices host
grep -q '^  3  *183 ' stdout || no "no row of class 3: $(cat stdout)"
grep -q 'largest losses' stdout || no 'no worst rows'
good 'evaluate json' '"confusion":\[\[[0-9,]+\],.*\]' evaluate "$work/model.safetensors" "$work/digits.csv" --devices host --json
# The matrix adds up to all rows, and its diagonal to the accuracy.
awk '{ gsub(/.*"confusion":\[\[/, ""); gsub(/\]\].*/, ""); rows = split($0, row, /\],\[/)
       for (i = 1; i <= rows; i++) { split(row[i], cell, ","); for (k in cell) all += cell[k]; right += cell[i] }
       exit !(rows == 10 && all == 1797 && right > 1400) }' stdout || no "confusion: $(cat stdout)"
good 'evaluate plot' 'are right' evaluate "$work/model.safetensors" "$work/digits.csv" --devices host --quiet --plot c.svg
grep -q '</svg>' out/c.svg && [ "$(grep -c '<rect' out/c.svg)" -eq 102 ] || no 'the plot is not whole'
rm -f out/c.svg

# Names of classes and columns; a regression in the unit of its target.
awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 120; i++)
    printf "%d,%s,\"%s\"\n", i - i % 2, i % 2 ? "red" : "blue", i < 60 ? "small, light" : "large" }' >kinds.csv
awk 'BEGIN { print "colour,size"; print "blue,5"; print "red,110" }' >new.csv
"$copse" train --data kinds.csv --devices host --epochs 60 --quiet --save kinds.safetensors >/dev/null || no 'train on names'
good 'predict names' '^large,' predict "$work/kinds.safetensors" "$work/new.csv" --devices host
[ "$(head -2 stdout | tail -1 | cut -c1-15)" = '"small, light",' ] || no "names: $(cat stdout)"
awk 'BEGIN { print "a,price"; for (i = 0; i < 200; i++) printf "%d,%.2f\n", i, 1000 + 30 * i + 0.25 * (i % 3) }' >prices.csv
printf 'a\n10\n150\n' >ask.csv
"$copse" train --data prices.csv --devices host --epochs 100 --dropout 0 --quiet --save prices.safetensors >/dev/null || no 'train on prices'
good 'predict prices' '^price$' predict "$work/prices.safetensors" "$work/ask.csv" --devices host
awk 'NR == 2 { exit !($1 > 1100 && $1 < 1500) } NR == 3 && !($1 > 5200 && $1 < 5800) { exit 1 }' stdout || no "prices: $(cat stdout)"
# The layers, the columns with their scaling, the options and the epochs of a model.
good 'info of a table' '^dense2 64 relu +\[64\] +8,256$' info "$work/kinds.safetensors"
model='^  size +number +\(x - 59\) / 34\.6362'
for line in "$model" '^  colour +category +blue, red$' '^  kind +label' '^classes  large, small, light \(2\)$' '^task +classification of table data$' \
    '^trained .*optimizer adam, lr 0\.002, .*epochs 60, seed 1' '^ +60 +[0-9]+ +[0-9.]+ +[0-9.]+ %$' '^total +[0-9,]+$'; do
    grep -qE "$line" stdout || no "info of a table: no line $line: $(cat stdout)"
done
good 'info of prices' '^target +price = output \* [0-9.]+ \+ [0-9.]+$' info "$work/prices.safetensors"
grep -qE '^  epoch +step +held-out loss +R2 +mean error$' stdout || no "info of prices: $(cat stdout)"
good 'info of a model as json' '"layers":"layer .*"schema":\{"version":1,"kind":"table".*"training":\{"data":.*"optimizer":"adam".*"history":\[\{"epoch":1,"step":[0-9]+,"loss":' \
    info "$work/kinds.safetensors" --json
[ "$(grep -o '"epoch":' stdout | wc -l)" -eq 60 ] || no "epochs: $(grep -o '"epoch":' stdout | wc -l)"
# signed NAME METADATA: a model file of one byte with these lines, and their checksum, which the command names
signed() {
    st "$1" "{\"__metadata__\":{$2},\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" '\000'
    sum=$("$copse" predict "$1" rows.csv --devices host 2>&1 | grep -o 'crc32:[0-9a-f]*')
    st "$1" "{\"__metadata__\":{$2,\"checksum\":\"$sum\"},\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" '\000'
}
signed future '"format":"copse-model-1","seed":"1","network":"attention 4; dense out","schema":"{}"'
good 'info of a newer model' '^its model cannot be described: schema: ' info "$work/future"
grep -q '^  x  *u8 ' stdout || no 'the arrays of a newer model'
# `info` reads the header, and `train --init` the arrays that it uses: of 8 GB with holes, in 4 GB of addresses. A sanitizer
# maps more.
st "$work/holes" '{"__metadata__":{"format":"copse-model-1","seed":"1","network":"dense 50000 relu; dense out","schema":"'"$(
    printf %s '{"version":1,"kind":"array","task":"classification","input":{"type":"f32","shape":[40000],"offset":0,"scale":1},"classes":2,"numbered":true}' |
        sed 's/"/\\"/g')"'"},"dense1.weight":{"dtype":"F32","shape":[40000,50000],"data_offsets":[0,8000000000]},"dense1.bias":{"dtype":"F32","shape":[50000],"data_offsets":[8000000000,8000200000]},"dense2.weight":{"dtype":"F32","shape":[50000,2],"data_offsets":[8000200000,8000600000]},"dense2.bias":{"dtype":"F32","shape":[2],"data_offsets":[8000600000,8000600008]}}'
truncate -s $(($(wc -c <"$work/holes") + 8000600008)) "$work/holes"
if ldd "$copse" | grep -q libasan; then limit=:; else limit='ulimit -v 4000000'; fi
under() { (eval "$limit" && exec "$copse" "$@"); }
under info "$work/holes" >stdout 2>stderr && grep -q '^total  *2,000,150,002$' stdout || no "info of 8 GB: $(cat stdout stderr)"
under train $host --model mlp:8 --quiet --init "$work/holes" >stdout 2>stderr || true
grep -q "dense1.weight' is f32 \[40000, 50000\], the variable is f32 \[64, 8\]" stderr || no "init from 8 GB: $(cat stderr)"
# A file that describes much more than it has: nothing of that size is allocated.
schema='{\"version\":1,\"kind\":\"array\",\"task\":\"classification\",\"input\":{\"type\":\"f32\",\"shape\":[40000],\"offset\":0,\"scale\":1},\"classes\":3,\"numbered\":true}'
signed bomb "\"format\":\"copse-model-1\",\"seed\":\"1\",\"network\":\"dense 50000 relu; dense 40000; dense out\",\"schema\":\"$schema\""
good 'info of a large description' 'cannot be described: model: its network has 4000210003 numbers, and the file 1' info "$work/bomb"
bad 'predict with a large description' 'its network has 4000210003 numbers, and the file 1' predict "$work/bomb" "$work/rows.csv" --devices host
# The history of a model file has at most 10,000 rows: means of as many steps. A checkpoint has all.
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d,%d\n", i, i % 2 }' >forty.csv
good 'a long run' '^10400 steps' train --devices host --data "$work/forty.csv" --model mlp:1 --batch 2 --epochs 650 --lr 1e-6 --dropout 0 \
    --schedule constant --save long.safetensors --checkpoint long_run.safetensors --quiet
"$copse" info out/long.safetensors | grep -q 'application/steps  *f64  *\[5200, 2\]' || no "history: $("$copse" info out/long.safetensors | grep steps)"
"$copse" info out/long_run.safetensors | grep -q 'application/steps  *f64  *\[10400, 2\]' || no 'the history of a checkpoint'
"$copse" export out/long.safetensors --npy short_npy >/dev/null && "$copse" export out/long_run.safetensors --npy long_npy >/dev/null
# means NAME: f64 of the .npy file, one a line
doubles() { tail -c +129 "$1" | od -An -v -tf8 -w16; }
doubles long_npy/application%2Fsteps.npy | awk 'NR % 2 { a = $1; b = $2; next } { printf "%.12g %.12g\n", (a + $1) / 2, (b + $2) / 2 }' >expected
doubles short_npy/application%2Fsteps.npy | awk '{ printf "%.12g %.12g\n", $1, $2 }' | cmp -s - expected || no 'the shorter history has other means'
rm -f out/long.safetensors out/long_run.safetensors
good 'evaluate prices' '^R2 (0\.99[0-9]+|1\.0000) over 200 rows, mean absolute error' \
    evaluate "$work/prices.safetensors" "$work/prices.csv" --devices host
if command -v python3 >/dev/null; then
    tail -n +2 ask.csv >ask_rows.csv && "$copse" predict prices.safetensors ask.csv --devices host >ask_predictions.csv
    python3 "$here/model_numpy.py" prices.safetensors ask_rows.csv ask_predictions.csv
    code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || no 'NumPy computes other prices'
fi

# Several targets, with an error for each. npy NAME SHAPE AWK-PROGRAM: bytes that the program prints as numbers
npy() {
    header="{'descr': '|u1', 'fortran_order': False, 'shape': ($2), }"
    printf '\223NUMPY\001\000v\000%-117s\n' "$header" >"$1.npy"
    printf "$(awk "BEGIN { $3 }" | awk '{ printf "\\%03o", $1 }')" >>"$1.npy"
}
npy x '100, 1' 'for (i = 0; i < 100; i++) print i'
npy y '100, 2' 'for (i = 0; i < 100; i++) { print i; print 200 - 2 * i }'
"$copse" train --data x.npy --labels y.npy --task regression --scale standard --devices host --epochs 100 --dropout 0 --quiet \
    --save two.safetensors >/dev/null || no 'train on two targets'
good 'evaluate two targets' '^R2 (0\.99[0-9]+|1\.0000) over 100 rows and 2 targets' \
    evaluate "$work/two.safetensors" "$work/x.npy" --labels "$work/y.npy" --devices host
awk '/mean absolute error$/ { head = NR } head && NR == head + 1 { a = $3 } head && NR == head + 2 { b = $3; last = $1 }
     END { exit !(last == 2 && a > 0 && a < 3 && b > 1.2 * a && b < 6) }' stdout || no "errors of two targets: $(cat stdout)"
good 'evaluate two targets as JSON' '"targets":\[\{"target":"1","r2":[0-9.]+,"mae":[0-9.]+\},\{"target":"2",' \
    evaluate "$work/two.safetensors" "$work/x.npy" --labels "$work/y.npy" --devices host --json

# A checkpoint is a model, too. Files that are no model say what they are.
newest=$work/points/$(ls points | tail -1)
good 'predict from a checkpoint' '^class,' predict "$newest" "$work/rows.csv" --devices host
st plain '{"dense1.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' '\000\000\000\000\000\000\000\000'
bad 'predict with weights' 'holds weights only' predict "$work/plain" "$work/rows.csv" --devices host
bad 'evaluate with weights' 'holds weights only' evaluate "$work/plain" "$work/rows.csv" --devices host
bad 'predict with a table' 'rows.csv' predict "$work/rows.csv" "$work/model.safetensors" --devices host
bad 'predict without data' 'MODEL and DATA' predict "$work/model.safetensors"
head -3 rows.csv | cut -d, -f1-60 >short.csv
bad 'predict a row that is short' 'short.csv' predict "$work/model.safetensors" "$work/short.csv" --devices host --output p.csv
bad 'predict over the data' 'which this command reads' predict "$work/model.safetensors" "$work/rows.csv" --devices host --output "$work/rows.csv"
bad 'evaluate without labels' 'no labels' evaluate "$work/model.safetensors" "$work/rows.csv" --devices host --plot c.svg
bad 'evaluate of one' 'MODEL and DATA' evaluate "$work/model.safetensors"
bad 'plot of prices' 'regression' evaluate "$work/prices.safetensors" "$work/prices.csv" --devices host --plot c.svg
{ head -c 9000 model.safetensors; tail -c +9002 model.safetensors; printf x; } >damaged.safetensors
bad 'predict with a damaged model' 'damaged' predict "$work/damaged.safetensors" "$work/rows.csv" --devices host

# What is read is not replaced, under whatever name; the mode of a file that is replaced stays.
ln kinds.safetensors other_name.svg
cp kinds.csv labelled.csv
cksum kinds.safetensors labelled.csv >sums
bad 'plot over the model' "plot would replace '.*', which this command reads" evaluate "$work/kinds.safetensors" "$work/labelled.csv" --devices host --plot "$work/kinds.safetensors"
bad 'plot over a link of the model' "plot would replace '.*', which this command reads" evaluate "$work/kinds.safetensors" "$work/labelled.csv" --devices host --plot "$work/other_name.svg"
bad 'plot over the data' "plot would replace '.*', which this command reads" evaluate "$work/kinds.safetensors" "$work/labelled.csv" --devices host --plot "$work/./labelled.csv"
bad 'save over the data' "save: '.*' is the file of --data" train $host --data "$work/labelled.csv" --save "$work/labelled.csv"
cp labelled.csv labelled.csv.partial
bad 'save over the data until the end' "save: '.*partial' is the file of --data" train $host --data "$work/labelled.csv.partial" --save "$work/labelled.csv"
cksum kinds.safetensors labelled.csv | cmp -s - sums || no 'an input was replaced'
mkdir -p "$work/idx"
printf '\000\000\010\003\000\000\000\001\000\000\000\001\000\000\000\001\007' >idx/t-images-idx3-ubyte
printf '\000\000\010\001\000\000\000\001\000' >idx/t-labels-idx1-ubyte
bad 'save over labels beside' "has the labels of --data" train $host --data "$work/idx/t-images-idx3-ubyte" --save "$work/idx/t-labels-idx1-ubyte"
bad 'save over a file of a folder' "is in the folder of --data" train $host --data "$work/idx" --save "$work/idx/t-images-idx3-ubyte"
cp a.safetensors dense1.bias.npy
bad 'export over the file' "replace '.*dense1.bias.npy', which this command reads" export "$work/dense1.bias.npy" --npy "$work" --force
cmp -s a.safetensors dense1.bias.npy || no 'export: an input was replaced'
for mode in 600 640; do
    for file in kept.safetensors kept.svg kept.csv; do : >"$file"; chmod $mode "$file"; done
    good "mode $mode of a model" '^model: ' train --data "$work/labelled.csv" $host --save "$work/kept.safetensors" --plot "$work/kept.svg"
    good "mode $mode of predictions" '[0-9]* rows' predict "$work/kinds.safetensors" "$work/labelled.csv" --devices host --output "$work/kept.csv"
    for file in kept.safetensors kept.svg kept.csv; do
        [ "$(stat -c %a "$file")" = $mode ] || no "$file of mode $mode has $(stat -c %a "$file")"
    done
done
good 'a new file' '^model: ' train --data "$work/labelled.csv" $host --save "$work/new.safetensors"
[ "$(stat -c %a new.safetensors)" = "$(printf %o $((0666 & ~0$(umask))))" ] || no "a new file has $(stat -c %a new.safetensors)"

# Text of files has no control characters on a terminal: 0x1b begins an escape sequence, U+009B too.
escape=$(printf '\033')
printf "colour,kind\n%s,$escape[31mred\302\2331m\n%s,blue\n" 1 2 1 2 1 2 1 2 >escapes.csv
"$copse" train --data escapes.csv $host --save escapes.safetensors >stdout 2>&1
grep -q '?\[31mred?1m' stdout || no "train: a class with an escape: $(cat stdout)"
grep -q "$escape\[31" stdout && no 'train prints an escape of the data'
if command -v script >/dev/null; then
    script -qec "'$copse' predict escapes.safetensors escapes.csv --devices host" /dev/null >stdout </dev/null
    grep -q '?\[31mred?1m' stdout && ! grep -q "$escape\[31" stdout || no "predict on a terminal: $(cat stdout)"
    "$copse" predict escapes.safetensors escapes.csv --devices host | grep -q "$escape\[31mred" || no 'predict changes names in a pipe'
    printf 'ab\033c%.0s' $(seq 60) >escapes.txt
    "$copse" train --data escapes.txt --tokens bytes --context 8 --model gru:1,16 --epochs 60 --lr 0.02 --devices host --quiet --save tale.safetensors >/dev/null
    "$copse" generate tale.safetensors --prompt ab --length 60 --devices host >stdout
    grep -q "$escape" stdout || no 'generate: the text has no escape to test'
    script -qec "'$copse' generate tale.safetensors --prompt ab --length 60 --devices host" /dev/null >stdout </dev/null
    grep -q 'ab?' stdout && ! grep -q "$escape" stdout || no "generate on a terminal: $(cat stdout)"
else
    echo 'skipped: no program script, which gives a terminal'
fi

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
