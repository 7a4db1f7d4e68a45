#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh BUILD [SECONDS [TARGET...]]: readers of files under clang's libFuzzer with the address and undefined-behaviour
# sanitizers, SECONDS for each target [60], all targets without a list. A crash, a leak, an allocation of more than 64 MiB
# or a file that takes 20 s fails; its input is kept as BUILD/fuzz/TARGET.found.*. Inputs that reach new code stay in
# BUILD/fuzz/TARGET for the next run. CC names the compiler [clang]. Exit code 77: skipped.
set -eu
build=$1 seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
source=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-}
for each in ${cc:-clang clang-19 clang-17 clang-15 clang-14}; do
    command -v "$each" >/dev/null && cc=$each && break
done
printf 'int LLVMFuzzerTestOneInput(const char *a, unsigned long b) { return !a && b; }\n' >"${TMPDIR:-/tmp}/fuzz_probe.$$.c"
"${cc:-clang}" -fsanitize=fuzzer,address,undefined "${TMPDIR:-/tmp}/fuzz_probe.$$.c" -o "${TMPDIR:-/tmp}/fuzz_probe.$$" 2>/dev/null ||
    { rm -f "${TMPDIR:-/tmp}/fuzz_probe.$$.c"; echo "skipped: no clang with libFuzzer"; exit 77; }
rm -f "${TMPDIR:-/tmp}/fuzz_probe.$$.c" "${TMPDIR:-/tmp}/fuzz_probe.$$"
given=
[ ! -d "$build/gen" ] || given=-DCOPSE_GENERATED_BY=$(cd "$build" && pwd)/gen
mkdir -p "$build/fuzz"
cmake -S "$source" -B "$build/fuzz/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$(echo "$cc" | sed 's/clang\([^/]*\)$/clang++\1/')" \
    -DCMAKE_C_FLAGS="-fsanitize=fuzzer-no-link -O1 -g1" -DCOPSE_SANITIZE=address,undefined -DCOPSE_TESTS=ON -DCOPSE_FUZZ=ON $given \
    >"$build/fuzz/log" && ninja -C "$build/fuzz/build" copse_fuzz >>"$build/fuzz/log" || { tail -n 30 "$build/fuzz/log"; exit 1; }
fuzz=$build/fuzz/build/tests/copse_fuzz
[ $# -gt 0 ] || set -- $("$fuzz")
failed=0
for target in "$@"; do
    mkdir -p "$build/fuzz/$target.seeds" "$build/fuzz/$target"
    COPSE_FUZZ_TARGET=$target COPSE_FUZZ_SEEDS=$build/fuzz/$target.seeds "$fuzz" -max_total_time="$seconds" -timeout=20 \
        -malloc_limit_mb=64 -rss_limit_mb=2048 -max_len=200000 -print_final_stats=1 -artifact_prefix="$build/fuzz/$target.found." \
        "$build/fuzz/$target" "$build/fuzz/$target.seeds" >"$build/fuzz/$target.log" 2>&1 && code=0 || code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz/$target.log")
    reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$build/fuzz/$target.log" | tail -n 1)
    echo "$target: ${runs:-?} files, ${reached:-?} places reached, exit code $code"
    if [ "$code" -ne 0 ]; then
        failed=1
        grep -m 3 -E 'ERROR|runtime error|SUMMARY|copse_fuzz:' "$build/fuzz/$target.log" || tail -n 5 "$build/fuzz/$target.log"
    fi
done
exit $failed
