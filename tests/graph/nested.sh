#!/bin/sh
# SPDX-License-Identifier: MIT
# nested.sh LIBRARY INCLUDE...: builds nested.c with gcc and with clang; both programs must print the same bits.
set -u
library=$1
shift
source=$(cd "$(dirname "$0")" && pwd)/nested.c
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
includes=''
for folder in "$@"; do includes="$includes -I$folder"; done
built=''
for compiler in gcc clang clang-19 clang-16 clang-15 clang-14; do
    command -v "$compiler" >/dev/null || continue
    case $compiler in clang*) case $built in *clang*) continue ;; esac ;; esac
    # shellcheck disable=SC2086
    "$compiler" -std=c11 $includes -o "$work/$compiler" "$source" "$library" "-Wl,-rpath,$(dirname "$library")" || exit 1
    "$work/$compiler" >"$work/$compiler.txt" || exit 1
    built="$built $compiler"
done
case $built in
    *gcc*clang*) ;;
    *) echo "skipped: needs gcc and clang, found:${built:- none}"; exit 77 ;;
esac
# shellcheck disable=SC2086
set -- $built
echo "$1 and $2 print:"
cat "$work/$1.txt"
cmp "$work/$1.txt" "$work/$2.txt"
