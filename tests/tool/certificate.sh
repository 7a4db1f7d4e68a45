#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --bits portable`: one hash for each step and byte-identical files, on OpenCL and Vulkan devices, for every number
# of replicas, and on both kinds of devices together. Digits, a convolutional network and an adapter.
# usage: certificate.sh COPSE MAKE_LANGUAGE [all]; all: more numbers of replicas
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
[ -z "$cache" ] || export XDG_CACHE_HOME="$cache" # of all tests: kernels are compiled once
"$copse" devices >"$work/devices" 2>&1
found() {
    grep -q "^$1 " "$work/devices"
}
O=opencl:0 V=vulkan:0
if found "$O" && found "$V"; then
    lists="$O $V $O,$O,$O $V,$O $O,$O,$V,$V,$O,$V"
    few="$O $V $O,$O,$V,$V,$O,$V"
    [ $# -lt 3 ] || lists="$lists $O,$O $V,$V $V,$V,$V $O,$O,$O,$O $V,$V,$V,$V,$V,$V $V,$V,$O $O,$O,$O,$O,$O,$O"
elif found "$O"; then
    lists="$O $O,$O $O,$O,$O"
elif found "$V"; then
    lists="$V $V,$V $V,$V,$V"
else
    echo 'skipped: neither opencl:0 nor vulkan:0'
    exit 77
fi
[ $# -lt 3 ] && [ "${few-}" ] || few=$lists

# equal NAME LISTS ARGUMENT...: the runs on all lists of devices
equal() {
    what=$1 its_lists=$2
    shift 2
    first=
    for list in $its_lists; do
        file=$work/$what-$(echo "$list" | tr ':,' '__')
        good "$what on $list" '.' train --bits portable --quiet --no-cross-check --devices "$list" --hash "$file.hash" --hash-variables \
            --hash-launches 2 --save "$file.safetensors" "$@"
        if [ -z "$first" ]; then
            first=$file
            continue
        fi
        good "$what: $list" 'equal in all variables' compare-runs "$first.hash" "$file.hash"
        cmp "$first.hash" "$file.hash" || no "$what on $list: another file of hashes"
        cmp "$first.safetensors" "$file.safetensors" || no "$what on $list: another file"
    done
}

equal digits "$lists" --epochs 1 --batch 150 --dropout 0.1
# 40 images of 8 x 8 bytes, and their classes
{
    printf '\000\000\010\003\000\000\000\050\000\000\000\010\000\000\000\010'
    LC_ALL=C awk 'BEGIN { srand(5); for (i = 0; i < 40; i++) for (p = 0; p < 64; p++)
        printf "%c", 1 + int(40 * rand() + (int(p / 16) == i % 4 ? 80 : 0)) }'
} >"$work/images"
{
    printf '\000\000\010\001\000\000\000\050'
    for i in 1 2 3 4 5 6 7 8 9 10; do printf '\000\001\002\003'; done
} >"$work/labels"
cat >"$work/net.txt" <<'TEXT'
conv 8 3x3 silu
group_norm 4
max_pool 2
flatten
dense 32 gelu; batch_norm
layer_norm; prelu
dense 16 tanh
dense out
TEXT
equal layers "$few" --data "$work/images" --labels "$work/labels" --model "$work/net.txt" --epochs 2 --batch 20 --optimizer adamw
"$2" "$work/model.gguf" llama || exit 1
i=0
while [ $i -lt 20 ]; do
    printf 'the hen sings.\nthe owl sleeps.\nhello fox, hello cat!\n'
    i=$((i + 1))
done >"$work/tale.txt"
# Devices are counted, not shards.
for list in "${lists%% *}" "${lists%% *},${lists%% *}"; do
    n=$(echo "$list" | tr ',' '\n' | wc -l)
    good "devices of $list" " samples/s on $n device" train --bits portable --quiet --no-cross-check --devices "$list" --model mlp:8 --epochs 1
    good "events of $list" "^\{\"event\":\"start\",.*\"devices\":\[\"[^]]*\"\],\"shards\":12\}" train --bits portable --json --no-cross-check --devices "$list" --model mlp:8 --epochs 1
    [ "$(grep '"event":"start"' "$work/stdout" | grep -oE '"(opencl|vulkan):0"' | wc -l)" -eq "$n" ] || no "events of $list: $(grep start "$work/stdout")"
done
equal adapter "$few" --model "$work/model.gguf" --data "$work/tale.txt" --context 16 --batch 13 --lora 2 --lora-dropout 0.1 --lr 0.02 --steps 3

# ---- what is refused ----
some=${lists%% *}
good 'a checkpoint' '.' train --bits portable --quiet --no-cross-check --devices "$some" --model mlp:8 --dropout 0 --epochs 1 --checkpoint "$work/run"
bad 'other bits' "was made with --bits=portable 12, now it is --bits=fast" train --quiet --no-cross-check --devices "$some" --model mlp:8 --dropout 0 --epochs 2 --checkpoint "$work/run" --resume
good 'resumed' '.' train --bits portable --quiet --no-cross-check --devices "$some,$some" --model mlp:8 --dropout 0 --epochs 2 --checkpoint "$work/run" --resume --save "$work/resumed.safetensors"
bad 'too many devices' '12 shards are no multiple of 5 devices' train --bits portable --devices "$some,$some,$some,$some,$some"
bad 'the reference' 'host:0 .* has no portable bits: it computes [-0-9.e]+ [*] [-0-9.e]+ [+] [-0-9.e]+ [*] [-0-9.e]+ as ' train --bits portable --devices host:0
bad 'shares' '--bits portable: all shards are equal' train --bits portable --shares 1,2 --devices "$some,$some"
bad 'a strategy' '--bits portable: is for --strategy mirrored' train --bits portable --strategy accelerator
bad 'shards alone' '--shards: belongs to --bits portable' train --shards 4
bad 'many shards' '--shards: 1 to 64' train --bits portable --shards 65
bad 'no shards' '--shards: 1 to 64' train --bits portable --shards 0
bad 'no shards, fast bits' '--shards: belongs to --bits portable' train --shards 0
bad 'shards of an adapter' '--shards: belongs to --bits portable' train --model "$work/model.gguf" --data "$work/tale.txt" --lora 2 --shards 4 --save "$work/x"
echo "$passed passed, $failed failed; devices: $lists"
[ $failed -eq 0 ]
