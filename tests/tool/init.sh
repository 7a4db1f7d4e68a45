#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --init` from a model of other data: what of the file is taken, what is not, and why.
# usage: init.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
host="--devices host --epochs 1 --model mlp:4,3"

# table FILE HEADER CLASS...: two numbers and one of the classes in each row
table() {
    file=$1 header=$2
    shift 2
    echo "$header" >"$work/$file"
    awk -v classes="$*" 'BEGIN { OFS = ","; srand(2); n = split(classes, c, " ")
        for (i = 0; i < 90; i++) print rand(), rand(), c[i % n + 1] }' >>"$work/$file"
}
table low.csv a,b,class zero one two
table high.csv a,b,class seven eight nine
table more.csv a,b,class zero one two three
table other.csv a,c,class zero one two
table bare.csv 1,2,zero zero one two
table number.csv a,b,target 1.5 2.5 3.25
table second.csv a,b,price 1.5 2.5 3.25
"$copse" train $host --quiet --data "$work/low.csv" --save "$work/low" >/dev/null || no 'the first model'
"$copse" train $host --quiet --data "$work/number.csv" --save "$work/number" >/dev/null || no 'the first regression'

# from NAME TAKEN WHY DATA INIT OPTION...: what is printed
from() {
    name=$1 taken=$2 why=$3 data=$4 init=$5
    shift 5
    good "$name" "$taken" train $host --data "$work/$data" --init "$work/$init" "$@"
    if [ -n "$why" ]; then
        grep -qE -- "$why" "$work/stdout" || no "$name: $(sed -n '/^init/,/^$/p' "$work/stdout")"
    elif grep -q '; left ' "$work/stdout"; then
        no "$name: $(sed -n '/^init/,/^$/p' "$work/stdout")"
    fi
}
from 'the same classes' '6 of 6 variables' '' low.csv low
from 'other classes' '4 of 6 variables' "left the head dense3 new: class 1 is 'one' in the file, 'eight' in the data$" \
    high.csv low
grep -q 'took dense1, dense2 (4 of 6 variables); left' "$work/stdout" || no "the body: $(cat "$work/stdout")"
from 'more classes' '4 of 6 variables' 'left the head dense3 new: the file has 3 classes, the data 4$' more.csv low
from 'other columns' '4 of 6 variables' "left dense1 new: column 2 is 'b' in the file, 'c' in the data$" \
    other.csv low
from 'no names of columns' '6 of 6 variables' '' bare.csv low
from 'another task' '4 of 6 variables' 'left the head dense3 new: the file is of a classification, the data of a regression$' \
    number.csv low
from 'another target' '4 of 6 variables' "left the head dense3 new: target 1 is 'target' in the file, 'price' in the data$" \
    second.csv number
from 'the same target' '6 of 6 variables' '' number.csv number

# Nothing is trained: the head of a run from scratch, and the body of the file.
"$copse" train $host --quiet --data "$work/high.csv" --lr 1e-30 --init "$work/low" --save "$work/joined" >/dev/null || no 'joined'
"$copse" train $host --quiet --data "$work/high.csv" --lr 1e-30 --save "$work/fresh" >/dev/null || no 'fresh'
for model in low joined fresh; do "$copse" export "$work/$model" --npy "$work/$model.npy" >/dev/null || no "export $model"; done
cmp "$work/joined.npy/dense3.weight.npy" "$work/fresh.npy/dense3.weight.npy" || no 'the head is not new'
cmp "$work/joined.npy/dense2.weight.npy" "$work/low.npy/dense2.weight.npy" || no 'the body is not the one of the file'

# As JSON, with several replicas and with servers; from a checkpoint.
good 'json' '^\{"event":"init",.*"matched":\["dense1.weight",.*"skipped":\["dense3.weight","dense3.bias"\],"why":".*eight.*","missing":\[\]' \
    train $host --json --data "$work/high.csv" --init "$work/low"
from 'replicas' '4 of 6 variables' "'eight' in the data" high.csv low --devices host:0,host:0
from 'servers' '4 of 6 variables' "'eight' in the data" high.csv low --strategy parameter_server
"$copse" train $host --quiet --data "$work/low.csv" --checkpoint "$work/low.safetensors" >/dev/null || no 'checkpoint'
from 'a checkpoint' '4 of 6 variables' "'eight' in the data" high.csv low.safetensors

# Texts: a token is an input and a class.
text="--model gru:1,8 --tokens characters --batch 8 --context 4"
awk 'BEGIN { for (i = 0; i < 60; i++) printf "abcab " }' >"$work/a.txt"
awk 'BEGIN { for (i = 0; i < 60; i++) printf "abdab " }' >"$work/b.txt"
"$copse" train $host $text --quiet --data "$work/a.txt" --save "$work/text" >/dev/null || no 'a text'
from 'another vocabulary' '[0-9] of [0-9] variables' "left embedding1 new: token 4 is 'c' in the file, 'd' in the data; left the head" b.txt text $text
grep -q "left the head dense1 new: token 4 is 'c' in the file, 'd' in the data$" "$work/stdout" ||
    no "the head of a text: $(sed -n '/^init/,/^$/p' "$work/stdout")"

# A file without a schema is compared by shape, and says so.
arrays() { # FILE CLASSES
    python3 - "$@" <<'END'
import json, struct, sys
path, classes = sys.argv[1], int(sys.argv[2])
header, at = {}, 0
for name, shape in (("dense1.weight", [2, 4]), ("dense1.bias", [4]), ("dense2.weight", [4, 3]), ("dense2.bias", [3]),
                    ("dense3.weight", [3, classes]), ("dense3.bias", [classes])):
    size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
END
}
arrays "$work/three" 3 && arrays "$work/four" 4 || no 'python3'
from 'no schema' '6 of 6 variables' 'the file has no schema: only shapes were compared$' low.csv three
from 'no schema, another shape' '4 of 6 variables' 'left the head dense3 new: it has another shape in the file; the file has no schema' low.csv four
grep -q 'the file has no schema: only shapes were compared$' "$work/stdout" || no "no word on the schema"
bad 'another body' "'dense2.weight' is f32 \[4, 3\], the variable is f32 \[4, 5\]" train $host --data "$work/low.csv" --model mlp:4,5 \
    --init "$work/four"
# Nothing is left of a network of one layer.
"$copse" train --devices host --epochs 1 --model 'dense out' --quiet --data "$work/low.csv" --save "$work/one" >/dev/null || no 'one layer'
bad 'nothing fits' "nothing of '.*one' fits: class 1 is 'one' in the file, 'eight' in the data" train --devices host --epochs 1 --model 'dense out' \
    --data "$work/high.csv" --init "$work/one"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
