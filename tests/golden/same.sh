#!/bin/sh
# SPDX-License-Identifier: MIT
# same.sh COPSE FILTER: runs rows of the golden table (run.sh), and demands that rows DRIVER/NAME-N-... of the same driver, name
# and N, which have N replicas, give the same variables, slots and losses: strategies, reductions, transfers, workers and recomputation
# change no bit. Rows that cannot run here are named and left out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || { sed -n '3,5s/^# //p' "$0" >&2; exit 2; }
"$here/run.sh" "$1" "$2" | LC_ALL=C sort | awk '
    / skipped: / { print; next }
    { rows++ }
    $2 !~ /^vars=/ { print; failed = 1; next }
    { group = match($1, "^[a-z]*/[a-z]*-[0-9][0-9]*") ? substr($1, 1, RLENGTH) : $1; bits = $2 " " $3 " " $4 }
    !(group in first) { first[group] = $1; is[group] = bits; next }
    is[group] != bits { print $1 ": other bits than " first[group] ": " bits ", not " is[group]; failed = 1 }
    { equal++ }
    END {
        if (rows < 2) { print "fewer than two rows ran"; exit 77 }
        printf "%d rows, %d of them with the bits of another\n", rows, equal
        exit failed
    }'
