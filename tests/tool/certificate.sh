#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --bits portable`: one hash for each step and byte-identical files, on OpenCL and Vulkan devices, for every number
# of replicas, and on both kinds of devices together. Digits, a convolutional network and an adapter. A driver that loses a
# dispatch is found at the first step whose values are wrong, by the launch.
# usage: certificate.sh COPSE MAKE_LANGUAGE [OPENCL_LAYER] [all]; all: more numbers of replicas; OPENCL_LAYER: of tests/layers
# COPSE_CERTIFICATE: lists of devices, with blanks between them, instead of those of opencl:0 and vulkan:0; the networks of COPSE_CERTIFICATE_OF
# (digits, layers, adapter) alone
set -u
copse=$1 make=$2 layer='' all=''
shift 2
for argument; do
    case $argument in all) all=yes ;; /* | '') layer=$argument ;; *) layer=$PWD/$argument ;; esac
done
case $copse in /*) ;; *) copse=$PWD/$copse ;; esac
networks=${COPSE_CERTIFICATE_OF-digits layers adapter}
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
if [ "${COPSE_CERTIFICATE-}" ]; then
    lists=$COPSE_CERTIFICATE
elif found "$O" && found "$V"; then
    lists="$O $V $O,$O,$O $V,$O $O,$O,$V,$V,$O,$V"
    few="$O $V $O,$O,$V,$V,$O,$V"
    [ -z "$all" ] || lists="$lists $O,$O $V,$V $V,$V,$V $O,$O,$O,$O $V,$V,$V,$V,$V,$V $V,$V,$O $O,$O,$O,$O,$O,$O"
elif found "$O"; then
    lists="$O $O,$O $O,$O,$O"
elif found "$V"; then
    lists="$V $V,$V $V,$V,$V"
else
    echo 'skipped: neither opencl:0 nor vulkan:0'
    exit 77
fi
[ -z "$all" ] && [ "${few-}" ] || few=$lists

# equal NAME LISTS ARGUMENT...: the runs on all lists of devices
equal() {
    what=$1 its_lists=$2
    shift 2
    case " $networks " in *" $what "*) ;; *) return ;; esac
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
"$make" "$work/model.gguf" llama || exit 1
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

# ---- a driver that loses a dispatch ----
# lies N ARGUMENT...: the adapter on OpenCL, where every N-th dispatch is lost
lies() {
    n=$1
    shift
    (cd "$work/out" && COPSE_LIE=lose:$n COPSE_LIE_COUNT=1 OPENCL_LAYERS=$layer timeout 120 "$copse" train --bits portable --quiet \
        --no-cross-check --devices "$O" --model "$work/model.gguf" --data "$work/tale.txt" --context 16 --batch 13 --lora 2 --lr 0.02 \
        --held-out none "$@") >"$work/stdout" 2>"$work/stderr" || grep -q 'the loss of step 2 is NaN' "$work/stderr" || no "lose:$n: $(cat "$work/stderr")"
    occasions=$(sed -n 's/^lying layer: \([0-9]*\) occasions$/\1/p' "$work/stderr")
}
compared() { # FILE FILE: in $code the exit code
    "$copse" compare-runs "$1" "$2" >"$work/stdout" 2>"$work/stderr"
    code=$?
}
if found "$O" && [ "$layer" ]; then
    lies 1000000000 --steps 1 --save "$work/one.safetensors" # the self-tests of kernels are done
    for steps in 1 2; do
        lies 1000000000 --steps $steps --hash "$work/honest.hash" --save "$work/honest.safetensors"
        eval "until_$steps=\$occasions"
    done
    found_faults=0 named=''
    for part in 2 3 4 6; do
        lost=$((until_1 + (until_2 - until_1) / part))
        lies $lost --steps 2 --hash "$work/lie.hash" --save "$work/lie.safetensors"
        if grep -q 'is NaN' "$work/stderr"; then # the training itself has found it
            found_faults=$((found_faults + 1))
            continue
        fi
        compared "$work/honest.hash" "$work/lie.hash"
        [ $code -eq 0 ] && continue # the dispatch would have written what was there
        found_faults=$((found_faults + 1)) named=$lost
        [ $code -eq 1 ] && grep -q '^step 2 differs' "$work/stdout" && ! grep -q '^step 1' "$work/stdout" ||
            no "dispatch $lost is lost: exit code $code: $(cat "$work/stdout" "$work/stderr")"
    done
    [ $found_faults -gt 0 ] || no "no lost dispatch changes step 2, of $until_1 to $until_2"
    lies 1000000000 --steps 2 --hash "$work/honest.hash" --hash-launches 2 --save "$work/honest.safetensors"
    [ -z "$named" ] || lies $named --steps 2 --hash "$work/lie.hash" --hash-launches 2 --save "$work/lie.safetensors"
    compared "$work/honest.hash" "$work/lie.hash"
    [ -z "$named" ] || grep -qE 'the first launch that differs: number [0-9]+ of replica [0-9]+' "$work/stdout" || no "dispatch $named: no launch: $(cat "$work/stdout" "$work/stderr")"
fi

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
