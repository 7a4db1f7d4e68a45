#!/bin/sh
# SPDX-License-Identifier: MIT
# compare.sh OLD_COPSE NEW_COPSE [FILTER]: runs the golden table (run.sh) with two builds on every driver of this
# machine and prints the rows that differ. Exit code 0: no row differs or fails. Instead of a build, a file that
# run.sh printed may be given: its rows are taken as they are.
# JOBS=N runs N rows at a time.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '3,6s/^# //p' "$0" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
filter=${3-.}

# table BUILD-OR-FILE
table() {
    if [ -x "$1" ]; then
        "$here/run.sh" "$1" "$filter"
    else
        sed '/^#/d;s/ /\t/' "$1" | awk -F '\t' -v filter="$filter" '$1 ~ filter { print $1 " " $2 }'
    fi | LC_ALL=C sort
}
for side in "$1" "$2"; do
    [ -x "$side" ] || [ -f "$side" ] || { echo "compare.sh: '$side' is neither a build nor a table" >&2; exit 2; }
done
table "$1" >"$work/old" && table "$2" >"$work/new" || exit 2
LC_ALL=C join -a 1 -a 2 -e missing -o 0 "$work/old" "$work/new" >"$work/names"
awk -v old="$work/old" -v new="$work/new" '
    function load(file, rows,   line, at) {
        while ((getline line < file) > 0) {
            at = index(line, " ")
            rows[substr(line, 1, at - 1)] = substr(line, at + 1)
        }
    }
    function column(row, name) { return match(row, name "=[^ ]*") ? substr(row, RSTART, RLENGTH) : "" }
    BEGIN { load(old, was); load(new, is) }
    {
        rows++
        a = ($1 in was) ? was[$1] : "missing"
        b = ($1 in is) ? is[$1] : "missing"
        if (a ~ /^skipped:/ && b ~ /^skipped:/) { skipped++; print $1 ": " b; next }
        if (a == b && a !~ /^failed:/) next
        differ++
        if (a !~ /^vars=/ || b !~ /^vars=/) { print $1 ": old " substr(a, 1, 200) "; new " substr(b, 1, 200); next }
        what = ""
        if (column(a, "vars") != column(b, "vars")) what = what " vars"
        if (column(a, "state") != column(b, "state")) what = what " state"
        if (column(a, "losses") != column(b, "losses")) what = what " losses"
        print $1 ": differs in" what "; old " column(a, "last") ", new " column(b, "last")
    }
    END {
        if (!rows) { print "no row has such a name"; exit 2 }
        printf "%d rows, %d differ%s\n", rows, differ, skipped ? ", " skipped " skipped" : ""
        exit differ > 0
    }' "$work/names"
