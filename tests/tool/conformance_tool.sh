#!/bin/sh
# SPDX-License-Identifier: MIT
# `copse conformance` as a person or a program meets it: exit codes, forms of output, the line that
# repeats a case; and, over drivers that lie, crash, hang and lose the device, the right verdict for
# the right case, the run going on, and training that avoids what was blocked.
# usage: conformance_tool.sh COPSE LYING-COPSE
set -u
tool=$1
liar=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"

# expect CODE NAME PROGRAM ARGUMENT...: standard output in $work/stdout
expect() {
    code=$1 name=$2
    shift 2
    (cd "$work/out" && timeout 250 "$@") >"$work/stdout" 2>"$work/stderr"
    got=$?
    before=$failed
    [ $got -eq "$code" ] || no "$name: exit code $got: $(cat "$work/stdout" "$work/stderr" | tail -n 3)"
    [ $failed -eq $before ] && passed=$((passed + 1))
}

says() {
    grep -qE -- "$1" "$work/stdout" || no "$name: nothing like '$1' in: $(tail -n 5 "$work/stdout")"
}

bad() {
    pattern=$1
    shift
    expect 2 "$*" "$tool" conformance "$@"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || no "$name: not one line: $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stderr" || no "$name: $(cat "$work/stderr")"
    [ -z "$(ls -A "$work/out")" ] || no "$name: left $(ls -A "$work/out")"
}

# count VERDICT OP: cases in the JSON of the last run
count() {
    grep '"event":"case"' "$work/stdout" | grep "\"op\":\"$2\"" | grep -c "\"verdict\":\"$1\""
}

# first_case OP
first_case() {
    "$tool" conformance list run --device host:0 --ops "$1" --json |
        sed -n 's/.*"event":"plan".*"name":"\([^"]*\)".*/\1/p' | head -n 1
}

# ---- good runs ----
expect 0 'run' "$tool" conformance run grad --device host:0 --seconds 0
says '^host:0 +run +[0-9]+ pass'
says '^[0-9]+ cases on 1 device in .* pass$'
expect 0 'json' env COPSE_TEST_TOKEN=secret "$tool" conformance run --device host:0 --seconds 0 --json --junit r.xml --csv r.csv --card r.html --markdown r.md
grep -vq '^{.*}$' "$work/stdout" && no 'json: a line that is no object'
tail -n 1 "$work/stdout" | grep -qE '^\{"event":"summary","pass":[1-9][0-9]*,"fail":0,"skip":[0-9]+,"unsupported":[0-9]+,"xfail":[0-9]+,"xpass":0,' ||
    no "json: the last line is $(tail -n 1 "$work/stdout")"
cases=$(grep -c '"event":"case"' "$work/stdout")
head -n 1 "$work/stdout" | grep -q '"environment":{"system":"[^"]*","kernel":"[^"]*","processor":"[^"]*","processors":[1-9]' ||
    no "json: no environment: $(head -n 1 "$work/stdout")"
head -n 1 "$work/stdout" | grep -q "\"XDG_CACHE_HOME\":\"$XDG_CACHE_HOME\"" || no 'json: XDG_CACHE_HOME is missing'
head -n 1 "$work/stdout" | grep -q 'COPSE_TEST_TOKEN' && no 'json: shows a token'
grep '"event":"device"' "$work/stdout" | grep -q '"reported":{' || no 'json: nothing that the driver reports'
grep -q '<h2>Environment</h2>' "$work/out/r.html" || no 'card: no environment'
grep -q '^| Processors | [1-9]' "$work/out/r.md" || no 'card: no processors'
tail -n 1 "$work/stdout" | grep -q "\"cases\":$cases," || no 'json: the summary counts other cases'
[ "$(wc -l <"$work/out/r.csv")" -eq $((cases + 1)) ] || no 'csv: other cases'
[ "$(grep -c '<testcase ' "$work/out/r.xml")" -eq "$cases" ] || no 'junit: other cases'
grep -q '</testsuites>' "$work/out/r.xml" || no 'junit: not whole'
if command -v xmllint >/dev/null; then
    xmllint --noout "$work/out/r.xml" || no 'junit: no XML'
fi
grep -q '</html>' "$work/out/r.html" || no 'card: not whole'
grep -qE 'src=|@import|url\(|<script' "$work/out/r.html" && no 'card: needs other files'
grep -q '^## reference' "$work/out/r.md" || no 'markdown: no device'
[ "$(ls -A "$work/out" | wc -l)" -eq 4 ] || no "extra files: $(ls -A "$work/out")"
rm -rf "$work/out"; mkdir "$work/out"
cp "$work/stdout" "$work/a.json"

expect 0 'list' "$tool" conformance list run --device host:0
[ "$(grep -c '^run ' "$work/stdout")" -eq "$cases" ] || no 'list: not what was run'
expect 0 'list an op' "$tool" conformance list run grad --device host:0 --ops softmax
says '^grad +softmax'
grep -q ' relu ' "$work/stdout" && no 'list an op: relu'
expect 0 'info' "$tool" conformance info --device host:0
says '^  driver '
expect 0 'an op that one mode has no case of' "$tool" conformance run grad --device host:0 --ops argmax,softmax
says '^host:0 +grad .* pass'
expect 0 'support' "$tool" conformance support --device host:0 --ops softmax,relu
says '^softmax +f32 +yes'
expect 0 'without isolation' "$tool" conformance run --device host:0 --ops relu --no-isolation
says 'pass'
expect 3 'no time' "$tool" conformance run --device host:0 --seconds 0.001
says '^skipped on host:0: [1-9][0-9]* cases?: not reached'
expect 0 'contract' "$tool" conformance contract --kernel softmax
says '^kernel softmax$'
says '^  buffer 0: '

# seeds: other inputs, the same for the same seed, also in the line that repeats a case
hashes() {
    "$tool" conformance bitwise --device host:0 --ops tanh --json "$@" | sed -n 's/.*"hash":"\([0-9a-f]*\)".*/\1/p'
}
[ "$(hashes --seed 5)" = "$(hashes --seed 5)" ] || no 'seed: not the same inputs'
[ "$(hashes --seed 5)" != "$(hashes)" ] || no 'seed: not other inputs'
[ "$(hashes --seed 0)" = "$(hashes)" ] || no 'seed 0: other inputs'
expect 0 'budget' "$tool" conformance run --device host:0 --ops relu --budget 1s --seed 7
says '^seed 7: [1-9][0-9]* cases? on 1 device .* pass$'
says '^[1-9][0-9]* runs?, seeds 7 to [1-9][0-9]*: no failure$'
expect 0 'compare with itself' "$tool" conformance compare "$work/a.json" "$work/a.json"
says '^0 of [1-9][0-9]* cases worse, 0 missing'
# Text of a file has no control characters on a terminal.
sed 's/"op":"\([a-z]*\)"/"op":"\\u001b[31m\1\\u009b1m"/; s/"driver":"/&\\u001b]0;title\\u0007/; s/"name":"/&\\u001b[2J/' "$work/a.json" >"$work/escapes.json"
sed 's/"verdict":"PASS"/"verdict":"FAIL"/' "$work/escapes.json" >"$work/escapes2.json"
expect 1 'compare escapes' "$tool" conformance compare "$work/escapes.json" "$work/escapes2.json"
says '^worse +host:0 .*\?\[31m[a-z]*\?1m: '
grep -q "$(printf '[\033\007]')" "$work/stdout" && no "compare prints escapes: $(head -3 "$work/stdout" | cat -v)"
cp "$work/a.json" "$work/read.json"
bad "'.*read.json' is both read and written" compare "$work/a.json" "$work/read.json" --csv "$work/read.json"
bad "'.*read.json' is both read and written" run --device host:0 --known "$work/read.json" --junit "$work/read.json"
mkdir "$work/page"; cp "$work/a.json" "$work/page/index.html"
bad "'.*index.html' is both read and written" site "$work/page/index.html" --out "$work/page"
cmp -s "$work/a.json" "$work/read.json" && cmp -s "$work/a.json" "$work/page/index.html" || no 'an input was replaced'
expect 0 'devices' "$tool" devices
grep -q blocked "$work/stdout" && no 'something is blocked'

# ---- bad input ----
bad "'fly' is no mode" fly
bad "unknown option '--fly'" --fly
bad "'slow' is not quick" --tier slow
bad "'x' is not a number" --seconds x
bad 'seconds' --seconds=-3
bad 'seconds must be at least 0' --seconds=-1
bad 'deadline must be at least 0' --deadline=-1
bad "two results would be written to '.*both'" run --device host:0 --csv "$work/both" --junit "$work/both"
bad 'host:7' --device host:7
bad 'softmin' run --device host:0 --ops softmin
bad "no case 'no such'" run --device host:0 --case 'no such'
bad "no variant 'fastest'" run --device host:0 --variant fastest
bad 'go together' --kernel x.cl
printf '%s\n' 'GROUP(64, 1)' '#include "math.clh"' 'PARAMS(uint n;)' 'oops KERNEL1(softmax, OUT(real, y)) { }' \
    >"$work/wrong.comp"
bad "wrong.comp' does not compile: line 4: " run --device host:0 --kernel "$work/wrong.comp" --op softmax
bad 'nowhere.cl' run --device host:0 --kernel "$work/nowhere.cl" --op softmax
bad 'nowhere' run --device host:0 --junit "$work/nowhere/r.xml"
bad 'nowhere' run --device host:0 --card "$work/nowhere/r.html"
bad "'10x' is not a time" --budget 10x
bad "'0' is not a time" --budget 0
bad 'contract needs' contract
bad 'site needs' site
bad 'go together' site "$work/a.json"
bad 'nowhere' site "$work/a.json" --out "$work/nowhere"
bad 'softmin' contract --kernel softmin
bad 'two files' compare "$work/a.json"
bad 'nowhere.json' compare "$work/a.json" "$work/nowhere.json"
printf 'text\n' >"$work/text.json"
bad 'line 1' compare "$work/text.json" "$work/a.json"

# ---- a wrong word in one kernel: exactly the ops that use it fail, and one line repeats it ----
export COPSE_LIE=corrupt:softmax
expect 1 'corrupt' "$liar" conformance run --device lying:0 --seconds 0 --json
cp "$work/stdout" "$work/b.json"
[ "$(count FAIL softmax)" -ge 3 ] || no "corrupt: $(count FAIL softmax) cases of softmax failed"
[ "$(count PASS tanh)" -ge 1 ] || no 'corrupt: tanh was not run'
[ "$(count FAIL tanh)" -eq 0 ] || no 'corrupt: tanh failed'
expect 1 'compare' "$tool" conformance compare "$work/a.json" "$work/b.json"
says '^worse +host:0 run softmax: .*: PASS -> FAIL'
expect 0 'site' "$tool" conformance site "$work/a.json" "$work/b.json" --out "$work/out"
says '/index.html: [1-9][0-9]* ops on 2 devices$'
[ "$(ls -A "$work/out")" = index.html ] || no "site: $(ls -A "$work/out")"
grep -q '</html>' "$work/out/index.html" || no 'site: not whole'
grep -qE 'src=|href=|@import|url\(' "$work/out/index.html" && no 'site: needs other files'
grep -qE '<th>softmax</th><td class=.PASS.>[0-9]+ PASS</td><td class=.bad. title=.*>[0-9]+ FAIL' "$work/out/index.html" ||
    no "site: $(grep softmax "$work/out/index.html")"
set --
while [ $# -lt 40 ]; do set -- "$@" "$work/a.json"; done
expect 0 'site of many files' "$tool" conformance site "$@" --out "$work/out"
says '/index.html: [1-9][0-9]* ops on 40 devices$'
rm -rf "$work/out"; mkdir "$work/out"
expect 1 'corrupt, text' "$liar" conformance run --device lying:0 --ops softmax,tanh --junit r.xml --card r.html
says '^FAIL +lying:0 run softmax'
grep -q '<failure message="FAIL' "$work/out/r.xml" || no 'junit: no failure'
grep -q 'Failures' "$work/out/r.html" || no 'card: no failure'
rm -rf "$work/out"; mkdir "$work/out"
# a list of known failures: a case that fails as known fails no run; one that passes does
printf '%s\n' '# known' '' 'ref* | run/softmax/* | a driver of | reasons' >"$work/known"
bad 'line 3: three fields' run --device host:0 --known "$work/known"
printf '%s\n' 'ref* | run/softmax | bad kernel' >"$work/known"
bad "line 1: 'run' is no case" run --device host:0 --known "$work/known"
printf '%s\n' '# known' 'ref* | run/softmax/* |' >"$work/known"
bad 'line 2: the reason is empty' run --device host:0 --known "$work/known"
bad 'nowhere' run --device host:0 --known "$work/nowhere"
printf '%s\n' '# known' 'ref* | run/softmax/* | bad kernel' 'other | */tanh/* | no' >"$work/known"
# with its variants, which would pass
export COPSE_LIE='corrupt:softmax*'
expect 0 'known' "$liar" conformance run --device lying:0 --ops softmax,tanh --known "$work/known" --json
[ "$(count XFAIL softmax)" -ge 3 ] && [ "$(count XFAIL tanh)" -eq 0 ] || no "known: $(count XFAIL softmax)"
grep -q 'known: bad kernel; the result is outside' "$work/stdout" || no 'known: no reason'
expect 1 'known, honest' env -u COPSE_LIE "$liar" conformance run --device lying:0 --ops softmax --known "$work/known" --json
[ "$(count XPASS softmax)" -ge 3 ] || no "known, honest: $(count XPASS softmax)"
export COPSE_LIE='crash:softmax*'
expect 0 'known crash' "$liar" conformance run --device lying:0 --ops softmax --known "$work/known" --json
[ "$(count XFAIL softmax)" -ge 3 ] || no "known crash: $(count XFAIL softmax)"
export COPSE_LIE=corrupt:softmax
expect 1 'budget, corrupt' "$liar" conformance run --device lying:0 --ops softmax --budget 200s --seed 3
says '^seed 3: FAIL +lying:0 run softmax'
says "again: copse conformance run --device lying:0 --ops softmax --case .* --variant '' --seed 3\$"
says '^1 run, seeds 3 to 3: the last one failed$'
expect 1 'corrupt, text' "$liar" conformance run --device lying:0 --ops softmax,tanh --seed 9
again=$(sed -n 's/.*again: copse //p' "$work/stdout" | head -n 1)
[ "$again" ] || no 'no line to repeat the case'
eval "set -- $again"
expect 1 "again: $again" "$liar" "$@" --json
[ "$(grep -c '"event":"case"' "$work/stdout")" -eq 1 ] || no "the line repeats $(grep -c '"event":"case"' "$work/stdout") cases"
[ "$(count FAIL softmax)" -eq 1 ] || no 'the line does not repeat the failure'
unset COPSE_LIE
expect 0 'honest again' "$liar" "$@"

# ---- drivers that end the process, never return, lose the device ----
expect 0 'honest' "$liar" conformance run --device lying:0 --ops softmax,argmax,tanh --seconds 0 --json
softmax=$(count PASS softmax)
tanh=$(count PASS tanh)
argmax=$(count PASS argmax)
export COPSE_LIE=crash:argmax
expect 1 'crash' "$liar" conformance run --device lying:0 --ops softmax,argmax,tanh --seconds 0 --json
[ "$(count CRASH argmax)" -eq "$argmax" ] || no "crash: $(count CRASH argmax) of $argmax cases"
grep -q 'signal 6' "$work/stdout" || no 'crash: how is not told'
[ "$(count PASS softmax)" -eq "$softmax" ] && [ "$(count PASS tanh)" -eq "$tanh" ] ||
    no 'crash: the run did not go on'
export COPSE_LIE=hang:argmax
first=$(first_case argmax)
expect 1 'hang' "$liar" conformance run --device lying:0 --ops argmax --case "$first" --deadline 3 --json
[ "$(count TIMEOUT argmax)" -eq 1 ] || no 'hang: no TIMEOUT'
# what comes before the first case is none, and has its own time
expect 1 'hang, and little time' "$liar" conformance run --device lying:0 --ops argmax --case "$first" \
    --deadline 0.001 --json
[ "$(count TIMEOUT argmax)" -eq 1 ] || no 'hang, and little time: no TIMEOUT'
# whatever ends the command ends the process that hangs
"$liar" conformance run --device lying:0 --ops argmax --case "$first" --deadline 250 --json >"$work/stdout" 2>&1 &
parent=$!
child=
while [ -z "$child" ] && kill -0 $parent 2>/dev/null; do
    child=$(pgrep -P $parent -f ' --kind 2 ')
done
sleep 0.5 # it hangs, mostly
kill -KILL $parent
wait $parent 2>/dev/null
tries=0
while kill -0 "$child" 2>/dev/null && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -KILL "$child" 2>/dev/null && no 'the process that hangs goes on without the command'
export COPSE_LIE=crash:argmax
if env --ignore-signal=CHLD true 2>/dev/null; then
    expect 1 'ends of children ignored' env --ignore-signal=CHLD "$liar" conformance run --device lying:0 \
        --ops argmax --case "$first" --json
    grep -q 'signal 6' "$work/stdout" || no 'ends of children ignored: how it crashed is not told'
else
    echo 'skipped: env cannot ignore signals'
fi
export COPSE_LIE=lose:argmax
expect 1 'lose' "$liar" conformance run --device lying:0 --ops softmax,argmax,tanh --seconds 0 --json
[ "$(count DEVICE_LOST argmax)" -eq "$argmax" ] || no "lose: $(count DEVICE_LOST argmax) of $argmax cases"
[ "$(count PASS softmax)" -eq "$softmax" ] && [ "$(count PASS tanh)" -eq "$tanh" ] ||
    no 'lose: the run did not go on'
unset COPSE_LIE

# ---- a variant that is wrong, or that ends the process, is blocked and avoided ----
# lies HOW VARIANT OVER VERDICT
lies() {
    how=$1 variant=$2 over=$3 verdict=$4
    export COPSE_LIE_OVER=$over COPSE_LIE=$how:$variant
    expect 1 "$how $variant" "$liar" conformance run --device lying:0 --ops matmul --case "$product" \
        --seconds 0 --deadline 200 --json
    [ "$(grep '"event":"case"' "$work/stdout" | grep "\"variant\":\"$variant\"" | grep -c "\"verdict\":\"$verdict\"")" -eq 1 ] ||
        no "$how $variant: not $verdict"
    expect 0 "$how: devices" "$liar" devices
    says "blocked: $variant"
    expect 0 "$how: training" "$liar" train --devices lying:0 --epochs 3 --json
    with=$(tail -n 1 "$work/stdout" | sed 's/.*"accuracy":\([0-9.]*\).*/\1/')
    expect 0 "$how: unblock" "$liar" devices --unblock lying:0
    grep -q "blocked: $variant" "$work/stdout" && no "$how: still blocked"
    unset COPSE_LIE
    expect 0 "$how: honest training" "$liar" train --devices lying:0 --epochs 3 --json
    without=$(tail -n 1 "$work/stdout" | sed 's/.*"accuracy":\([0-9.]*\).*/\1/')
    awk "BEGIN { d = $with - $without; exit !(d < 0.006 && d > -0.006 && $with > 0.7) }" ||
        no "$how $variant: accuracy $with while it was blocked, $without without a lie"
    unset COPSE_LIE_OVER
}

# A block goes when the case that failed passes; being late once is no reason for one. Over host, whose
# only product is the shared one.
forgives() {
    export COPSE_LIE_OVER=host
    set -- conformance run --device lying:0 --ops matmul --case "$product" --variant matmul --quiet
    export COPSE_LIE=crash:matmul
    expect 1 'forgives: crash' "$liar" "$@"
    says 'blocked on lying:0: matmul \(run/matmul/'
    says '^1 case on 1 device in .*: 1 CRASH$'
    unset COPSE_LIE
    for turn in 1 2; do
        expect 0 "forgives: honest $turn" "$liar" "$@"
        says 'blocked on lying:0: matmul '
        expect 0 "forgives: devices $turn" "$liar" devices
        says "blocked: matmul .*; passed since in $turn of 3 runs"
    done
    expect 0 'forgives: honest' "$liar" "$@"
    says '^used again on lying:0: matmul '
    [ "$(wc -l <"$work/stdout")" -eq 2 ] || no "--quiet: $(cat "$work/stdout")"
    expect 0 'forgives: devices' "$liar" devices
    grep -q 'blocked\|unreliable' "$work/stdout" && no "forgives: $(cat "$work/stdout")"
    expect 0 'heal: nothing is blocked' "$liar" conformance heal --device lying:0
    says '^no kernel is blocked$'
    export COPSE_LIE=crash:matmul
    expect 1 'heal: crash' "$liar" "$@"
    expect 1 'heal: it crashes again' "$liar" conformance heal --device lying:0
    says '^run 1 of 3: .*CRASH'
    says '^still blocked on lying:0: matmul \(run/matmul/'
    unset COPSE_LIE
    expect 1 'heal: two runs' "$liar" conformance heal --device lying:0 --runs 2
    says '^still blocked on lying:0: matmul '
    expect 0 'heal' "$liar" conformance heal --device lying:0
    says '^run 1 of 3: used again on lying:0: matmul '
    grep -q '^run 2' "$work/stdout" && no "heal: $(cat "$work/stdout")"
    export COPSE_LIE=hang:matmul
    expect 1 'forgives: hang' "$liar" "$@" --deadline 2
    grep -q 'blocked' "$work/stdout" && no 'forgives: late once, and blocked'
    expect 1 'forgives: hang again' "$liar" "$@" --deadline 2
    says 'blocked on lying:0: matmul \(run/matmul/'
    unset COPSE_LIE
    # no other variant is left: training is refused in one line, or the host computes the products
    expect 2 'refuses' "$liar" train --devices lying:0 --epochs 1
    [ "$(grep -c '^copse: kernel: matmul is blocked on lying:0: run/matmul/.*; driver .*--allow-host' "$work/stderr")" -eq 1 ] ||
        no "refuses: $(cat "$work/stderr")"
    expect 0 'allows the host' "$liar" train --devices lying:0 --epochs 3 --allow-host --json
    with=$(tail -n 1 "$work/stdout" | sed 's/.*"accuracy":\([0-9.]*\).*/\1/')
    grep -q 'the host computes matmul for lying:0' "$work/stderr" || no "allows the host: $(cat "$work/stderr")"
    awk "BEGIN { exit !($with > 0.7) }" || no "allows the host: accuracy $with"
    expect 0 'forgives: unblock' "$liar" devices --unblock lying:0
    unset COPSE_LIE_OVER
}
# A kernel without variants: what conformance finds is shown, and training does not use it.
# finds LIE KERNEL MODE OP OVER BLOCKED: the number of kernels that are blocked
finds() {
    export COPSE_LIE_OVER=$5 COPSE_LIE=$1:$2
    expect 1 "$1 $2" "$liar" conformance "$3" --device lying:0 --ops "$4" --seconds 0
    says "^blocked on lying:0: $2 \\($3/"
    [ "$(grep -c '^blocked' "$work/stdout")" -eq "$6" ] || no "$1 $2: $(grep '^blocked' "$work/stdout")"
    expect 0 "$1 $2: devices" "$liar" devices
    says "blocked: $2 .*\[quick, 2"
    [ "$5" = host ] || says "^ +tested: .*$3 of $4 \\(quick, 2"
    expect 0 "$1 $2: json" "$liar" devices --json
    says "\"kernel\":[[:space:]]*\"$2\""
    says '"tested":.*"unreliable":[[:space:]]*false'
    expect 2 "$1 $2: training" "$liar" train --devices lying:0 --epochs 1
    [ "$(grep -c "^copse: kernel: [a-z_]* is blocked on lying:0: $3/" "$work/stderr")" -eq 1 ] || no "$1 $2: $(cat "$work/stderr")"
    [ "$1" = crash ] || {
        expect 0 "$1 $2: on the host" "$liar" train --devices lying:0 --epochs 3 --allow-host --json
        with=$(tail -n 1 "$work/stdout" | sed 's/.*"accuracy":\([0-9.]*\).*/\1/')
        awk "BEGIN { exit !($with > 0.7) }" || no "$1 $2: accuracy $with on the host"
    }
    expect 0 "$1 $2: unblock" "$liar" devices --unblock lying:0
    unset COPSE_LIE COPSE_LIE_OVER
}
product=$(first_case matmul)
# the kernel that fails its self-test is to blame; of a process that died each kernel that was not proven
expect 0 'devices: the kernels above' "$liar" devices
says 'blocked: softmax '
says 'blocked: argmax '
says '^ +tested: run \(quick, 2'
expect 0 'unblock the kernels above' "$liar" devices --unblock lying:0
finds corrupt cross_entropy_grad grad sparse_cross_entropy host 1
finds crash cross_entropy_grad grad sparse_cross_entropy host 3
forgives
devices=$("$tool" devices)
if printf '%s' "$devices" | grep -q '^opencl:0.*pthread\|^opencl:0.*cpu'; then
    kernels=$(dirname "$0")/../../kernels
    sed 's/m_exp(x)/m_exp(x) * 1.0001f/' "$kernels/softmax/softmax.cl" >"$work/wrong.cl"
    sed 's/m_exp(x)/m_nothing(x)/' "$kernels/softmax/softmax.cl" >"$work/broken.cl"
    cp "$kernels/softmax/softmax.cl" "$work/right.cl"
    expect 0 'own kernel' "$tool" conformance --seconds 0 --device opencl:0 --kernel "$work/right.cl" --op softmax
    expect 1 'own kernel, wrong' "$tool" conformance --device opencl:0 --kernel "$work/wrong.cl" --op softmax
    says '^FAIL +opencl:0 run softmax'
    expect 1 'own kernel, broken' "$tool" conformance --device opencl:0 --kernel "$work/broken.cl" --op softmax
    says 'm_nothing'
    # A read past the end whose value no result shows: the page there has no access, in helper processes only.
    sed 's/STORE(to, i, y);/STORE(to, i, SELECT(i + 1u == p.n \&\& LOAD(from, i + 1u) == 1.0f, 1.0f, y));/' \
        "$kernels/elementwise/unary.cl" >"$work/past.cl"
    for mode in 'launch --ops unary --variant unary --case' 'run --ops neg --case'; do
        case=$([ "${mode%% *}" = launch ] && echo 'neg: one group, usual' || echo 'usual range')
        # shellcheck disable=SC2086
        expect 1 "own kernel, past the end, $mode" "$tool" conformance $mode "$case" --device opencl:0 \
            --kernel "$work/past.cl" --op unary
        says '^CRASH +opencl:0 (launch unary|run neg): '
        says 'kernel .*past.cl'
    done
    expect 0 'own kernel, past the end, without pages' "$tool" conformance run --ops neg --case 'usual range' \
        --device opencl:0 --kernel "$work/past.cl" --op unary --no-isolation
    finds corrupt cross_entropy run sparse_cross_entropy opencl 1
    lies corrupt matmul_chunk opencl FAIL
    lies crash matmul_chunk opencl CRASH
else
    printf 'skipped: no OpenCL device on a CPU, so no variant matmul_chunk\n'
fi

# ---- the example of the manual is the one that is compiled ----
sources=$(dirname "$0")/../..
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$sources/docs/conformance.md" >"$work/manual.c"
sed -n '/^#include/,$p' "$sources/examples/trust.c" | cmp -s - "$work/manual.c" || no 'docs/conformance.md shows another examples/trust.c'

# ---- tuning: measured, shown, used, forgotten; a crash blocks the variant and keeps the rest ----
export XDG_CACHE_HOME="$work/tune"
mkdir "$XDG_CACHE_HOME"
# by `conformance`, which can be told to measure certain sizes, however long that takes
small='--ops matmul --seconds 0 --case'
expect 0 'tune' "$tool" tune --device host:0 --seconds 1
says '^[0-9]+ cases on 1 device'
expect 0 'tune: sums' "$tool" conformance tune --device host:0 --ops column_sum --seconds 0
says '^host:0 +column_sum +2048 x 8 .* (reduce|column_sums)$'
says '^12 sizes measured on host:0'
expect 0 'tune: a product' "$tool" conformance tune --device host:0 $small '32 x 32 x 32'
says '^host:0 +matmul +32 x 32 x 32 .* matmul$'
says '^1 size measured on host:0'
expect 0 'tune: devices' "$tool" devices
says 'tuned: kernels chosen by .copse tune. for [1-9][0-9]* sizes'
expect 0 'tune: json' "$tool" tune --device host:0 --seconds 1 --json
tail -n 1 "$work/stdout" | grep -q '^{"event":"summary"' || no "tune: json: $(tail -n 1 "$work/stdout")"
expect 0 'tune: json of a product' "$tool" conformance tune --device host:0 $small '32 x 32 x 32' --json
grep -q '"mode":"tune".*"gflops":' "$work/stdout" || no 'tune: no speed in JSON'
[ "$(ls "$XDG_CACHE_HOME/copse" | grep -c '^tuning-[0-9a-f]*$')" -eq 1 ] || no 'tune: no file'
[ "$(ls "$XDG_CACHE_HOME/copse" | wc -l)" -eq 1 ] || no 'tune: a partial file'
expect 0 'tune: training' "$tool" train --devices host:0 --epochs 1
[ -s "$work/stderr" ] && no "tune: $(cat "$work/stderr")"
printf 'x' >>"$XDG_CACHE_HOME/copse/$(ls "$XDG_CACHE_HOME/copse")"
expect 0 'tune: damaged' "$tool" train --devices host:0 --epochs 1
[ "$(grep -c 'tuning.*is ignored' "$work/stderr")" -eq 1 ] || no "tune: damaged: $(cat "$work/stderr")"
expect 0 'tune: forget' "$tool" tune --forget host:0
expect 0 'tune: forgotten' "$tool" devices
grep -q tuned "$work/stdout" && no 'tune: not forgotten'
expect 2 'tune: bad' "$tool" tune --seconds=-1
expect 2 'tune: no device' "$tool" tune --forget host:7
export COPSE_LIE_OVER=host COPSE_LIE=crash:matmul
expect 1 'tune: crash' "$liar" conformance tune --device lying:0 $small '32 x 32 x 32'
says '^CRASH +lying:0 tune matmul: 32 x 32 x 32'
says 'blocked on lying:0: matmul '
unset COPSE_LIE
expect 0 'tune: unblock' "$liar" devices --unblock lying:0
expect 0 'tune: honest' "$liar" conformance tune --device lying:0 $small '32 x 32 x 32'
kept=$(ls "$XDG_CACHE_HOME/copse" | grep -c '^tuning-')
sum=$(grep -h '^rate matmul [^ ]* matmul ' "$XDG_CACHE_HOME"/copse/tuning-* | cksum)
export COPSE_LIE=hang:matmul
expect 1 'tune: hang' "$liar" conformance tune --device lying:0 $small '32 x 32 x 32' --deadline 2
says '^TIMEOUT +lying:0 tune matmul'
[ "$kept $sum" = "$(ls "$XDG_CACHE_HOME/copse" | grep -c '^tuning-') $(grep -h '^rate matmul [^ ]* matmul ' "$XDG_CACHE_HOME"/copse/tuning-* | cksum)" ] ||
    no 'tune: a hang changed what was kept'
unset COPSE_LIE COPSE_LIE_OVER

# ---- a kernel that is wrong is found before it is used, without any conformance run ----
case $devices in
*opencl:0*)
    export XDG_CACHE_HOME="$work/self" COPSE_LIE_OVER=opencl COPSE_LIE=corrupt:matmul_chunk
    mkdir "$XDG_CACHE_HOME"
    expect 0 'self-test' "$liar" train --devices lying:0 --epochs 3 --json
    with=$(tail -n 1 "$work/stdout" | sed 's/.*"accuracy":\([0-9.]*\).*/\1/')
    if grep -q 'matmul_chunk is not used on lying:0' "$work/stderr"; then
        [ "$(grep -c 'self-test: element' "$work/stderr")" -eq 1 ] || no "self-test: $(cat "$work/stderr")"
        awk "BEGIN { exit !($with > 0.7) }" || no "self-test: accuracy $with"
    else
        "$liar" devices | grep -q 'self-test' && no 'self-test: blocked and not said'
        printf 'skipped: lying:0 over opencl has no matmul_chunk\n'
    fi
    unset COPSE_LIE COPSE_LIE_OVER
    cp "$sources/kernels/softmax/softmax.cl" "$work/right.cl"
    expect 0 'own kernel, speed' "$tool" conformance perf --device opencl:0 --kernel "$work/right.cl" --op softmax
    says "GB/s, .*the library's kernel [0-9.e+]+ GB/s, yours [0-9.]+ of it"
    ;;
*) printf 'skipped: no OpenCL device, so no self-test of matmul_chunk\n' ;;
esac

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
