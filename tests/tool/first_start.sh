#!/bin/sh
# SPDX-License-Identifier: MIT
# The first run on a machine compiles each kernel once, says so, and does not count it as training; the second run
# compiles nothing. Compilations are counted by the entries of the kernel cache and of the drivers' caches.
# usage: first_start.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
unset VK_INSTANCE_LAYERS # layers put files into the cache

# field NAME: of the last event
field() { tail -n 1 "$work/stdout" | sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p"; }

# run DEVICE OPTION...: of 115 steps, on 7190 examples
run() {
    device=$1
    shift
    XDG_CACHE_HOME=$work/$device POCL_CACHE_DIR=$work/$device/pocl MESA_SHADER_CACHE_DIR=$work/$device \
        "$copse" train --devices "$device" --epochs 5 "$@" >"$work/stdout" 2>"$work/stderr" ||
        no "$device: $(cat "$work/stderr")"
}

# What drivers have compiled: code of PoCL, shaders of Mesa.
compiled() { (cd "$work/$1" && find . -name '*.so' -o -path '*/mesa_shader_cache/*/*' -type f | sort); }

starts() {
    device=$1
    mkdir -p "$work/$device/pocl"
    run "$device" --json
    kernels=$(field compiled_kernels)
    [ "${kernels:-0}" -ge 10 ] || no "$device: ${kernels:-no} kernels were compiled at the first start"
    events=$(sed -n 's/.*"event":"compiling".*"kernels":\([0-9]*\).*/\1/p' "$work/stdout" | awk '{ n += $1 } END { print n }')
    [ "$events" = "$kernels" ] || no "$device: events about $events kernels, not $kernels"
    stored=$(find "$work/$device/copse" -name 'opencl-*' -o -name 'vk-*' | wc -l)
    [ "$stored" -eq "$kernels" ] || no "$device: $kernels kernels were compiled, $stored stored"
    counted=$(awk "BEGIN { printf \"%.0f\", $(field samples_per_s) * $(field seconds) }")
    [ "$counted" -gt 0 ] && [ "$counted" -lt 7190 ] || no "$device: the first start counts $counted examples"
    compiled "$device" >"$work/first"
    [ -s "$work/first" ] || no "$device: the driver keeps nothing"
    case $device in
    vulkan*) most=$((kernels + 1)) ;; # one for each kernel, whatever the launches; and an index
    *) most=$kernels ;; # PoCL: for the kernel's group size
    esac

    run "$device" --json
    [ "$(field compiled_kernels)" = 0 ] || no "$device: $(field compiled_kernels) kernels were compiled at the second start"
    grep -q '"event":"compiling"' "$work/stdout" && no "$device: the second start reports compilations"
    counted=$(awk "BEGIN { printf \"%.0f\", $(field samples_per_s) * $(field seconds) }")
    [ "$counted" -eq 7190 ] || no "$device: the second start counts $counted examples"
    [ "$(wc -l <"$work/first")" -le $most ] || no "$device: $(wc -l <"$work/first") compilations of $kernels kernels"
    compiled "$device" >"$work/second"
    cmp -s "$work/first" "$work/second" || no "$device: compiled at a later start: $(diff "$work/first" "$work/second")"
}

found=
for device in $("$copse" devices | awk '/^[a-z]+:[0-9]/ { id = $1 }
    /^ .*(Portable Computing|llvmpipe)/ && id != "" { print id; id = "" }'); do
    found="$found $device"
    starts "$device"
done
[ -n "$found" ] || { echo 'skipped: neither PoCL nor lavapipe is installed'; exit 77; }

# In words: one line for each device where standard output is no terminal, none with --quiet.
for device in $found; do
    rm -rf "$work/$device/copse"
    run "$device"
    [ "$(grep -c "^compiling kernels for $device" "$work/stdout")" -eq 1 ] || no "$device: $(head -5 "$work/stdout")"
    run "$device"
    grep -q compiling "$work/stdout" && no "$device: the second start says that it compiles"
    rm -rf "$work/$device/copse"
    run "$device" --quiet
    [ "$(wc -l <"$work/stdout")" -eq 2 ] || no "$device --quiet: $(cat "$work/stdout")"
    break
done
# Two drivers of one processor are one device to `auto`, and the list says so.
case $found in
*opencl*vulkan*)
    XDG_CACHE_HOME=$work/opencl:0 "$copse" devices >"$work/stdout"
    if ! grep -q 'GPU,' "$work/stdout"; then
        grep -q '^opencl:[0-9]* *taken: the processor, ' "$work/stdout" &&
            grep -q '^vulkan:[0-9]* *left out: the same processor as opencl:[0-9]*, which has wide vectors$' "$work/stdout" ||
            no "devices: $(tail -n 3 "$work/stdout")"
    fi ;;
esac
[ $failed -eq 0 ] && echo "first and second starts on$found"
exit $failed
