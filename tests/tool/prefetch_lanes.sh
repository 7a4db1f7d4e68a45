#!/bin/sh
# SPDX-License-Identifier: MIT
# Batches that are uploaded ahead in a queue of their own give the same bits as without, when uploads run as early as they
# may, and when kernels do.
# usage: prefetch_lanes.sh COPSE VULKAN_LAYER_FOLDER
set -u
copse=$1 layers=$2
case $copse in /*) ;; *) copse=$PWD/$copse ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
"$copse" devices --json | grep -q '"id":"vulkan:0"' || { echo "skipped: no Vulkan device"; exit 77; }

VK_INSTANCE_LAYERS=VK_LAYER_COPSE_lanes VK_LAYER_PATH=$layers COPSE_LANES=kernels "$copse" devices --json |
    grep -q '"id":"vulkan:0","taken":true,"reason":"a discrete GPU"' || no "the layer is not loaded"

# trains ORDER DEPTH
trains() {
    VK_INSTANCE_LAYERS=VK_LAYER_COPSE_lanes VK_LAYER_PATH=$layers COPSE_LANES=$1 timeout 300 "$copse" train --model mlp:32 \
        --epochs 2 --devices vulkan:0 --prefetch "$2" --hash "$work/$1-$2" >"$work/stdout" 2>"$work/stderr" ||
        no "$1, $2 batches ahead: $(cat "$work/stderr")"
    ! grep 'lanes layer' "$work/stderr" || no "$1, $2 batches ahead"
}

for order in transfers kernels; do
    trains $order 0
    for depth in 1 3; do
        trains $order $depth
        cmp -s "$work/$order-0" "$work/$order-$depth" || no "$order: $depth batches ahead change bits"
    done
done
[ $failed -eq 0 ] && echo "uploads in a queue of their own change no bit"
exit $((failed > 0))
