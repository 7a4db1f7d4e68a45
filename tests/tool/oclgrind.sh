#!/bin/sh
# SPDX-License-Identifier: MIT
# A missing barrier that no comparison on PoCL sees, since it runs the invocations of a group one after
# the other between its own barriers: oclgrind does. The kernel without the fault must be silent.
# usage: oclgrind.sh COPSE SOURCE_FOLDER
set -u
copse=$1
source=$2
icd=/usr/lib/oclgrind/liboclgrind-rt-icd.so
[ -e $icd ] || { echo "skipped: oclgrind is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/vendors" "$work/cache"
echo $icd >"$work/vendors/oclgrind.icd"
export OCL_ICD_VENDORS="$work/vendors/" XDG_CACHE_HOME="$work/cache" COPSE_DISABLE=vulkan
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_NUM_THREADS=1

# run FOLDER KERNEL CASE: the case under oclgrind, which reports to $work/log
run() {
    rm -f "$work/log"
    OCLGRIND_LOG="$work/log" timeout 250 "$copse" conformance run --no-isolation --device opencl:0 \
        --ops "$2" --variant "$2" --case "$3" --kernel "$work/$1/$2.cl" --op "$2" >"$work/out" 2>&1
}

# check FAMILY KERNEL CASE: the kernel is silent, and not without its second barrier
mkdir "$work/good" "$work/bad"
failed=0
check() {
    family=$1 && shift
    awk -v top="$source/kernels/" -F '"' '
        /^#include "/ { while ((getline line < (top $2)) > 0) print line; close(top $2); next }
        { print }' "$source/kernels/$family/$1.cl" >"$work/good/$1.cl"
    awk '/BARRIER\(\);/ && ++n == 2 { sub(/BARRIER\(\);/, "") } { print }' "$work/good/$1.cl" >"$work/bad/$1.cl"
    cmp -s "$work/good/$1.cl" "$work/bad/$1.cl" && { echo "$1: the fault was not planted"; failed=1; }
    run good "$1" "$2" || { echo "$1: the good kernel: exit code $?"; cat "$work/out"; failed=1; }
    [ -s "$work/log" ] && { echo "$1: the good kernel is reported:"; head -20 "$work/log"; failed=1; }
    run bad "$1" "$2"
    grep -q 'data race' "$work/log" ||
        { echo "$1: the race was not found"; cat "$work/out" "$work/log"; failed=1; }
}

check product matmul 'a layer of 10, nn'
check row layer_norm 'rows of 37'
[ $failed -eq 0 ] && echo "the races are found, the kernels without them are silent"
exit $failed
