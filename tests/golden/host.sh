#!/bin/sh
# SPDX-License-Identifier: MIT
# host.sh COPSE [--update]: runs the rows of the golden table that need host:0 alone, and compares them with
# host.txt. With --update it prints the rows that changed, and writes host.txt anew. Rows that cannot run here are
# named and left out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '3,5s/^# //p' "$0" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export JOBS="${JOBS-2}"
"$here/run.sh" "$1" '^host/' | LC_ALL=C sort >"$work/all"
[ -s "$work/all" ] || { echo "host.sh: no row was run with '$1'"; exit 2; }
grep ' skipped: ' "$work/all"
grep -v ' skipped: ' "$work/all" >"$work/now"
sed -n 's/ skipped: .*/ /p' "$work/all" >"$work/skipped"
grep -v -F -f "$work/skipped" "$here/host.txt" >"$work/then"
"$here/compare.sh" "$work/then" "$work/now"
code=$?
if [ "${2-}" = --update ]; then
    grep -q -e ' failed: ' -e ' skipped: ' "$work/all" && { echo "host.txt is unchanged: all rows must run"; exit 1; }
    { sed -n '/^#/p' "$here/host.txt"; cat "$work/now"; } >"$work/host.txt" && cp "$work/host.txt" "$here/host.txt"
    exit
fi
[ $code -eq 0 ] || cat <<'TEXT'
These rows differ from tests/golden/host.txt. If the new results are not intended, the change is wrong. If they are,
write the rows anew and say in the commit message which rows changed and why:
    tests/golden/host.sh build/copse --update
TEXT
exit $code
