#!/bin/sh
# SPDX-License-Identifier: MIT
# Conformance compiles what its cases need before the first one, says so, and does it once. Processes that die meanwhile change no
# verdict.
# usage: compile_ahead.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
unset VK_INSTANCE_LAYERS # layers put files into the cache

# run DEVICE OPTION...
run() {
    device=$1
    shift
    XDG_CACHE_HOME=$work/$device POCL_CACHE_DIR=$work/$device/pocl MESA_SHADER_CACHE_DIR=$work/$device \
        "$copse" conformance --device "$device" --ops softmax,argmax,glu --seconds 0 "$@" >"$work/stdout" 2>"$work/stderr"
}

# Processes of this test that compile.
compilers() {
    grep -lszx compile-kernels /proc/[0-9]*/cmdline | while read -r p; do
        p=${p%/cmdline}
        grep -qszx "XDG_CACHE_HOME=$work/$device" "$p/environ" && echo "${p#/proc/}"
    done
}

# PoCL compiles one kernel at a time in a process.
is_serial() {
    [ "$(nproc)" -gt 1 ] && "$copse" devices | awk -v device="$1" '/^[a-z]+:[0-9]/ { id = $1 }
        /^ .*Portable Computing/ && id == device { found = 1 }
        END { exit !found }'
}

found=
for device in $("$copse" devices | awk '/^[a-z]+:[0-9]/ { id = $1 }
    /^ .*(Portable Computing|llvmpipe)/ && id != "" { print id; id = "" }'); do
    found="$found $device"
    mkdir -p "$work/$device/pocl"
    run "$device" --json || no "$device: $(cat "$work/stderr")"
    first=$(grep -n -m 1 '"event":"compiling"' "$work/stdout" | cut -d: -f1)
    case=$(grep -n -m 1 '"event":"case"' "$work/stdout" | cut -d: -f1)
    [ -n "$first" ] && [ "$first" -lt "${case:-0}" ] || no "$device: compiles at line ${first:-none}, the first case is at ${case:-none}"
    kernels=$(sed -n 's/.*"event":"compiling".*"kernels":\([0-9]*\).*/\1/p' "$work/stdout" | head -n 1)
    stored=$(find "$work/$device/copse" -name 'opencl-*' -o -name 'vk-*' | wc -l)
    [ "${kernels:-0}" -ge 4 ] && [ "$stored" -eq "$kernels" ] || no "$device: $stored kernels are stored, ${kernels:-none} were compiled ahead"
    run "$device" --json || no "$device: $(cat "$work/stderr")"
    grep -q '"event":"compiling"' "$work/stdout" && no "$device: the second start compiles"

    # The test kills the processes that compile, as soon as it sees them.
    kills=0
    rm -rf "$work/$device"
    mkdir -p "$work/$device/pocl"
    run "$device" &
    runner=$!
    while kill -0 $runner 2>/dev/null; do
        for p in $(compilers); do kill -KILL "$p" 2>/dev/null && kills=$((kills + 1)); done
    done
    [ $kills -gt 0 ] || ! is_serial "$device" || no "$device: no process that compiles was seen and killed"
    wait $runner || no "$device: without the processes that compile: $(cat "$work/stdout" "$work/stderr")"
    grep -q '^compiling kernels for' "$work/stdout" || no "$device: $(cat "$work/stdout")"
    grep -Eq '^[0-9]+ cases on 1 device in .*: [0-9]+ pass$' "$work/stdout" || no "$device: $(tail -n 3 "$work/stdout")"
done
[ -n "$found" ] || { echo 'skipped: neither PoCL nor lavapipe is installed'; exit 77; }
[ $failed -eq 0 ] && echo "kernels ahead on$found"
exit $failed
