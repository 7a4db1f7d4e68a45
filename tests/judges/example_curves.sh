#!/bin/sh
# SPDX-License-Identifier: MIT
# example_curves.sh PROGRAM CURVE DEVICES...: an example prints the losses that PyTorch has computed, to 1e-5, on each of the lists
# of devices. CURVE is a file of tests/judges/curves, made by `python3 tests/judges/torch_examples.py NAME`.
set -u
program=$1 curve=$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
run=0
for devices; do
    timeout 250 "$program" "$devices" >"$work/out" 2>"$work/error"
    code=$?
    if grep -q 'nothing matches' "$work/error"; then
        echo "$devices: left out: $(cat "$work/error")"
        continue
    fi
    if [ $code -ne 0 ]; then
        echo "FAILED: $devices: code $code: $(cat "$work/error")"
        failed=1
        continue
    fi
    run=$((run + 1))
    paste -d ' ' "$curve" "$work/out" | awk -v devices="$devices" '
        { n = NF / 2
          if (n < 1 || n != int(n)) { print "FAILED: " devices ": line " NR " is not a line of the curve: " $0; bad = 1; next }
          for (i = 1; i <= n; i++) {
              d = $i - $(i + n)
              if (!(d < 1e-5 && d > -1e-5)) { print "FAILED: " devices ": step " NR " has " $(i + n) ", PyTorch " $i; bad = 1 }
              if (d < 0) d = -d
              if (d > most) most = d
          } }
        END { if (NR != 20) { print "FAILED: " devices ": " NR " steps, not 20"; bad = 1 }
              print devices ": largest difference " most; exit bad }' || failed=1
done
[ $run -gt 0 ] || { echo "skipped: none of the devices is here"; exit 77; }
exit $failed
