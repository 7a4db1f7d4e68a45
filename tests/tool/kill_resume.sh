#!/bin/sh
# SPDX-License-Identifier: MIT
# kill_resume.sh COPSE KILLS [SEED [DEVICES [NETWORK]]]: kills `copse train` at random moments (SIGKILL), goes on with
# --resume, and demands that the last checkpoint and the printed result are those of a run that nobody
# killed, byte for byte. NETWORK: mlp, cnn or gpt.
set -u
copse=$1
kills=$2
seed=${3-1}
devices=${4-host:0,host:0}
network=${5-mlp}
nets=$(cd "$(dirname "$0")/../golden/nets" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
mkdir "$work/cache"

no() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

# Every step is followed by a checkpoint, so that many kills fall into writing one.
case $network in
mlp) job="--model mlp:32 --epochs 6 --batch 96 --dropout 0.2" ;;
cnn)
    "$(dirname "$0")/../golden/data.sh" "$work" 400 || no 'the data'
    job="--data $work/digits-images-idx3-ubyte --model $nets/cnn.txt --epochs 6 --batch 32"
    ;;
gpt)
    "$(dirname "$0")/../golden/data.sh" "$work" 1 || no 'the data'
    job="--data $work/text.txt --tokens characters --context 12 --model gpt:2,16,2 --epochs 6 --batch 12"
    ;;
*) no "there is no network $network" ;;
esac
options="train --devices $devices $job --quiet --checkpoint-every 1"

newest() {
    ls "$1"/step-*.safetensors | tail -1
}

"$copse" $options --checkpoint "$work/warm" >/dev/null || no 'the first run' # fills the kernel cache
start=$(date +%s%N)
"$copse" $options --checkpoint "$work/whole" >"$work/whole.txt" || no 'the run that nobody kills'
took=$((($(date +%s%N) - start) / 1000000)) # ms
reference=$(newest "$work/whole")

# Compare a finished run and make room for the next.
finish() {
    cmp "$reference" "$(newest "$work/cut")" || no "after $done kills the last checkpoint differs"
    head -1 "$work/cut.txt" | cmp - "$work/first.txt" || no "after $done kills the result differs"
    rm -rf "$work/cut"
    runs=$((runs + 1))
}

head -1 "$work/whole.txt" >"$work/first.txt"
awk -v seed="$seed" -v ms="$took" -v n=$((kills * 20 + 100)) \
    'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%.3f\n", rand() * ms / 1000 }' >"$work/moments"
done=0 runs=0 torn=0 late=0
while [ "$done" -lt "$kills" ] && read -r moment; do
    ls "$work/cut" 2>/dev/null | grep -q '\.tmp' && torn=$((torn + 1))
    "$copse" $options --checkpoint "$work/cut" --resume >"$work/cut.txt" 2>"$work/error.txt" &
    child=$!
    sleep "$moment"
    if kill -9 $child 2>/dev/null; then
        wait $child 2>/dev/null
        code=$?
    else
        wait $child
        code=$?
    fi
    case $code in
    137) done=$((done + 1)) ;;
    0) late=$((late + 1)); finish ;;
    *) no "exit code $code: $(cat "$work/error.txt")" ;;
    esac
    [ -s "$work/error.txt" ] && no "said: $(cat "$work/error.txt")"
done <"$work/moments"
[ "$done" -eq "$kills" ] || no "only $done kills came before the end of a run"
"$copse" $options --checkpoint "$work/cut" --resume >"$work/cut.txt" 2>"$work/error.txt" ||
    no "the last part: $(cat "$work/error.txt")"
[ -z "$(find "$work/cut" -name '*.tmp*')" ] || no "a leftover stayed: $(ls "$work/cut")"
[ "$(ls "$work/cut" | wc -l)" -eq 3 ] || no "not 3 checkpoints: $(ls "$work/cut")"
finish
printf '%d kills, %d of them while a file was being written, %d runs finished, all with the same bytes\n' \
    "$done" "$torn" "$runs"
