#!/bin/sh
# SPDX-License-Identifier: MIT
# Products of CLBlast, forced, in the cases of matmul and dense: results and gradients. A device without CLBlast is said to be
# without it, and refuses the variant.
# usage: clblast.sh COPSE DATA
# Without COPSE_TEST_ALL the cases of tier quick.
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

tier=quick least=19
[ -z "${COPSE_TEST_ALL-}" ] || tier=standard least=500
timeout 900 "$copse" conformance run grad --device opencl:0 --tier $tier --ops matmul,dense --variant matmul_clblast \
    --seconds 0 --json >"$work/json" 2>"$work/stderr" || no "exit code $?: $(tail -n 3 "$work/stderr")"
grep '"event":"case"' "$work/json" >"$work/cases"
pass=$(grep -c '"verdict":"PASS"' "$work/cases")
[ "$pass" -ge $least ] || no "$pass cases pass, not $least"
# sums of over 65,536 terms are not supported
grep -v '"verdict":"PASS"' "$work/cases" | grep -v '"name":"k of 140,000".*"verdict":"UNSUPPORTED"' >"$work/others"
[ -s "$work/others" ] && no "not all pass: $(head -n 2 "$work/others")"
echo "$pass cases pass with CLBlast"
exit $((failed > 0))
