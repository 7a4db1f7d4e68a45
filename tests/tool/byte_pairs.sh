#!/bin/sh
# SPDX-License-Identifier: MIT
# byte_pairs.sh COPSE: `--tokens bpe:N` of `copse train`; `copse evaluate`, `predict`, `generate` and `info` with its models;
# checkpoints; wrong options.
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
cd "$work" || exit 1

i=0
while [ $i -lt 80 ]; do
    printf 'The owl saw %d foxes; it sl\303\251pt.\n' $((i % 7))
    i=$((i + 1))
done >tale.txt
run="train --devices host:0 --data $work/tale.txt --tokens bpe:300 --context 6"

good train '^data .*: [0-9]+ windows of 6 byte pairs, one every 6; [23][0-9]+ different byte pairs$' $run --model gpt:1,16,2 --lr 0.01 \
    --batch 8 --epochs 30 --save pairs.safetensors
grep -q 'the byte pairs were learned from the training part$' stdout || no "train: $(head -4 stdout)"
grep -qE '^[0-9.]+ % of the [0-9]+ held-out tokens are right \(loss [0-9.]+, perplexity [0-9.]+, [0-9.]+ bits per byte\)$' stdout ||
    no "train: $(tail -4 stdout)"
mv out/pairs.safetensors .
good info '^tokens +[23][0-9]+: 256 bytes, "' info "$work/pairs.safetensors"
grep -qE '^input +6 .*: windows of byte pairs, one every 6$' stdout || no "info: $(cat stdout)"
good evaluate 'bits per byte.$' evaluate "$work/pairs.safetensors" "$work/tale.txt" --devices host:0
good 'evaluate json' '"bits_per_byte":[0-9.]+' evaluate "$work/pairs.safetensors" "$work/tale.txt" --devices host:0 --json
printf 'The owl saw 3 foxes; it sl' >ask.txt
good predict '^1,[0-9]+,[^,]+,[0-9.e-]+$' predict "$work/pairs.safetensors" "$work/ask.txt" --devices host:0
good 'predict json' '"token":".*"probabilities":\{"\\\\x00":' predict "$work/pairs.safetensors" "$work/ask.txt" --devices host:0 --json

write="generate $work/pairs.safetensors --devices host:0"
good generate '^The owl saw [0-9] foxes; it slépt.$' $write --prompt 'The owl saw' --temperature 0 --length 40
good seed '^The owl' $write --prompt 'The owl' --seed 3
mv stdout one
good 'same seed' '^The owl' $write --prompt 'The owl' --seed 3
cmp -s stdout one || no "the same seed: $(cat stdout) after $(cat one)"
# The text ends with whole characters, whatever the last token is.
for length in 1 2 3 4 5 6 7 8 9 10; do
    good "length $length" '.' $write --prompt 'foxes; it s' --temperature 0 --length $length
    iconv -f UTF-8 -t UTF-8 stdout >/dev/null || no "length $length: $(od -c stdout)"
done
good json '"tokens":9,' $write --prompt 'The' --temperature 0 --length 9 --json
good 'any prompt' '.' $write --prompt "$(printf '\377z')" --temperature 0 --length 3

# Tokens that the training part did not have are not drawn, however unlikely the likely ones are made: bytes that no text
# has, and pairs that later merges always join.
sed 's/[^ -~]//g' tale.txt >ascii.txt
for tokens in bpe:290 bytes; do
    good "train $tokens" ' tokens are right' train --devices host:0 --data "$work/ascii.txt" --quiet --tokens $tokens --context 6 \
        --model 'embedding in 4; dense out' --epochs 1 --save ascii.safetensors
    mv out/ascii.safetensors .
    good "$tokens, any token" '.' generate "$work/ascii.safetensors" --devices host:0 --prompt 'The' --temperature 1000 --length 600
    sed '1s/^The//' stdout | tr -d 'TheowlsawfxitpE0123456;. \n' | LC_ALL=C wc -c | grep -qx 0 || no "$tokens: $(od -c stdout | head -4)"
    good "$tokens, info" '^         2[0-9]+ of them not in the training text$' info "$work/ascii.safetensors"
done
# A file of an older version does not know them; the command says so and goes on. Its checksum is of its metadata, too.
python3 - pairs.safetensors old.safetensors <<'END' || no 'python3'
import json, struct, sys, zlib
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + size]), data[8 + size:]
lines = header["__metadata__"]
schema = json.loads(lines["schema"])
assert schema.pop("unseen")
lines["schema"] = json.dumps(schema)
crc = 0
for key, value in lines.items():
    if key != "checksum":
        crc = zlib.crc32(key.encode() + b"\0" + value.encode() + b"\0", crc)
for name, array in header.items():
    if name != "__metadata__":
        begin, end = array["data_offsets"]
        crc = zlib.crc32(name.encode() + b"\0" + body[begin:end], crc)
lines["checksum"] = "crc32:%08x" % crc
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body)
END
"$copse" generate old.safetensors --devices host:0 --prompt 'The owl saw' --temperature 0 --length 40 >stdout 2>stderr || no "old: $(cat stderr)"
grep -qE '^The owl saw [0-9] foxes; it slépt.$' stdout || no "old: $(cat stdout)"
[ "$(cat stderr)" = "copse generate: 'old.safetensors' was written by an older version, which did not note the tokens that its text has not: they may be drawn; --top-p 0.95 makes that unlikely" ] ||
    no "old: $(cat stderr)"
"$copse" evaluate old.safetensors tale.txt --devices host:0 >stdout 2>stderr || no "evaluate old: $(cat stderr)"

# Checkpoints: resumed to the same bits; another vocabulary is refused.
good straight 'model: ' $run --epochs 2 --schedule constant --save straight.safetensors
good half 'checkpoint: ' $run --epochs 1 --schedule constant --checkpoint half.safetensors
good resumed '^resumed ' $run --epochs 2 --schedule constant --checkpoint half.safetensors --resume --save resumed.safetensors
"$copse" export out/resumed.safetensors --npy resumed_npy >/dev/null && "$copse" export out/straight.safetensors --npy straight_npy >/dev/null
cmp -s resumed_npy/embedding1.weight.npy straight_npy/embedding1.weight.npy || no 'resumed: another embedding'
grep ' held-out tokens ' stdout >trained
"$copse" evaluate --devices host:0 --data tale.txt --checkpoint out/half.safetensors --quiet >evaluated 2>&1
cmp -s trained evaluated || no "evaluate --checkpoint: $(cat evaluated) after $(cat trained)"
mv out/half.safetensors .
rm -rf out/*
bad 'another vocabulary' 'was made with ' train --devices host:0 --data "$work/tale.txt" --tokens bpe:290 --context 6 --epochs 2 \
    --schedule constant --checkpoint "$work/half.safetensors" --resume

# ---- wrong input ----
bad 'small vocabulary' 'a vocabulary has 256 to 65536 tokens' train --data "$work/tale.txt" --tokens bpe:255
bad 'large vocabulary' 'a vocabulary has 256 to 65536 tokens' train --data "$work/tale.txt" --tokens bpe:65537
for wrong in bpe: bpe:0 bpe:x bpe:300x bpe:-1 bpe:99999999999999999999 bytes:300 bp; do
    bad "$wrong" "'$wrong' is not one of none, characters, bytes, bpe" train --data "$work/tale.txt" --tokens $wrong
done
: >empty.txt
bad empty 'empty.txt is empty' train --devices host:0 --data "$work/empty.txt" --tokens bpe
printf a >one.txt
bad one 'has 1 tokens; a window of 16' train --devices host:0 --data "$work/one.txt" --tokens bpe

[ $failed -eq 0 ] && echo "$passed passed"
exit $((failed > 0))
