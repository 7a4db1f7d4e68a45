#!/bin/sh
# SPDX-License-Identifier: MIT
# app_paint.sh PROGRAM: a window on an X server without a screen (Xvfb) renders 40 frames while a network is trained between
# them. The program compares every pixel. Without Xvfb the frames are rendered and not shown.
set -u
work=$(mktemp -d) || exit 1
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
shown=$work/shown.ppm

run() {
    "$@" --frames 40 --budget 20000 --screenshot "$shown" >"$work/out" 2>"$work/errors"
}

if command -v Xvfb >/dev/null; then
    # it writes the number of its display when it accepts programs
    Xvfb -displayfd 3 -screen 0 640x480x24 -noreset -nolisten tcp 3>"$work/display" 2>"$work/server" &
    server=$!
    while [ ! -s "$work/display" ]; do
        kill -0 "$server" 2>/dev/null || { cat "$work/server"; echo "Xvfb does not start"; server=; exit 1; }
        sleep 0.1
    done
    run env DISPLAY=":$(cat "$work/display")" "$1"
else
    echo "not shown: there is no Xvfb"
    run "$1" --offscreen
fi
status=$?
cat "$work/out" "$work/errors"
[ $status -ne 77 ] || exit 77 # no Vulkan device
[ $status -eq 0 ] || exit 1
grep -q ', 0 wrong pixels; ' "$work/out" || { echo "a frame had wrong pixels"; exit 1; }
# a header of 15 bytes, and 3 bytes for each pixel
[ "$(wc -c <"$shown")" -eq $((15 + 384 * 128 * 3)) ] || { echo "the screenshot has another size"; exit 1; }
env -u DISPLAY "$1" --frames 1 >"$work/out" 2>"$work/errors"
[ $? -eq 77 ] && grep -q '; --offscreen renders without one$' "$work/errors" ||
    { cat "$work/errors"; echo "without an X server --offscreen is not named"; exit 1; }
