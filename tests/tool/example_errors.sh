#!/bin/sh
# SPDX-License-Identifier: MIT
# example_errors.sh DIGITS PROGRAM...: examples and the programs of pages, compiled with rig/fake/failing_calls.c. A batch that
# cannot be read, or a result that cannot be had, ends each of them with the text of the error and code 1.
set -u
digits=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$digits" "$work/digits.csv.gz"
cp "$(dirname "$digits")/../flowers.csv" "$work"
cd "$work" || exit 1
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# ends_at CALL COUNT TEXT: the program stops at the call of this number
ends_at() {
    COPSE_FAIL=$1:$2 timeout 250 "$program" $arguments >stdout 2>stderr
    code=$?
    if [ $code -eq 77 ]; then
        echo "$name is left out: $(cat stderr)"
        return
    fi
    [ $code -eq 1 ] || no "$name: code $code after an error of $1: $(cat stdout stderr)"
    grep -q "^$name: $3\$" stderr || no "$name: no '$3' in: $(cat stderr)"
    ! grep -q 'LeakSanitizer' stderr || no "$name: $(cat stderr)"
}

for program; do
    name=$(basename "$program")
    name=${name#failing_}
    arguments=
    case $name in
    digits | eight_bit_gradients | fine_tune | layers | lend_vulkan) arguments=digits.csv.gz ;;
    monitor_step) arguments=run ;;
    page_layers) name=layers ;;
    page_first) name=first ;;
    esac
    case $name in
    named_inputs) # it has a loop of its own
        ends_at loader_next 3 'cat/05.png is a damaged PNG'
        ends_at trainer_result 3 'worker 3 is lost'
        ;;
    contrastive | evaluation | gan | meta_learner) ends_at value_read 3 'opencl:0: the device is lost' ;;
    merge_call) # in a replica, and after the run
        ends_at value_read 2 'opencl:0: the device is lost; in replica 1'
        ends_at value_read 4 'opencl:0: the device is lost'
        ;;
    monitor_step | parameter_servers) ends_at trainer_result 3 'worker 3 is lost' ;;
    user_op) ends_at function_run 1 'opencl:0: the device is lost' ;;
    eight_bit_gradients | fine_tune | predict | table | text) ends_at model_fit 1 'cat/05.png is a damaged PNG' ;;
    *) ends_at trainer_fit 1 'cat/05.png is a damaged PNG' ;;
    esac
done
[ $failed -eq 0 ] && echo "$# programs end with their errors"
exit $failed
