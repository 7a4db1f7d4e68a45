#!/bin/sh
# SPDX-License-Identifier: MIT
# python.sh BUILD SOURCE COMPILER: the Python package's tests against the library of a build. Exit code 77: skipped.
set -eu
build=$1 source=$2 compiler=$3
# The system's Python has the packages of scripts/packages.txt; another one may come first in PATH.
python=
for each in ${COPSE_PYTHON:-python3 /usr/bin/python3}; do
    "$each" -c "import cffi, numpy" 2>/dev/null && python=$each && break
done
[ -n "$python" ] || { echo "skipped: no python3 with the packages cffi and numpy (python3-cffi, python3-numpy)"; exit 77; }
work=$build/tests/python
. "$source/tests/tree/stage_python.sh"
stage_python "$build" "$source" "$compiler" "$work" "$python"
export COPSE_MAKE_LANGUAGE="$build/tests/make_language"
export COPSE_DIGITS="$source/examples/data/digits/digits.csv.gz"
# A sanitized library needs the sanitizer's own before Python's allocations, which then come from malloc, so that the
# sanitizer finds memory of Python that the library reads too late.
if ldd "$build/libcopse.so" | grep -q libasan; then
    LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)"
    COPSE_TEST_DEVICES=host:0 # drivers under the sanitizer are tested by the C tests
    export COPSE_TEST_DEVICES LD_PRELOAD PYTHONMALLOC=malloc ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}"
fi
cd "$work"
"$python" -W error::ResourceWarning -m unittest discover -v -s "$source/bindings/python/tests" >"$work/log" 2>&1 && code=0 || code=1
sed -n "s/.* \.\.\. skipped ['\"]\(.*\)['\"]$/skipped: \1/p" "$work/log" | sort -u
[ $code = 0 ] || { cat "$work/log"; exit 1; }
tail -n 4 "$work/log"
