#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse gpucheck`: exit codes, the files and that they have nothing private, a run that goes on where another was stopped by
# its time, by a signal or by kill -9, folders that are refused.
# usage: gpucheck.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"

# check CODES NAME ARGUMENT...: the exit code is one of them
check() {
    codes=$1 name=$2
    shift 2
    timeout 300 "$copse" gpucheck "$@" >"$work/stdout" 2>"$work/stderr"
    code=$?
    case " $codes " in
    *" $code "*) passed=$((passed + 1)) ;;
    *) no "$name: exit code $code: $(tail -n 3 "$work/stdout" "$work/stderr")" ;;
    esac
}

# whole FOLDER: every line is an object, and no case is there twice
whole() {
    if command -v python3 >/dev/null; then
        python3 -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    assert "event" in json.loads(line), line' "$1/gpucheck.jsonl" || no "$name: a line is no event"
    fi
    grep -vq '^{.*}$' "$1/gpucheck.jsonl" && no "$name: a line is no object"
    again=$(grep '"event":"case"' "$1/gpucheck.jsonl" |
        sed 's/.*"device":"\([^"]*\)","mode":"\([^"]*\)","op":"\([^"]*\)","name":"\([^"]*\)","variant":"\([^"]*\)".*/\1 \2 \3 \4 \5/' |
        sort | uniq -d | head -n 3)
    [ -z "$again" ] || no "$name: twice: $again"
    [ ! -e "$1/running.tmp" ] || no "$name: running.tmp is left"
}

cases() {
    grep -c '"event":"case"' "$1/gpucheck.jsonl"
}

# ---- bad input ----
bad 'no folder' 'one folder for the results is needed' gpucheck
bad 'two folders' 'one folder for the results is needed' gpucheck a b
bad 'a stage' "'speed' is no stage; stages: existence, correctness, ceilings, kernels, tuning" gpucheck a --stages existence,speed
bad 'no time' 'minutes must be above 0' gpucheck a --minutes 0
bad 'a file' "gpucheck.sh' is not a folder" gpucheck "$here/gpucheck.sh"
bad 'below a file' 'cannot make the folder' gpucheck "$here/gpucheck.sh/results"
mkdir "$work/taken" "$work/taken/gpucheck.jsonl"
bad 'not writable' "cannot write '.*gpucheck.jsonl': it is not a regular file" gpucheck "$work/taken"
COPSE_DISABLE=opencl,vulkan timeout 60 "$copse" gpucheck "$work/none" >"$work/stdout" 2>"$work/stderr"
code=$?
[ $code -eq 2 ] && grep -q 'no driver has a device' "$work/stderr" || no "no device: exit code $code: $(cat "$work/stderr")"
check 2 'an unknown device' "$work/unknown" --devices vulkan:77
mkdir "$work/other"
echo '{"event":"gpucheck","format":1,"library":"0.0.1"}' >"$work/other/gpucheck.jsonl"
bad 'another version' 'has results of Copse 0.0.1' gpucheck "$work/other"
echo '{"event":"start"}' >"$work/other/gpucheck.jsonl"
bad 'another file' 'line 1: not a file of `copse gpucheck`' gpucheck "$work/other"

# ---- the library's own reference, to the end; one kernel is enough of a stage ----
check '0 3' 'host' "$work/host" --devices host --minutes 0.5 --stages existence,ceilings
whole "$work/host"
for file in gpucheck.jsonl summary.txt card.md card.html; do
    [ -s "$work/host/$file" ] || no "host: no $file"
done
[ "$(wc -l <"$work/host/summary.txt")" -le 100 ] || no 'host: a long summary'
grep -q '^to send: gpucheck.jsonl, summary.txt, card.md; how: docs/devices/README.md$' "$work/host/summary.txt" ||
    no "host: $(tail -n 1 "$work/host/summary.txt")"
grep -q '"event":"auto","devices":\["' "$work/host/gpucheck.jsonl" || no 'host: what auto takes'
grep -q '"event":"device"' "$work/host/gpucheck.jsonl" || no 'host: no device'
tail -n 1 "$work/host/gpucheck.jsonl" | grep -q '"event":"summary","pass":[1-9]' || no 'host: no summary'

# ---- stopped by its time: the next run goes on ----
check '0 3' 'a short time' "$work/short" --devices host --minutes 0.2 --stages correctness
first=$(cases "$work/short")
if [ $code -eq 3 ] && [ "$first" -gt 0 ]; then
    grep -q '^not every case was reached: the same command goes on$' "$work/short/summary.txt" || no 'a short time: not told'
fi
cp "$work/short/gpucheck.jsonl" "$work/before"
check '0 3' 'again' "$work/short" --devices host --minutes 0.2 --stages correctness
[ "$(cases "$work/short")" -ge "$first" ] || no "again: $(cases "$work/short") cases after $first"
head -c "$(wc -c <"$work/before")" "$work/short/gpucheck.jsonl" | cmp -s - "$work/before" || no 'again: the first lines changed'
whole "$work/short"

# wait_for_cases FOLDER N
wait_for_cases() {
    tries=0
    until [ -e "$1/gpucheck.jsonl" ] && [ "$(cases "$1")" -ge "$2" ] || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# ---- a signal to the group, as a terminal sends it ----
# stop SIGNAL CODE
stop() {
    name=$1
    rm -rf "${work:?}/$1"
    # a shell ignores SIGINT in what it starts with &
    setsid env --default-signal=INT "$copse" gpucheck "$work/$1" --devices host --minutes 5 --stages correctness >"$work/stdout" 2>"$work/stderr" &
    child=$!
    wait_for_cases "$work/$1" 20
    kill "-$1" "-$child"
    wait $child
    code=$?
    [ $code -eq "$2" ] || no "$1: exit code $code: $(cat "$work/stderr")"
    whole "$work/$1"
    [ -s "$work/$1/summary.txt" ] && [ -s "$work/$1/card.md" ] || no "$1: no summary"
    grep -q '"verdict":"CRASH"' "$work/$1/gpucheck.jsonl" && no "$1: the signal is taken for a crash"
    passed=$((passed + 1))
}
stop INT 130
stop TERM 143

# ---- kill -9 ----
name='kill -9'
"$copse" gpucheck "$work/killed" --devices host --minutes 5 --stages correctness >"$work/stdout" 2>"$work/stderr" &
child=$!
wait_for_cases "$work/killed" 20
kill -KILL $child
wait $child 2>/dev/null
grep -vq '^{.*}$' "$work/killed/gpucheck.jsonl" && no "$name: a line is no object"
first=$(cases "$work/killed")
dead=$(sed -n 's/.*"op":"\([^"]*\)","name":"\([^"]*\)".*/"op":"\1","name":"\2"/p' "$work/killed/running.tmp")
# a machine that stops may leave a part of a line
printf '{"event":"case","device":"ho' >>"$work/killed/gpucheck.jsonl"
check '0 3' 'after kill -9' "$work/killed" --devices host --minutes 0.3 --stages correctness
if [ -n "$dead" ]; then
    grep -F "$dead" "$work/killed/gpucheck.jsonl" | grep -q '"verdict":"SKIP","text":"an earlier run died in this case.*"left_out":true' ||
        no "after kill -9: $dead is not left out"
else
    echo 'it was killed between two cases: no case is left out'
fi
[ "$(cases "$work/killed")" -gt "$first" ] || no 'after kill -9: no case more'
whole "$work/killed"

# ---- nothing private ----
export HOME="$work/home/zanzibar" USER=zanzibar VK_INSTANCE_LAYERS='' COPSE_CONFIG_PATH="$work/secret" POCL_DEVICES_X=zanzibar.example.org
mkdir -p "$HOME"
if "$copse" devices | grep -q '^[a-gi-z][a-z]*:[0-9]'; then
    check '0 3' 'real devices' "$work/real" --minutes 0.4 --stages existence
    whole "$work/real"
    for file in gpucheck.jsonl summary.txt card.md card.html; do
        "$here/../tree/device_files.sh" --one "$work/real/$file" >"$work/stdout" || no "real devices: $(cat "$work/stdout")"
        grep -nE "zanzibar|$work|/home/|\"(uuid|pci)\"" "$work/real/$file" && no "real devices: $file is not private"
        host=$(hostname)
        grep -qiwE "[^.]$host[^.]" "$work/real/$file" && [ ${#host} -gt 3 ] && no "real devices: $file has the name of the host"
    done
else
    echo 'skipped: the files about real devices: no driver has a device'
fi

echo "$passed passed"
[ $failed -eq 0 ]
