#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse train --shares`: shares that are given, measured, recalled by a later run and kept by a resumed one; a device
# without a share; devices that differ. Nothing here depends on which device is faster.
# usage: shares.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
two="--devices host:0,host:0 --model mlp:16 --batch 96"

# run NAME OPTIONS: what it prints, and the model
run() {
    name=$1
    shift
    "$copse" train --epochs 2 --save "$work/$name" "$@" >"$work/$name.txt" 2>"$work/$name.err" ||
        no "$*: $(cat "$work/$name.err")"
}
same() { cmp -s "$work/$1" "$work/$2" && passed=$((passed + 1)) || no "$3"; }
shows() { grep -q "$2" "$work/$1.txt" && passed=$((passed + 1)) || no "$1 without '$2': $(grep -A2 '^shares' "$work/$1.txt")"; }

bad 'no numbers' '--shares: equal, measured' train $two --shares some
bad 'no share at all' '--shares: equal, measured' train $two --shares 0,0
bad 'a share below 0' '--shares: equal, measured' train $two --shares 1,-1
bad 'an empty share' '--shares: equal, measured' train $two --shares 1,
bad 'too few shares' '2 devices' train $two --shares 1,2,3
bad 'shares of an accelerator' 'leave it out' train $two --shares 1,2 --strategy accelerator
bad 'shares of one device' 'leave it out' train --devices host:0 --strategy one_device --shares measured

# The reference has equal shares, and nothing is measured.
run equal $two
grep -q '^shares' "$work/equal.txt" && no "host:0: $(grep '^shares' "$work/equal.txt")"
run equal2 $two --shares equal
same equal equal2 'equal shares are not the default of host:0'
run given $two --shares 1,1
same equal given 'the shares 1,1 are not equal ones'

# Other shares, other sums; a share of 0 is a run without the device.
run unequal $two --shares 3,1
shows unequal '^shares   host:0 3, host:0 1 (given)$'
cmp -s "$work/equal" "$work/unequal" && no 'the shares 3,1 have the bits of equal ones'
run none $two --shares 0,2
shows none '^         host:0 (replica 0) gets no examples$'
shows none 'samples/s on 1 device$'
[ -s "$work/none.err" ] && no "a share of 0: $(cat "$work/none.err")"
run tiny $two --batch 8 --shares 1000,1 --epochs 1
grep -q 'replica 1 (host:0) has the share 1 of 1001, and gets no example of a batch of 8; ' "$work/tiny.err" &&
    passed=$((passed + 1)) || no "a share that is too small: $(cat "$work/tiny.err")"
[ "$(grep -c 'gets no example' "$work/tiny.err")" = 1 ] || no "more than one line: $(cat "$work/tiny.err")"
run small $two --batch 8 --shares 7,1 --epochs 1
[ -s "$work/small.err" ] && no "a share of one example: $(cat "$work/small.err")"
run alone --devices host:0 --model mlp:16 --batch 96
same none alone 'a device without examples changes bits'

# What was measured is recalled: the same shares, the same bits.
run measured $two --shares measured
shows measured '^shares   .*(measured: alone host:0 '
run again $two --shares measured
shows again '^shares   .*(measured by an earlier run of this job; '
same measured again 'a second run has other bits'
of() { sed -n 's/^shares   \([^(]*\) (.*/\1/p' "$work/$1.txt"; }
[ -n "$(of again)" ] && [ "$(of measured)" = "$(of again)" ] || no "shares '$(of measured)', then '$(of again)'"
run told $two --shares "$(of measured | sed 's/host:0 //g; s/, /,/')"
same measured told 'measuring changes bits'
run other $two --shares measured --batch 48
shows other '(measured: '
"$copse" tune --forget host:0 >/dev/null 2>&1
run fresh $two --shares measured
shows fresh '(measured: '

# A resumed run has the shares of its checkpoint, also where the record has gone.
run whole $two --shares measured --checkpoint "$work/checkpoints" --epochs 2
"$copse" tune --forget host:0 >/dev/null 2>&1
run longer $two --shares measured --checkpoint "$work/checkpoints" --resume --epochs 3
shows longer '(of the run that is resumed)$'
[ "$(of whole)" = "$(of longer)" ] || no "shares '$(of whole)', resumed '$(of longer)'"

# Equal shares are kept too: a resumed run measures nothing, unless it is told.
run even3 $two --checkpoint "$work/plain" --epochs 1
run even4 $two --checkpoint "$work/plain" --resume --epochs 2
grep -q '^shares' "$work/even4.txt" && no "resumed: $(grep '^shares' "$work/even4.txt")"
run even5 $two --checkpoint "$work/plain" --resume --epochs 3 --shares measured
shows even5 '^shares   .*(measured: alone host:0 '

# Other shares than the run that is resumed had: a warning, with those.
run weighted $two --checkpoint "$work/kept" --shares 4,1 --epochs 1
run weighted2 $two --checkpoint "$work/kept" --resume --shares 1,3 --epochs 2
grep -q 'warning: the run that is resumed had the shares host:0=4 host:0=1;' "$work/weighted2.err" &&
    passed=$((passed + 1)) || no "resumed with other shares: $(cat "$work/weighted2.err")"
run weighted3 $two --checkpoint "$work/kept" --resume --shares 1,3 --epochs 3
grep -q 'had the shares' "$work/weighted3.err" && no "resumed with the same shares: $(cat "$work/weighted3.err")"

# A measurement that fails is a line, and shares are equal.
"$copse" train --epochs 1 $two --batch 48 --shares measured --optimizer sgd --lr 1e38 >"$work/wild.txt" 2>&1
shows wild 'a measurement of the shares failed on host:0: the loss of step'
shows wild 'no device could be measured with a whole batch; shares are equal$'

# As JSON.
"$copse" train --json --epochs 1 $two --shares 3,1 >"$work/json.txt"
grep -q '^{"event":"shares","devices":\[{"id":"host:0","share":3},{"id":"host:0","share":1}\],"source":"given"}$' "$work/json.txt" &&
    passed=$((passed + 1)) || no "JSON: $(head -2 "$work/json.txt")"

# Other devices are measured without being told, once; with --shares equal they are not. Beside the reference shares are equal.
found=$("$copse" devices | sed -n 's/^\(opencl:0\|vulkan:0\) .*/\1/p' | sort -u | head -1)
[ -n "$found" ] || echo 'no driver but host:0: the default is not tested'
for devices in ${found:+$found,$found}; do
    run mixed --devices "$devices" --model mlp:16 --batch 96
    shows mixed '^shares   .*(measured: alone '
    run mixed2 --devices "$devices" --model mlp:16 --batch 96
    shows mixed2 '(measured by an earlier run of this job; '
    same mixed mixed2 "$devices: a second run has other bits"
    run even --devices "$devices" --model mlp:16 --batch 96 --shares equal --checkpoint "$work/drivers" --epochs 1
    grep -q '^shares' "$work/even.txt" && no "$devices: --shares equal measures"
    run even2 --devices "$devices" --model mlp:16 --batch 96 --checkpoint "$work/drivers" --resume --epochs 3
    shows even2 ' 1 (of the run that is resumed)$'
done
for devices in ${found:+$found,host:0 host:0,$found}; do
    run beside --devices "$devices" --model mlp:16 --batch 96
    grep -q '^shares' "$work/beside.txt" && no "$devices: $(grep '^shares' "$work/beside.txt")"
    shows beside 'samples/s on 2 devices$'
done
[ $failed -eq 0 ] && echo "$passed checks of shares"
exit $failed
