#!/bin/sh
# SPDX-License-Identifier: MIT
# static_names.sh SOURCE-FOLDER: the name of a static function has two words at least, so that grep, profilers and stack traces
# can tell it from others. Tables of kernels name those that are listed here.
set -u
cd "$1" || exit 1
listed='mish|power|widen|within'
find core prover backends tools -name '*.[ch]' -exec grep -nHE '^static [^=;(]*[ *][a-z0-9]+\(' {} + |
    grep -vE "[ *]($listed)\(" && { echo "one word: put the noun of the file in front, as in dense_infer"; exit 1; }
[ "$(find core -name '*.c' | wc -l)" -gt 100 ] || { echo "no sources in $1"; exit 1; }
echo "static functions have two words"
