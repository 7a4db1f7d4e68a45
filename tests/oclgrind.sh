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

# run KERNEL.cl: the case under oclgrind; its report stands in $work/log
run() {
    rm -f "$work/log"
    OCLGRIND_LOG="$work/log" timeout 250 "$copse" conformance run --no-isolation --device opencl:0 \
        --ops matmul --variant matmul --case 'a layer of 10, nn' --kernel "$1" --op matmul \
        >"$work/out" 2>&1
}

mkdir "$work/good" "$work/bad"
cp "$source/kernels/matmul.cl" "$work/good/matmul.cl"
awk '/BARRIER\(\);/ && ++n == 2 { next } { print }' "$source/kernels/matmul.cl" \
    >"$work/bad/matmul.cl"
cmp -s "$work/good/matmul.cl" "$work/bad/matmul.cl" && { echo "the fault was not planted"; exit 1; }

failed=0
run "$work/good/matmul.cl" || { echo "the good kernel: exit code $?"; cat "$work/out"; failed=1; }
[ -s "$work/log" ] && { echo "the good kernel is reported:"; head -20 "$work/log"; failed=1; }
run "$work/bad/matmul.cl"
grep -q 'data race' "$work/log" || { echo "the race was not found"; cat "$work/out" "$work/log"; failed=1; }
[ $failed -eq 0 ] && echo "the race is found, the kernel without it is silent"
exit $failed
