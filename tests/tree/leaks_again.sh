#!/bin/sh
# SPDX-License-Identifier: MIT
# leaks_again.sh COMMAND...: runs a test of a sanitized build, and again, three times at most, where the search for
# leaks itself died after it, as it does now and then on threads of drivers that end at that moment. All else is the
# test's own end.
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for turn in 1 2 3; do
    "$@" >"$out" 2>&1
    end=$?
    cat "$out"
    [ $end != 0 ] && grep -q 'LeakSanitizer has encountered a fatal error' "$out" || break
    echo "the search for leaks died, in turn $turn"
done
exit $end
