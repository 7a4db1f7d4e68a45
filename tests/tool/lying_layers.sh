#!/bin/sh
# SPDX-License-Identifier: MIT
# Drivers with faults, played by layers between the loaders and the real drivers (tests/layers): each fault is noticed by
# conformance, by a self-test, by the cross-check or by the audits of a training run, and no result is lost or changed
# without a word.
# Without COPSE_TEST_ALL and `full` each fault is played on one of the devices, the two in turn.
# usage: lying_layers.sh COPSE OPENCL_LAYER VULKAN_LAYER_FOLDER [full]      ("" = this API is not built)
set -u
copse=$1 opencl=$2 vulkan=$3 full=${4:-}
case $copse in /*) ;; *) copse=$PWD/$copse ;; esac
case $opencl in /* | "") ;; *) opencl=$PWD/$opencl ;; esac
case $vulkan in /* | "") ;; *) vulkan=$PWD/$vulkan ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
found=$("$copse" devices --json | tr '{' '\n' | sed -n 's/.*"id":"\(opencl:0\|vulkan:0\)".*/\1/p' | tr '\n' ' ')

# with DEVICE FAULT ARGUMENT...: the command on a device whose driver has the fault; fresh block lists
with() {
    device=$1 fault=$2
    shift 2
    rm -f "$XDG_CACHE_HOME"/copse/blocked-*
    case $device in
    opencl:0) (cd "$work/out" && COPSE_LIE=$fault OPENCL_LAYERS=$opencl timeout 300 "$copse" "$@") ;;
    vulkan:0) (cd "$work/out" && COPSE_LIE=$fault VK_INSTANCE_LAYERS=VK_LAYER_COPSE_lying VK_LAYER_PATH=$vulkan \
        timeout 300 "$copse" "$@") ;;
    esac >"$work/stdout" 2>"$work/stderr"
}
train="train --model mlp:32 --epochs 6 --json"
loss() { sed -n 's/.*"event":"done".*"loss":\([^,]*\),.*/\1/p' "$work/stdout"; }

# trains DEVICE FAULT [DEVICES [OPTION...]], of a fault that comes after the self-tests: the cross-check or an audit stops the
# run, names device and tensor, and leaves the last checkpoint
trains() {
    device=$1 fault=$2 devices=${3:-$1}
    shift $(($# < 3 ? $# : 3))
    with $device $fault $train --audit 8 --devices $devices "$@" --save model.safetensors --checkpoint run --checkpoint-every 16
    code=$?
    grep -qE "copse: trainer: (audit|cross-check) of step [0-9]+: .*${device}.*('dense[0-9].(weight|bias)'|result|loss).*copse conformance" \
        "$work/stderr" ||
        no "$device $fault $devices: $(cat "$work/stderr")"
    [ $code -eq 1 ] || no "$device $fault $devices: exit code $code"
    [ ! -e "$work/out/model.safetensors" ] || no "$device $fault $devices: wrote a model"
    kept=$(ls "$work/out/run" 2>/dev/null | tail -1)
    grep -qE "there is no checkpoint|the last checkpoint is .*$kept" "$work/stderr" || no "$device $fault: $(cat "$work/stderr")"
    [ -z "$kept" ] || (cd "$work/out" && "$copse" evaluate --checkpoint run --devices host) >"$work/stdout" 2>&1 ||
        no "$device $fault: the checkpoint: $(cat "$work/stdout")"
    rm -rf "$work/out"; mkdir "$work/out"
}

# conforms DEVICE FAULT ARGUMENT...: conformance fails
conforms() {
    device=$1 fault=$2
    shift 2
    with "$device" "$fault" conformance --device "$device" "$@"
    code=$?
    [ $code -eq 1 ] || no "$device $fault: conformance $*: exit code $code: $(tail -n 3 "$work/stdout"; cat "$work/stderr")"
}

# api DEVICE FAULT OP CASE: this case of mode api fails
api() {
    with $1 $2 conformance api --device $1 --ops $3 --json
    code=$?
    [ $code -eq 1 ] && grep '"event":"case"' "$work/stdout" | grep "\"name\":\"$4\"" | grep -q '"verdict":"FAIL"' ||
        no "$1 $2: api $3, $4: exit code $code: $(tail -n 3 "$work/stdout"; cat "$work/stderr")"
}

# refuses DEVICE FAULT: training ends with a line about the device, or its results are right
refuses() {
    with $1 $2 $train --devices $1
    code=$?
    [ $code -eq 0 ] && [ "$(loss)" = "$right" ] && return
    [ $code -ne 0 ] && [ "$(grep -c "^copse: .*$1" "$work/stderr")" -ge 1 ] ||
        no "$1 $2: exit code $code, loss $(loss), not $right: $(cat "$work/stderr")"
}

turns=0
# turn COMMAND...: in the turn of this device
turn() {
    turns=$((turns + 1))
    { [ "${COPSE_TEST_ALL-}$full" ] || [ $(((turns + is_second) % 2)) = 1 ]; } || return 0
    "$@"
}

check() {
    device=$1 turns=0
    case $found,$device in opencl:0*,vulkan:0) is_second=1 ;; *) is_second=0 ;; esac
    (cd "$work/out" && "$copse" $train --devices $device) >"$work/stdout" 2>"$work/stderr" || no "$device: $(cat "$work/stderr")"
    right=$(loss)
    grep -q '"audits":[1-9]' "$work/stdout" || no "$device: no audits"
    # the layer alone changes nothing
    with $device none:1 $train --devices $device || no "$device: the layer: $(cat "$work/stderr")"
    [ -n "$right" ] && [ "$(loss)" = "$right" ] || no "$device: the layer changes the loss from '$right' to '$(loss)'"
    if [ $device = vulkan:0 ]; then
        # an instance that cannot be made at first, and one that cannot be made at all
        with $device start:1 devices
        grep -q '^vulkan:0 ' "$work/stdout" && [ ! -s "$work/stderr" ] || no "start:1: $(cat "$work/stdout" "$work/stderr")"
        with $device start:1000 devices
        grep -q '^vulkan:0 ' "$work/stdout" && no 'start:1000: there is a device'
        grep -q '^copse: .*context: vulkan: vkCreateInstance: VK_ERROR_INITIALIZATION_FAILED in 3 tries' "$work/stderr" ||
            no "start:1000: $(cat "$work/stderr")"
        with $device start:1000 $train --devices vulkan:0
        [ $? -eq 2 ] && grep -q 'vkCreateInstance: VK_ERROR_INITIALIZATION_FAILED' "$work/stderr" || no "start:1000: $(cat "$work/stderr")"
    fi
    # work of low priority: the driver is asked, its refusal is one line, and the results are the same
    if [ $device = vulkan:0 ]; then asked=128; else asked=4; fi
    with $device priority:1 $train --devices $device --priority low
    [ $? -eq 0 ] && [ "$(loss)" = "$right" ] || no "$device: low priority: loss $(loss): $(cat "$work/stderr")"
    grep -qx "lying layer: priority $asked" "$work/stderr" || no "$device: no priority $asked: $(cat "$work/stderr")"
    ! grep -q 'does not get' "$work/stderr" || no "$device: a priority is refused: $(cat "$work/stderr")"
    with $device priority:2 $train --devices $device,$device --priority high
    [ $? -eq 0 ] && [ "$(grep -c "^copse: warning: device: the work of $device does not get high priority: the driver refuses it: [A-Z]" \
        "$work/stderr")" -eq 1 ] || no "$device: a refused priority: $(cat "$work/stderr")"
    if [ $device = opencl:0 ]; then
        # times of the device: in queues of the same priority, or not at all
        with $device priority:1 $train --devices $device --priority low --trace trace.json
        [ $? -eq 0 ] && [ "$(loss)" = "$right" ] && grep -q 'a queue of this priority with times' "$work/stderr" ||
            no "$device: a trace with a priority: $(cat "$work/stderr")"
        with $device priority:3 $train --devices $device --priority low --trace trace.json
        [ $? -eq 0 ] && [ "$(loss)" = "$right" ] &&
            [ "$(grep -c "^copse: warning: trace: the spans of $device are of the host's clock: .* no queues with times and a priority" \
                "$work/stderr")" -eq 1 ] || no "$device: no times with a priority: $(cat "$work/stderr")"
    else
        # the occupancy alone is refused; it is kept where only the global priority is refused
        with $device priority:3 $train --devices $device --priority low
        [ $? -eq 0 ] && [ "$(loss)" = "$right" ] &&
            [ "$(grep -c "^copse: warning: device: the work of $device does not get low priority: the driver refuses it: VK_ERROR_FEATURE" \
                "$work/stderr")" -eq 1 ] || no "$device: a refused occupancy: $(cat "$work/stderr")"
        with $device priority:4 $train --devices $device --priority low
        [ $? -eq 0 ] && [ "$(loss)" = "$right" ] && grep -q 'a priority of occupancy' "$work/stderr" &&
            ! grep -q 'does not get' "$work/stderr" || no "$device: occupancy alone: $(cat "$work/stderr")"
    fi
    with $device none:1 $train --devices $device --priority low
    [ $? -eq 0 ] && [ "$(loss)" = "$right" ] &&
        [ "$(grep -c "^copse: warning: device: the work of $device does not get low priority: its driver has no [a-zA-Z]*_khr_\|VK_KHR_" \
            "$work/stderr")" -eq 1 ] || no "$device: no priorities: $(cat "$work/stderr")"
    # the card shows it
    with $device none:1 conformance run --device $device --ops neg --case 'usual range' --json
    grep -q '"layers":\[[^]]*liblying_' "$work/stdout" || no "$device: the layer is not reported"
    grep '"event":"device"' "$work/stdout" | grep -q '"extensions":\["' || no "$device: no extensions are reported"
    # nor do audits
    (cd "$work/out" && "$copse" $train --audit 0 --devices $device) >"$work/stdout" 2>"$work/stderr" || no "$device: $(cat "$work/stderr")"
    [ "$(loss)" = "$right" ] || no "$device: without audits the loss is '$(loss)', not '$right'"
    grep -q '"audits":0,' "$work/stdout" || no "$device: audits although --audit 0"
    turn trains $device lose:211
    turn trains $device swap:40
    turn refuses $device limits:1
    turn conforms $device lose:7 --ops add,softmax,matmul
    turn conforms $device flip:3 --ops add,softmax,matmul
    turn conforms $device stale:3 --ops add,softmax,matmul
    with $device none:1 conformance api --device $device || no "$device: api: $(tail -n 3 "$work/stdout")"
    turn api $device lose:97 queue 'dispatches in order'
    turn api $device lose:97 queue 'submissions in order'
    turn api $device lose:97 queue 'recorded commands in order'
    turn api $device swap:40 queue 'dispatches in order'
    turn api $device lose:7 barrier 'every pair of commands'
    turn api $device flip:100 read 'changing contents'
    turn api $device stale:25 read 'changing contents'
    [ $device = vulkan:0 ] || api $device limits:1 limit 'offsets of bindings'
    [ $device = vulkan:0 ] || api $device limits:1 limit 'memory'
    if [ "$full" ]; then
        conforms $device lose:97
        conforms $device lose:1000
        conforms $device swap:40
        conforms $device flip:100
        conforms $device stale:100
        trains $device lose:11
        trains $device swap:7
        refuses $device flip:1
        refuses $device stale:1
    fi
}

# a compiler without fma: kernels are built without it; one that does not build its own code: they are built in one step
case $found,$opencl in
*opencl:0*,?*)
    for fault in fma code; do
        (export XDG_CACHE_HOME="$work/cache-$fault" && mkdir "$XDG_CACHE_HOME" &&
            with opencl:0 $fault:1 conformance run --device opencl:0 --ops neg --quiet) ||
            no "opencl:0 $fault: $(tail -n 3 "$work/stdout"; cat "$work/stderr")"
    done ;;
esac

for api in opencl vulkan; do
    eval layer=\$$api
    case $found in
    *$api:0*) [ "$layer" ] && check $api:0 || echo "$api: skipped: its layer was not built" ;;
    *) echo "$api: skipped: no device" ;;
    esac
done
# One of two replicas has the fault: the other one shows it. Equal shares: measured ones move the lost dispatch between runs,
# and it may then be one that no audit sees.
case $found,$opencl in
*opencl:0*vulkan:0*,?*) trains opencl:0 lose:211 opencl:0,vulkan:0 --shares equal ;;
*) echo "two replicas: skipped: they need OpenCL and Vulkan" ;;
esac
[ $failed -eq 0 ] && echo "drivers with faults are noticed"
exit $((failed > 0))
