#!/bin/sh
# SPDX-License-Identifier: MIT
# example_errors.sh DIGITS PROGRAM...: examples and the programs of pages, compiled with rig/failing_calls.c. A batch that
# cannot be read, or a result that cannot be had, ends each of them with the text of the error and code 1.
set -u
digits=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$digits" "$work/digits.csv.gz"
cd "$work" || exit 1
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# ends_at CALL TEXT: the program stops at the third CALL
ends_at() {
    COPSE_FAIL=$1:3 timeout 250 "$program" $arguments >stdout 2>stderr
    code=$?
    if [ $code -eq 77 ]; then
        echo "$name is left out: $(cat stderr)"
        return
    fi
    [ $code -eq 1 ] || no "$name: code $code after an error of $1: $(cat stdout stderr)"
    grep -q "^$name: $2\$" stderr || no "$name: no '$2' in: $(cat stderr)"
    ! grep -q 'LeakSanitizer' stderr || no "$name: $(cat stderr)"
}

for program; do
    name=$(basename "$program")
    name=${name#failing_}
    arguments=
    case $name in
    digits | layers | lend_vulkan) arguments=digits.csv.gz ;;
    page_layers) name=layers ;;
    page_first) name=first ;;
    esac
    ends_at batches_next 'cat/05.png is a damaged PNG'
    [ "$name" = predict ] || ends_at trainer_result 'worker 3 is lost' # it takes no results
done
[ $failed -eq 0 ] && echo "$# programs end with their errors"
exit $failed
