#!/bin/sh
# SPDX-License-Identifier: MIT
# tf_names.sh SOURCE: every name of tests/tree/tf_names.txt is a word in the first column of a table of
# docs/from-tf-distribute.md.
set -eu
cd "$1"

awk '
    FNR == NR {
        if ($0 ~ /^\| / && split($0, cell, "|") > 2) {
            n = split(cell[2], word, /[^A-Za-z0-9_]+/)
            for (i = 1; i <= n; i++)
                has[word[i]] = 1
        }
        next
    }
    /^#/ || /^$/ { next }
    { names++ }
    !($0 in has) { print "docs/from-tf-distribute.md has no row for " $0; missing++ }
    END {
        if (missing)
            exit 1
        print names " names have rows"
        exit names < 80
    }
' docs/from-tf-distribute.md tests/tree/tf_names.txt
