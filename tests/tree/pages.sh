#!/bin/sh
# SPDX-License-Identifier: MIT
# pages.sh BUILD PAGE.md...: runs the sh blocks of each page, in their order in an empty folder, with Copse installed and in
# PATH. A command that fails ends the test.
set -eu
build=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/copse" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
PATH=$work/copse/bin:$PATH
HOME=$work/home
export PATH HOME
mkdir "$HOME"
for page in "$@"; do
    name=$(basename "$page" .md)
    mkdir "$work/$name"
    { echo 'set -eux'; awk '$0 == "```sh" { inside = 1; next } /^```/ { inside = 0 } inside' "$page"; } >"$work/$name.sh"
    [ "$(wc -l <"$work/$name.sh")" -gt 1 ] || { echo "$page: has no sh block"; exit 1; }
    (cd "$work/$name" && sh "$work/$name.sh") >"$work/log" 2>&1 || { cat "$work/log"; echo "$page: a command failed"; exit 1; }
    echo "$page: $(grep -c '^+ ' "$work/log") commands"
done
