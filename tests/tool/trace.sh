#!/bin/sh
# SPDX-License-Identifier: MIT
# trace.sh COPSE: copse train --trace. The file is JSON whose lanes are consistent (trace.py), it has a span for each step, lanes
# for each replica, and a process for each worker of a job. The bits of the run do not change.
set -u
copse=$1 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# consistent FILE TEXT: trace.py accepts it, and prints the text
consistent() {
    python3 "$here/trace.py" "$1" >out 2>&1 || no "$1: $(cat out)"
    case $(cat out) in *"$2"*) ;; *) no "$1: no '$2' in: $(cat out)" ;; esac
}

command -v python3 >/dev/null || { echo 'skipped: python3 is not installed'; exit 77; }
train() { timeout 250 "$copse" train --epochs 2 "$@"; }

train --devices host:0 --quiet --save plain.safetensors >/dev/null 2>error || no "without a trace: $(cat error)"
train --devices host:0 --save traced.safetensors --trace trace.json >stdout 2>error || no "with a trace: code $?: $(cat error)"
cmp plain.safetensors traced.safetensors || no 'a trace changes the run'
grep -q '^trace: *trace.json (ui.perfetto.dev)$' stdout || no "no line of the trace: $(cat stdout)"
grep -q '^ *46 steps in [0-9.]* s: devices busy [0-9]* %; the host waited .*; limited by: [a-z]*$' stdout ||
    no "no line of what limited a step: $(cat stdout)"
consistent trace.json step=46
consistent trace.json 'replica 0: host:0'

train --devices host:0,host:0 --json --trace two.json >stdout 2>error || no "two replicas: $(cat error)"
grep -q '"event":"trace","path":"two.json",.*"dropped":0,"steps":46,.*"limit":"' stdout || no "no event: $(cat stdout)"
consistent two.json 'replica 0: host:0,replica 1: host:0'

timeout 250 "$copse" launch -n 2 -- train --epochs 1 --devices host:0 --trace job.json >stdout 2>&1 || no "a job: $(cat stdout)"
# the traces of the workers are one file
consistent job.json step=46
[ ! -e job.1.json ] && [ ! -e job.json.partial ] || no "files are left: $(ls)"
grep -q '"worker":0,.*"worker":1,' job.json || no "not two workers: $(head -n 1 job.json)"
[ "$(grep -c '"process_name"' job.json)" -eq 2 ] || no 'not two processes'
python3 - job.json <<'END' || no 'the clocks of the workers differ'
import json, sys
trace = json.load(open(sys.argv[1]))
of = [[e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "step" and e["pid"] == w] for w in (0, 1)]
# workers train in step: each step of one ends after the same one of the other has begun
for a, b in zip(*(sorted(steps, key=lambda e: e["ts"]) for steps in of)):
    assert a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"], (a, b)
assert len(of[0]) == len(of[1]) == 23
END
# files of an earlier job are not joined
sed 's/"began_unix_s":[0-9]*/"began_unix_s":1000000000/g' job.json >old.json
cp old.json job.json
cp old.json job.1.json
timeout 250 "$copse" launch -n 2 -- train --devices host:0 --init missing.safetensors --trace job.json >stdout 2>&1 &&
    no 'a missing file was accepted'
cmp old.json job.json && cmp old.json job.1.json || no 'files of an earlier job were changed'
train --devices host:0 --trace no/folder/trace.json >stdout 2>error && no 'a folder that is missing was accepted'
grep -q 'no/folder/trace.json' error || no "a folder that is missing: $(cat error)"
train --devices host:0 --trace '' >stdout 2>error && no 'an empty path was accepted'
grep -q -e '--trace: the path is empty' error || no "an empty path: $(cat error)"

# What is no regular file is refused at the start, and stays; a link to a file stays, too.
mkdir folder
mkfifo pipe
ln -s /dev/null device
for each in folder pipe device; do
    train --devices host:0 --trace $each >stdout 2>error && no "$each was accepted"
    grep -q "is not a regular file" error || no "$each: $(cat error)"
done
[ -d folder ] && [ -p pipe ] && [ -L device ] && [ -c /dev/null ] || no "a path was replaced: $(ls -l)"
echo older >target.json
ln -s target.json link.json
train --devices host:0 --init missing.safetensors --trace link.json >stdout 2>error && no 'a missing file was accepted'
[ "$(cat target.json)" = older ] || no 'a run without a step has replaced an older trace'
train --devices host:0 --quiet --trace link.json >stdout 2>error || no "a link: $(cat error)"
[ -L link.json ] || no 'a link was replaced'
consistent target.json step=46
ls | grep -q tmp && no "temporary files: $(ls)"

# Inputs and other outputs are no place for a trace.
printf 'a,b,c\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n' >t.csv
cp t.csv copy.csv
# refused PATTERN OPTION...: code 2, one line, and t.csv is as it was
refused() {
    pattern=$1
    shift
    train --devices host:0 "$@" >stdout 2>error
    code=$?
    [ $code -eq 2 ] && [ "$(wc -l <error)" -eq 1 ] && grep -q -e "$pattern" error || no "$*: code $code: $(cat error)"
    cmp -s t.csv copy.csv || no "$*: the table has changed"
}
refused "^copse train: --trace: './t.csv' is the file of --data$" --data t.csv --trace ./t.csv
refused "is the file of --held-out" --data copy.csv --held-out t.csv --trace t.csv
refused "is the file of --init" --init plain.safetensors --trace plain.safetensors
refused "is the file of --save" --save same --trace same
refused "is the file of --save" --save same --trace same.partial
refused "is the file of --plot" --plot same.svg --trace same.svg
refused "it is not a regular file" --trace .
cp t.csv t.1.csv
timeout 250 "$copse" launch -n 2 -- train --epochs 1 --devices host:0 --data t.1.csv --trace t.csv >stdout 2>&1
[ $? -eq 2 ] && grep -q -e "--trace: 't.1.csv' is the file of --data" stdout && cmp -s t.1.csv copy.csv || no "the second worker: $(cat stdout)"
cp copy.csv t.csv

# A trace that cannot be written costs no result: files end at 15 or 30 KiB, by the shell.
(trap '' XFSZ; ulimit -f 30; train --devices host:0 --plot run.svg --trace full.json >stdout 2>error)
code=$?
[ $code -ne 0 ] && grep -q '^copse: --trace: .*full.json' error && [ "$(wc -l <error)" -eq 1 ] || no "a full disk: code $code: $(cat error)"
grep -q 'held-out examples are right' stdout && [ -s run.svg ] || no "a trace that cannot be written costs the results: $(cat stdout)"
[ ! -e full.json ] || no 'a part of a trace is left'

# A signal ends the trace as well.
# stopped FILE COMMAND...: INT after two epochs
stopped() {
    : >stdout
    timeout 250 "$@" --epochs 4000000 --devices host:0 --model mlp:8 --json --trace stopped.json >stdout 2>error &
    child=$!
    while kill -0 $child 2>/dev/null && [ "$(grep -c '"event":"epoch"' stdout)" -lt 2 ]; do sleep 0.05; done
    kill -INT $child
    wait $child
    code=$?
    [ $code -eq 130 ] || no "stopped: code $code: $(cat error)"
    grep -q '"event":"trace","path":"stopped.json"' stdout || no "stopped: no event: $(tail -n 2 stdout)"
}
stopped "$copse" train
consistent stopped.json 'replica 0: host:0'
rm -f stopped.json
stopped "$copse" launch -n 2 -- train
consistent stopped.json 'replica 0: host:0,replica 0: host:0'
[ ! -e stopped.1.json ] || no 'a file of a worker is left'

[ $failed -eq 0 ] && echo "traces of one process, two replicas and two workers"
exit $failed
