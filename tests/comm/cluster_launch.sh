#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_launch.sh COPSE MODULES: `copse launch`. Its workers train to the bits of one process, here and on hosts;
# a killed worker, a restart, wrong use and signals end as docs/cluster.md says; nothing is left running.
set -u
copse=$1
export COPSE_MODULES=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
no() { printf 'FAILED: %s\n' "$*"; tail -n 20 "$work/out" "$work/err"; exit 1; }
[ -e "$COPSE_MODULES/copse_gloo.so" ] || { echo 'skipped: the engine gloo is not built'; exit 77; }

# launch CODE WHAT OPTION...: ends with CODE; leaves out and err
launch() {
    expected=$1 what=$2
    shift 2
    timeout -k 5 200 "$copse" launch "$@" >out 2>err
    code=$?
    [ $code = "$expected" ] || no "$what: code $code, not $expected"
}
says() { grep -q -- "$2" "$1" || no "$what: no '$2' in $1"; }

options="--epochs 2 --batch 40 --model mlp:48 --bucket-bytes 8192 --seed 3 --quiet"

# ---- bits, prefixes ----
# shellcheck disable=SC2086
"$copse" train --devices host:0,host:0,host:0,host:0 $options --save one >out 2>err || no 'one process'
# shellcheck disable=SC2086
launch 0 'four workers' -n 4 -- train --devices host:0 $options --save four
cmp -s one four || no 'four workers: other bits than one process'
grep -v '^\[0\] ' out && no 'a line without its prefix, or of a worker that is not the chief'
# shellcheck disable=SC2086
launch 0 'without prefixes' -n 2 --no-prefix -- train --devices host:0 $options --epochs 1
grep '^\[' out && no 'a prefix'

# ---- as people write it ----
launch 0 '-n2' -n2 -- sh -c 'echo here'
[ "$(grep -c 'here$' out)" = 2 ] || no "-n2: $(cat out)"
launch 2 'a misspelt command' -n 2 -- trian
says err "^copse launch: there is no program 'trian'; did you mean 'train'?\$"
[ "$(wc -l <err)" -eq 1 ] || no 'a misspelt command: more than a line'

# ---- hosts, by a program in the place of ssh ----
cat >ssh_here <<'END'
#!/bin/sh
echo "$1" >>hosts.seen
exec sh -c "$2"
END
chmod +x ssh_here
printf '# two hosts\n127.0.0.2 slots=3\n127.0.0.3  # one task\n' >hosts
# shellcheck disable=SC2086
launch 0 'on hosts' -n 4 --hosts hosts --port 21700 --ssh ./ssh_here -- train --devices host:0 $options --save hosted
cmp -s one hosted || no 'on hosts: other bits'
[ "$(sort hosts.seen | uniq -c | tr -s ' \n' ' ')" = ' 3 127.0.0.2 1 127.0.0.3 ' ] || no "hosts: $(cat hosts.seen)"
launch 2 'more tasks than the hosts take' -n 5 --hosts hosts -- train
says err 'room for 4 tasks, the job has 5'
printf 'a b\n' >wrong
printf 'localhost\nlocalhost\n' >twice
launch 0 'a host in two lines' -n 2 --hosts twice --port 21800 -- sh -c 'echo "$COPSE_CONFIG"'
says out '"127.0.0.1:21800","127.0.0.1:21801"\|"localhost:21800","localhost:21801"'
launch 2 'a wrong line' -n 1 --hosts wrong -- train
says err 'wrong: line 1 is not a host'
launch 2 'no file' -n 1 --hosts nowhere -- train
says err 'cannot read nowhere'

# ---- programs: every task has its description and its words; a servers' and an evaluator's task, too ----
launch 0 'a program' -n 2 --servers 1 --evaluator -- sh -c 'echo "$1 $COPSE_CONFIG"; echo to stderr >&2' sh "it's \$here"
[ "$(wc -l <out)" = 4 ] && [ "$(wc -l <err)" = 4 ] || no 'a program: not four lines'
says out "^\[1\] it's \$here {\"cluster\":{\"worker\":\[\"127.0.0.1:[0-9]*\",\"127.0.0.1:[0-9]*\"\],\"ps\":\[\"127.0.0.1:[0-9]*\"\],\"evaluator\":\[.*\]},\"task\":{\"type\":\"worker\",\"index\":1}}$"
says out '^\[ps 0\] .*"task":{"type":"ps","index":0}}$'
says out '^\[evaluator 0\] .*"task":{"type":"evaluator","index":0}}$'
says err '^\[ps 0\] to stderr$'
launch 0 'a last line without an end' -n 1 -- printf 'a\nb'
[ "$(cat out)" = "[0] a
[0] b" ] || no 'a last line without an end'
launch 0 'a long line' -n 1 --no-prefix -- sh -c 'printf "%20000d\n" 1'
[ "$(wc -l <out)" = 1 ] && [ "$(wc -c <out)" = 20001 ] || no 'a long line: it was cut'
launch 3 'a program that is killed' -n 2 --restarts 2 -- sh -c '[ "$COPSE_RESTARTS" = 2 ] && echo third; kill -KILL $$'
[ "$(grep -c third out)" = 2 ] || no 'a program that is killed: not three times'
launch 5 'the code of a program' -n 2 -- sh -c 'exit 5'
# exits CODE ...: task i ends with the i-th
exits() { launch "$1" "codes $2 $3 $4" -n 3 -- sh -c 'i=${COPSE_CONFIG##*:}; i=${i%%\}*}; shift $i; exit $1' sh "$2" "$3" "$4"; }
exits 2 7 1 2
exits 1 7 1 3
exits 7 7 3 0
exits 3 0 3 0
launch 127 'no such program' -n 2 -- ./nowhere
says err 'cannot run ./nowhere'

# ---- wrong use ----
launch 2 'wrong use of all' -n 2 -- train --data nowhere
says err '^\[0\] copse: .*cannot open nowhere'
# one that finds it before the tasks connect: the other does not wait for its deadline
launch 2 'wrong use of one' -n 2 -- sh -c 'case $COPSE_CONFIG in *:1}}) exit 2 ;; esac; exec sleep 3000'
says err 'worker 1 ended with code 2'
says err 'worker 0 was ended, because'
launch 2 'no command' -n 2
launch 2 'no dashes' -n 2 train --epochs 1
says err 'write -- before the command'
launch 2 'each alone' -n 2 -- train --strategy one_device
says err 'would train alone'
launch 2 'nothing to evaluate' -n 2 --evaluator -- train
says err 'evaluator needs --checkpoint'
launch 2 'no number' -- train
launch 2 'another command' -n 2 -- predict
says err 'train alone has several workers'
launch 2 'no checkpoint' -n 2 --restarts 1 -- train
says err 'restarts needs --checkpoint'
launch 2 'a description' -n 2 -- train --cluster '{}'
launch 2 'too many' -n 65 -- train
launch 2 'a sum that does not fit 32 bits' -n 4294967295 --servers 2 -- true
launch 2 'ports' -n 2 --hosts hosts --port 65535 -- train
launch 2 'a port without hosts' -n 2 --port 7000 -- train
says err 'belong to --hosts'
printf 'localhost\n127.0.0.2\n' >mixed
launch 2 'this machine among others' -n 2 --hosts mixed -- train
says err 'give this one the name'

# ---- a worker that is killed ----
# kill_one FOLDER: the worker 1 of the launcher $!, after its first checkpoint
kill_one() {
    until ls "$1"/step-*0.safetensors >/dev/null 2>&1; do
        kill -0 $! 2>/dev/null || no 'the job ended before it trained'
        sleep 0.05
    done
    kill -KILL "$(pgrep -P $! | sed -n 2p)"
}
long="--devices host:0 --epochs 60 --batch 40 --model mlp:48 --seed 3 --quiet --patience 1000"
# shellcheck disable=SC2086
"$copse" train $long --devices host:0,host:0 --save whole >out 2>err || no 'the whole run'
# shellcheck disable=SC2086
"$copse" launch -n 2 --restarts 3 -- train $long --checkpoint again --checkpoint-every 50 --save restarted \
    >out 2>err &
kill_one again
wait $! || no "a restart: code $?"
what='a restart'
says err 'worker 1 was killed by signal 9'
says err 'restart 1 of 3, with --resume'
cmp -s whole restarted || no 'a restart: other bits than the undisturbed job'
# shellcheck disable=SC2086
"$copse" launch -n 3 -- train $long --checkpoint less --checkpoint-every 50 --on-loss continue --save left \
    >out 2>err &
kill_one less
wait $! || no "two of three go on: code $?"
[ -s left ] || no 'two of three go on: no model'
# shellcheck disable=SC2086
"$copse" launch -n 2 -- train $long --checkpoint lost --checkpoint-every 50 >out 2>err &
kill_one lost
wait $!
[ $? = 3 ] || no 'a lost worker: another code than 3'

# ---- signals: to the launcher alone; nothing is left ----
for signal in TERM KILL; do
    for where in '' '--hosts hosts --ssh ./ssh_here'; do
        # shellcheck disable=SC2086
        "$copse" launch -n 2 $where -- sh -c 'echo $$ >>tasks; exec sleep 3000' >out 2>err &
        launcher=$!
        until [ "$(cat tasks 2>/dev/null | wc -l)" = 2 ]; do sleep 0.02; done
        kill -$signal $launcher
        wait $launcher 2>/dev/null
        code=$?
        [ $signal = KILL ] || [ $code = 143 ] || no "SIGTERM $where: code $code"
        n=0
        for pid in $(cat tasks); do
            while kill -0 "$pid" 2>/dev/null; do
                n=$((n + 1))
                [ $n -lt 500 ] || { kill -KILL "$pid"; no "SIG$signal $where: task $pid is left"; }
                sleep 0.02
            done
        done
        rm -f tasks
    done
done
echo 'copse launch: bits, hosts, programs, losses, signals'
