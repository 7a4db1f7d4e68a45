#!/bin/sh
# SPDX-License-Identifier: MIT
# named_tests.sh SOURCE CTEST BUILD: the tests that README.md (guarantees) and docs/tf-distribute-tests.md name exist. A
# name is `file:function`, a function of the file that was named before, `test_file`, a script, or a test of ctest, where
# `*` stands for anything. Each guarantee has a test.
set -u
source=$1 ctest=$2 build=$3
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# In a folder of its own: ctest -N in the build folder clears the log of the run that this test belongs to.
printf 'subdirs("%s")\n' "$build" >"$work/CTestTestfile.cmake"
"$ctest" --test-dir "$work" -N | sed -n 's/^ *Test *#[0-9]*: //p' >"$work/ctest"
cat "$source"/tests/*/*.[ch] "$source"/tests/rig/*/*.[ch] | sed -n 's/^static void \([a-z0-9_]*\)(void \*\*.*/\1/p' | sort -u >"$work/functions"

no() {
    echo "$*"
    failed=1
}

# names FILE HEADING COLUMN: the words in backticks in a column of the tables whose heading has HEADING there; "row" and
# the first cell before those of each row
names() {
    awk -F'|' -v heading="$2" -v column="$3" '
        function trim(s) { gsub(/^ +| +$/, "", s); return s }
        !/^\|/ { inside = 0; next }
        trim($column) ~ heading { inside = 1; next }
        inside && $2 !~ /^-+$/ {
            print "row", $2
            n = split($column, part, "`")
            for (i = 2; i <= n; i += 2) print part[i]
        }' "$1"
}

has_function() { # FUNCTION FILE-WITHOUT-ENDING
    grep -qsE "^(static )?void $1\(void \*\*" "$source"/tests/*/"$2".[ch] "$source"/tests/rig/*/"$2".[ch]
}

check() { # PAGE HEADING COLUMN
    count=0 last=
    names "$source/$1" "$2" "$3" >"$work/names"
    while read -r name; do
        count=$((count + 1))
        case $name in
        row | row\ *) count=$((count - 1)) ;;
        *:*)
            last=${name%%:*}
            has_function "${name#*:}" "$last" || no "$1: there is no test $name" ;;
        *.sh) ls "$source"/tests/*/"$name" >/dev/null 2>&1 || no "$1: there is no script $name" ;;
        *\**) grep -q "^$(printf '%s' "$name" | sed 's/[.]/[.]/g; s/\*/.*/g')\$" "$work/ctest" || no "$1: no test matches $name" ;;
        *) has_function "$name" "$last" || grep -qx "$name" "$work/functions" || grep -qx "$name" "$work/ctest" ||
            ls "$source"/tests/*/"$name".c >/dev/null 2>&1 || no "$1: there is no test $name" ;;
        esac
    done <"$work/names"
    [ "$count" -gt 0 ] || no "$1: names no test"
    echo "$1: $count names of tests"
}

check README.md "^tests$" 4
check docs/tf-distribute-tests.md "^tests?$" 3
check docs/tf-distribute-tests.md "^test$" 4
names "$source/README.md" "^tests$" 4 | awk '
    /^row/ { if (row && !tests) { print "no test:" row; bad = 1 }; row = substr($0, 4); tests = 0; next }
    { tests++ }
    END { if (!tests) { print "no test:" row; bad = 1 }; exit bad }' || no "README.md: a guarantee has no test"
exit $failed
