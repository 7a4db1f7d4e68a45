#!/bin/sh
# SPDX-License-Identifier: MIT
# build_in of scripts/setup.sh: few lines where standard output is no terminal, all commands with COPSE_VERBOSE=1, and
# errors of a build that fails.
# usage: build_in.sh TOP
set -u
top=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../tool/expect.sh"
cd "$work" || exit 1
{
    echo 'cmake_minimum_required(VERSION 3.25)'
    echo 'project(many C)'
    echo 'file(GLOB sources *.c)'
    echo 'add_library(many STATIC ${sources})'
} >CMakeLists.txt
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "int f$i(void); int f$i(void) { return $i; }" >"f$i.c"
done
build() { (. "$top/scripts/setup.sh" && build_in out) >stdout 2>stderr; }

unset COPSE_VERBOSE
build || no "it does not build: $(cat stderr)"
[ "$(wc -l <stdout)" -le 4 ] && [ ! -s stderr ] || no "many lines: $(cat stdout stderr)"
grep -q '^== building out' stdout || no "it does not say what it builds: $(cat stdout)"
rm -rf out
COPSE_VERBOSE=1
export COPSE_VERBOSE
build || no "it does not build: $(cat stderr)"
[ "$(grep -c 'f[0-9]*\.c\.o' stdout)" -ge 12 ] || no "COPSE_VERBOSE=1: $(cat stdout)"
unset COPSE_VERBOSE
echo 'int g(void) { return not_there; }' >f3.c
build && no 'a build that fails succeeds'
grep -q "f3.c:1.*error:.*not_there" stderr || no "no error: $(cat stderr)"
grep -q '^failed: the build in out' stderr || no "no last line: $(cat stderr)"
[ "$(wc -l <stderr)" -le 12 ] || no "many lines about one error: $(cat stderr)"
[ $failed -eq 0 ] && echo 'a build prints few lines, and errors'
exit $failed
