#!/bin/sh
# SPDX-License-Identifier: MIT
# app_paint.sh PROGRAM: a window on an X server without a screen renders 40 frames while a network is trained between them.
# The program compares every pixel. Without an X server the frames are rendered and not shown.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
shown=$work/shown.ppm
if command -v xvfb-run >/dev/null; then
    xvfb-run -a -s '-screen 0 640x480x24' "$1" --frames 40 --budget 20000 --screenshot "$shown" >"$work/out" 2>"$work/errors"
else
    echo "not shown: there is no xvfb-run"
    "$1" --offscreen --frames 40 --budget 20000 --screenshot "$shown" >"$work/out" 2>"$work/errors"
fi
status=$?
cat "$work/out" "$work/errors"
if [ $status -eq 77 ]; then
    exit 77
fi
[ $status -eq 0 ] || exit 1
grep -q ', 0 wrong pixels; ' "$work/out" || { echo "a frame had wrong pixels"; exit 1; }
# a header of 15 bytes, and 3 bytes for each pixel
[ "$(wc -c <"$shown")" -eq $((15 + 384 * 128 * 3)) ] || { echo "the screenshot has another size"; exit 1; }
