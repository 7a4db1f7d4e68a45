#!/bin/sh
# SPDX-License-Identifier: MIT
# host.sh COPSE [--update]: runs the host rows of the golden table and compares them with host.txt. With --update it
# writes host.txt anew instead, and prints the rows that changed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export JOBS="${JOBS-2}"
"$here/run.sh" "$1" '^host/' | LC_ALL=C sort >"$work/now" || exit 2
"$here/compare.sh" "$here/host.txt" "$work/now"
code=$?
if [ "${2-}" = --update ]; then
    grep '^[^ ]* failed:' "$work/now" && { echo "host.txt is left as it was: rows failed"; exit 1; }
    { sed -n '/^#/p' "$here/host.txt"; cat "$work/now"; } >"$work/host.txt" && cp "$work/host.txt" "$here/host.txt"
    exit
fi
[ $code -eq 0 ] || cat <<'TEXT'
These rows do not have the bits of tests/golden/host.txt. If the change is not intended, it is a fault of the change. If it
is intended, write the new rows and say in the commit message which rows changed and why:
    tests/golden/host.sh build/copse --update
TEXT
exit $code
