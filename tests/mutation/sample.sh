#!/bin/sh
# SPDX-License-Identifier: MIT
# A sample of the mutation gate: sample.sh COPSE. The whole gate is mutants.py, see ./check --full.
set -eu
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
"$1" devices 2>/dev/null | grep -q '^opencl:0' || { echo "skipped: there is no opencl:0"; exit 77; }
exec python3 "$(dirname "$0")/mutants.py" "$1" --per-kernel 1 --least 85 \
    --only adam,binary_grad,conv,dropout,pool_grad,sort_place,tree_sum,where
