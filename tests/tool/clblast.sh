#!/bin/sh
# SPDX-License-Identifier: MIT
# Products of CLBlast, forced, in the cases of matmul and dense: results and gradients. A device without CLBlast is said to be
# without it, and refuses the variant.
# usage: clblast.sh COPSE DATA
set -u
copse=$1
data=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
export COPSE_DISABLE=vulkan
"$copse" devices >"$work/devices" 2>&1 || no "devices: $(cat "$work/devices")"
grep -q '^opencl:0 ' "$work/devices" || { echo "skipped: there is no opencl:0"; exit 77; }
if ! grep -q 'CLBlast' "$work/devices"; then
    bad 'forced without CLBlast' 'cannot run the variant matmul_clblast: .* \(Debian package libclblast1\)' \
        train --data "$data" --devices opencl:0 --kernel matmul=clblast --epochs 1 --no-cache
    [ $failed -gt 0 ] && exit 1
    echo "skipped: CLBlast is not installed (Debian package libclblast1)"
    exit 77
fi

least=517
timeout 900 "$copse" conformance run grad --device opencl:0 --tier standard --ops matmul,dense --variant matmul_clblast \
    --seconds 0 --json >"$work/json" 2>"$work/stderr" || no "exit code $?: $(tail -n 3 "$work/stderr")"
grep '"event":"case"' "$work/json" >"$work/cases"
pass=$(grep -c '"verdict":"PASS"' "$work/cases")
[ "$pass" -ge $least ] || no "$pass cases pass, not $least"
grep -v '"verdict":"PASS"' "$work/cases" | grep -q . && no "not all pass: $(grep -v '"verdict":"PASS"' "$work/cases" | head -n 2)"
echo "$pass cases pass with CLBlast"
exit $((failed > 0))
