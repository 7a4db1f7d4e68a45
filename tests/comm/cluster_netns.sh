#!/bin/sh
# SPDX-License-Identifier: MIT
# cluster_netns.sh COPSE NODE MODULES: two workers over Gloo, each in a network namespace of its own with a cable
# between them. They train to the bytes of two on one host; one that is killed is named within 2 s; a cable
# that is out for 2 s is survived, one that stays out is noticed at the deadline, by both; and a resumed
# job ends with the same bytes.
set -u
engine=gloo copse=$1 node=$2 modules=$3
work=$(mktemp -d) || exit 1
a=copse-$$-a b=copse-$$-b
cleanup() {
    for space in $a $b; do
        ip netns del $space 2>/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT
. "$(dirname "$0")/jobs.sh"

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "ip is not there: install the Debian package iproute2"
# veth devices may be forbidden where namespaces are not
make_spaces() {
    ip netns add $a && ip netns add $b &&
        ip link add copse0 netns $a type veth peer name copse0 netns $b &&
        ip -n $a addr add 10.213.77.1/24 dev copse0 && ip -n $b addr add 10.213.77.2/24 dev copse0 &&
        for space in $a $b; do
            ip -n $space link set lo up && ip -n $space link set copse0 up || return 1
        done
}
said=$(make_spaces 2>&1) || skip "this machine permits no network namespaces: $said"
unreachable() { ! ip netns exec $a ip route get 10.213.77.2 >/dev/null 2>&1; }
cable() { ip -n $a link set copse0 "$1" || no "cannot set the link $1"; }

options="--devices host:0 --model mlp:32 --epochs 20 --batch 96 --checkpoint-every 17 --keep 1000"
whole=$work/whole
job_start "$whole" 2 $options --checkpoint "$whole/run"
job_await "$whole/run"
begin=$(now_ms)
job_done "two workers on this host"
took=$(($(now_ms) - begin))

spaces="$a $b" hosts="10.213.77.1 10.213.77.2"
begin_job() { # NAME OPTION...: such a job in the namespaces, in the middle of its training
    local name=$1
    shift
    rm -rf "$work/$name"
    job_start "$work/$name" 2 $options --checkpoint "$work/$name/run" "$@"
    job_await "$job/run"
    sleep "$(awk -v ms="$took" 'BEGIN { print ms / 4000 }')"
}
too_soon() { # the job was done before it could be disturbed: once more, if not too often
    tries=$((${tries-0} + 1))
    [ $tries -lt 20 ] || no "$1: every job was done too soon"
}
end_job() { # WHAT
    job_done "$1"
    job_keep_result
    job_same "$job" "$whole" "$1"
}
resume() { # WHAT
    job_start "$job" 2 $options --checkpoint "$job/run" --resume
    end_job "$1, resumed"
}

begin_job spaces
end_job "two workers in namespaces"

slowest=0
for victim in 1 0; do
    what="worker $victim is killed"
    while :; do
        begin_job "kill$victim"
        job_kill $victim || { job_done "$what"; too_soon "$what"; continue; }
        job_wait
        rank=$((1 - victim))
        code=$(echo "$codes" | cut -d ' ' -f $((rank + 1)))
        [ "$code" != 0 ] && break
        too_soon "$what"
    done
    job_names_lost $rank "$code" "worker $victim"
    grep -q "lost worker $victim (10.213.77." "$job/err.$rank" || no "$what: it is named without its address"
    resume "$what"
done

while :; do
    begin_job short
    cable down
    unreachable || no "the cable is still there"
    job_is_over || break
    cable up
    job_done "2 s without the cable"
    too_soon "2 s without the cable"
done
sleep 2
cable up
end_job "2 s without the cable"

while :; do
    begin_job long --worker-deadline 3
    job_pulse
    begin=$(now_ms)
    cable down
    job_wait
    ms=$(($(job_said 0) - begin))
    [ $ms -ge $(($(job_said 1) - begin)) ] || ms=$(($(job_said 1) - begin))
    cable up
    [ "$codes" = "0 0" ] || break
    too_soon "without the cable"
done
[ "$codes" = "3 3" ] || no "without the cable: exit codes $codes"
for rank in 0 1; do
    grep -q "worker $((1 - rank)) (10.213.77.*) did not answer within 3 s" "$job/err.$rank" ||
        no "worker $rank does not name the other"
done
[ $ms -ge 2000 ] || no "without the cable the job ended after $ms ms"
what="without the cable"
job_limit "$begin" $((begin + ms)) 10000 'noticing it'
resume "without the cable"
echo "two namespaces: the bytes of one host, killed workers named, 2 s without a cable survived," \
    "and at the deadline noticed (after $ms ms)"
