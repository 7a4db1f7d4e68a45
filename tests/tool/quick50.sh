#!/bin/sh
# SPDX-License-Identifier: MIT
# The quick conformance run again and again with warm caches, those of XDG_CACHE_HOME or new ones: a
# verdict, a count of cases or an error figure that differs from one repetition to the next fails, as
# does any case that does not pass.
# usage: quick50.sh COPSE [REPETITIONS [DEVICES]]
set -u
copse=$1
times=${2-50}
devices=${3-opencl:0,vulkan:0}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$work}"

# once N: every case without its time, sorted, in $work/N
once() {
    timeout 3000 "$copse" conformance --devices "$devices" --seconds 0 --deadline 600 \
        --csv "$work/csv" >"$work/out" 2>&1
    code=$?
    sed -E '1d; s/,[^,]*,([^,]*,[^,]*,0x[0-9a-f]+,)/,\1/' "$work/csv" | sort >"$work/$1"
    return $code
}

once 0 || { echo "FAILED: filling the caches: exit code $?"; tail -n 20 "$work/out"; exit 1; }
cases=$(wc -l <"$work/0")
[ "$cases" -gt 0 ] || { echo "FAILED: no case was run"; exit 1; }
failed=0
for i in $(seq "$times"); do
    once "$i" || { echo "FAILED: repetition $i: exit code $?"; grep -A 3 '^[A-Z_]* *[a-z]*:' "$work/out"
        failed=$((failed + 1)); }
    cmp -s "$work/0" "$work/$i" || { echo "FAILED: repetition $i differs:"
        diff "$work/0" "$work/$i" | head -n 10; failed=$((failed + 1)); }
    rm -f "$work/$i"
done
printf '%d repetitions of %d cases on %s, %d failed\n' "$times" "$cases" "$devices" "$failed"
[ "$failed" -eq 0 ]
