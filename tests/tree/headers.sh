#!/bin/sh
# SPDX-License-Identifier: MIT
# headers.sh C-COMPILER C++-COMPILER INCLUDE-FOLDER...: every public header compiles alone, twice
# in one unit, and all of them together, as C11 and as C++17, without a warning. Those that need the
# headers of an API are left out where these are missing. The everyday headers, those in copse/ itself, have at most
# 13,000 words together: they are complete, and one can read them in an hour.
set -u
cc=$1 cxx=$2
shift 2
include=
for folder; do
    include="$include -I$folder"
done
failed=0 count=0
warnings='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'
# compile NAME: the unit on stdin
unit=$(mktemp)
trap 'rm -f "$unit"' EXIT
compile() {
    cat >"$unit"
    $cc -std=c11 $warnings $include -x c "$unit" || { echo "$1: not clean C11"; failed=1; }
    [ "$cxx" = none ] || $cxx -std=c++17 $warnings $include -x c++ "$unit" ||
        { echo "$1: not clean C++17"; failed=1; }
}

# needs HEADER: the API's header that a public header includes, if any
needs() {
    case $1 in
    copse/device/opencl.h) echo CL/cl.h ;;
    copse/device/vulkan.h) echo vulkan/vulkan_core.h ;;
    esac
}
# is_there HEADER
is_there() {
    [ -z "$1" ] || printf '#include <%s>\n' "$1" |
        $cc -std=c11 -DCL_TARGET_OPENCL_VERSION=300 -fsyntax-only -x c - 2>/dev/null
}

names=
for folder; do
    for name in $(cd "$folder" && find copse -name '*.h' | sort); do
        if ! is_there "$(needs "$name")"; then
            echo "$name is left out: no $(needs "$name") (see scripts/packages.txt)"
            continue
        fi
        names="$names $name"
        count=$((count + 1))
        printf '#include <%s>\n' "$name" "$name" | compile "$name"
    done
done
{ # and the literals of shapes
    printf '#include <%s>\n' $names
    echo 'uint32_t ranks(void); uint32_t ranks(void) { return COPSE_SHAPE(2, 3).rank + COPSE_SCALAR.rank; }'
} | compile "all together"
[ "$count" -gt 0 ] || { echo "no headers under: $*"; exit 1; }
[ "$cxx" != none ] || echo "not tried as C++17: no C++ compiler (Debian package clang-14)"
words=$(for folder; do cat "$folder"/copse/*.h; done | wc -w)
[ "$words" -le 13100 ] || { echo "$words words in the everyday headers, more than 13100"; failed=1; }
echo "$count headers; $words words in the everyday ones"
exit $failed
