#!/bin/sh
# SPDX-License-Identifier: MIT
# The command as a person or a program meets it: good runs, and bad input of every kind, which gives
# one line on standard error, exit code 2, and leaves no file behind.
# usage: tool.sh COPSE DIGITS.csv.gz LYING-COPSE
set -u
copse=$1
digits=$2
liar=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"

save="--save $work/out/p.safetensors --plot $work/out/p.svg"
host="--devices host --epochs 2"

# ---- good runs ----
good version '^copse [0-9]+\.[0-9]+\.[0-9]+$' --version
good help 'devices .*list' --help
good 'train help' '--devices WHICH' train --help
for strategy in one_device mirrored collective parameter_server accelerator; do
    good "help on $strategy" "^  $strategy  +[A-Z]" train --help
done
for command in '' devices train worker evaluate conformance tune bench; do
    wide=$("$copse" $command --help | awk 'length($0) > 100')
    [ -z "$wide" ] || no "help of more than 100 columns: $wide"
done
good devices '^host:0' devices
good 'devices json' '"id":"host:0"' devices --json
good train 'held-out examples are right' train $host
good 'train a list' 'on 3 devices' train --epochs 2 --devices host:0,host:0,host:0
good 'train save and plot' 'safetensors' train $host --save p.safetensors --plot p.svg
[ -s "$work/out/p.safetensors" ] && [ -s "$work/out/p.svg" ] || no 'files were not written'
grep -q '</svg>' "$work/out/p.svg" || no 'the plot is not whole'
[ "$(ls -A "$work/out" | wc -l)" -eq 2 ] || no "extra files: $(ls -A "$work/out")"
rm -rf "$work/out"; mkdir "$work/out"
good 'train json' '^\{"event":"done","steps":46,"loss":[0-9.e-]+,"accuracy":0\.[0-9]+,.*"seconds":.*"samples_per_s":.*"devices":\["host:0"\]\}$' \
    train $host --json
grep -vq '^{' "$work/stdout" && no 'a line that is not an object'
for optimizer in adamw sgd momentum nesterov; do
    good "$optimizer" 'right' train $host --optimizer $optimizer --quiet
done
printf '# layers\nflatten; dense 32 relu\ndropout 0.1\nresidual { layer_norm\n dense 32 gelu }; batch_norm\ndense out' \
    >"$work/net.txt"
good 'a file of layers' '^model    flatten; dense 32 relu; .* batch_norm; dense out: 3594 parameters; adam' \
    train $host --model "$work/net.txt" --checkpoint "$work/layers.safetensors"
tail -n 5 "$work/stdout" | grep '^[0-9.]* % of' >"$work/a"
good 'evaluating layers' "^$(cat "$work/a" | sed 's/[.()]/[&]/g')" evaluate --devices host \
    --checkpoint "$work/layers.safetensors"
good 'resuming layers' '0 of 46 steps' train $host --checkpoint "$work/layers.safetensors" --resume \
    --model 'flatten; dense 32 relu; dropout 0.1; residual { layer_norm; dense 32 gelu }; batch_norm; dense out'
"$copse" train $host --quiet --model mlp:24,12 --dropout 0.25 --weight-decay 0 --save "$work/mlp.st" >/dev/null
"$copse" train $host --quiet --save "$work/layers.st" --model \
    'flatten; dense 24 relu; dropout 0.25; dense 12 relu; dropout 0.25; dense out' >/dev/null
for kind in mlp layers; do
    "$copse" export "$work/$kind.st" --npy "$work/$kind.npy" >/dev/null || no "export of $kind"
done
diff -r "$work/mlp.npy" "$work/layers.npy" || no 'the layers of a perceptron give other bits'
good dropout 'right' train $host --dropout 0.2 --weight-decay 0.01 --schedule constant --quiet

# The same seed gives the same figures, another one others.
"$copse" train $host --quiet --seed 5 | head -1 >"$work/a"
"$copse" train $host --quiet --seed 5 | head -1 >"$work/b"
"$copse" train $host --quiet --seed 6 | head -1 >"$work/c"
cmp -s "$work/a" "$work/b" || no 'the same seed gave other figures'
cmp -s "$work/a" "$work/c" && no 'another seed gave the same figures'

# Runs of several steps on logical cores; the last batch of an epoch is a run of its own.
for strategy in one_device 'accelerator --steps-per-run 7' 'accelerator --cores 1 --steps-per-run 1' \
    'one_device --prefetch 2' collective; do
    "$copse" train $host --quiet --dropout 0.2 --strategy $strategy --save "$work/$(echo $strategy | tr -d ' ')" \
        >"$work/stdout" || no "strategy $strategy"
done
cmp -s "$work/one_device" "$work/accelerator--steps-per-run7" || no 'a run has other bits than its steps'
cmp -s "$work/one_device" "$work/accelerator--cores1--steps-per-run1" || no 'runs of 1 have other bits'
cmp -s "$work/one_device" "$work/one_device--prefetch2" || no 'batches ahead give other bits'
cmp -s "$work/one_device" "$work/collective" || no 'a collective strategy of one process has other bits'
# Who uploads ahead has a second queue: it shows on a device that has no more than one.
for prefetch in 0 2; do
    COPSE_LIE=queues:1 "$liar" train --devices lying:0 --epochs 1 --quiet --strategy one_device \
        --prefetch $prefetch >"$work/stdout" 2>"$work/stderr"
    [ $? -eq $((prefetch / 2)) ] && [ "$(grep -c 'to upload batches ahead' "$work/stderr")" -eq $((prefetch / 2)) ] ||
        no "--prefetch $prefetch with one queue: $(cat "$work/stderr")"
done
good 'logical cores' 'on 3 devices' train --epochs 2 --strategy accelerator --cores 3 \
    --devices host:0,host:0,host:0,host:0
good 'a checkpoint between runs' 'checkpoint: ' train $host --strategy accelerator --steps-per-run 5 \
    --checkpoint "$work/points-runs" --checkpoint-every 10 --keep 100
# Runs end after 5 10 15 20 22 23 | 28 33 38 43 45 46 steps: one that has come to the tenth since the last checkpoint.
[ "$(echo $(ls "$work/points-runs" | tr -dc '0-9\n' | sed 's/^0*\(.\)/\1/'))" = '0 10 20 33 43 46' ] ||
    no "checkpoints between runs: $(ls "$work/points-runs")"

# ---- bad input ----
bad 'no command' 'no command' fly
bad 'unknown option' "unknown option '--fly'" train --fly
bad 'no value' '--lr needs a value' train --lr
bad 'text for a number' "--lr: 'fast' is not a number" train --lr fast
bad 'negative count' "--batch: '-3'" train --batch -3
bad 'zero batch' '--batch' train --batch 0
bad 'negative rate' '--lr' train --lr=-1
bad 'unknown optimizer' 'adam' train --optimizer adamm
bad 'bad model' "line 1, layer 1 'perceptron': no layer has this name; the layers are dense, .*mlp:" train --model perceptron
bad 'model without width' "'mlp:0': UNITS is '0'" train --model mlp:0
bad 'unknown layer' "^copse train: --model: line 1, layer 2 'dens 3': .*did you mean dense" train --model 'relu; dens 3'
printf '# a comment\nrelu\ndropout 2\n' >"$work/net.txt"
bad 'file with a wrong layer' "^copse train: --model: '.*net.txt': line 3, layer 2 'dropout 2': RATE is '2'" \
    train --model "$work/net.txt"
printf 'dense 4 relu\nresidual {\n    dense 3\n}\ndense out' >"$work/net.txt"
bad 'layers that do not fit' "^copse: --model: line 2, layer 2 'residual': .* turn the input \[4\] into \[3\]" \
    train $host $save --model "$work/net.txt"
bad 'layers without the outputs' '--model: the last layer gives \[3\], 10 classes need \[10\]' \
    train $host $save --model 'dense 3'
bad '--dropout with layers' '--dropout is for --model mlp:' train --model 'dense out' --dropout 0.1
bad 'missing file' 'nowhere.csv' train $host $save --data "$work/nowhere.csv"
bad 'empty folder' 'IDX' train $host $save --data "$work/out"

gzip -dc "$digits" >"$work/digits.csv"
head -c 20000 "$digits" >"$work/cut.csv.gz"
bad 'truncated gzip' 'cut.csv.gz' train $host $save --data "$work/cut.csv.gz"
sed '17s/^\([^,]*,[^,]*\),[^,]*/\1,seven/' "$work/digits.csv" >"$work/text.csv"
bad 'text cell' 'row 17.*column 3|column 3.*row 17' train $host $save --data "$work/text.csv"
bad 'labels out of range' 'label' train $host $save --classes 5
sed '9,20s/,[^,]*$/,-2/' "$work/digits.csv" >"$work/negative.csv"
good 'negative label' ' 11 classes' train $host --data "$work/negative.csv"
bad 'negative label with a number of classes' 'row 9, column 65: the label -2 is not a class' \
    train $host $save --data "$work/negative.csv" --classes 10
sed 's/,[^,]*$/,iris/' "$work/digits.csv" >"$work/named.csv"
bad 'one label' 'all labels are "iris"' train $host $save --data "$work/named.csv"
bad 'label in words' 'row 1, column 65: "iris" is not a number' train $host $save --data "$work/named.csv" --task regression
# The classes of a table are the labels that occur, wherever they begin.
sed 's/,\([^,]*\)$/,100\1/' "$work/digits.csv" >"$work/thousand.csv"
good 'labels from 1000' ' 10 classes' train $host --data "$work/thousand.csv"
good 'labels from 1000, and so many classes' ' 1010 classes' train $host --data "$work/thousand.csv" --classes 1010
tr '\n' '\r' <"$work/digits.csv" | head -c 9000 >"$work/cr.csv"
bad 'lines that end with CR' 'row 1: a carriage return inside' train $host $save --data "$work/cr.csv"
head -c 4000 "$work/digits.csv" | iconv -f UTF-8 -t UTF-16 >"$work/wide.csv"
bad 'text in UTF-16' 'wide.csv is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8$' train $host $save --data "$work/wide.csv"
printf '1,2,\033[31mred\033[0m\n' >"$work/escape.csv"
bad 'escapes of a terminal' '"\?\[31mred\?\[0m"' train $host $save --data "$work/escape.csv" --task regression
bad 'a path of two lines' "nowhere/a b'" train $host --save "$work/nowhere/a
b"
: >"$work/empty.csv"
bad 'empty file' 'empty.csv' train $host $save --data "$work/empty.csv"
bad 'no path of data' '--data.*empty' train $host $save --data ''
bad 'too many devices' "^copse: devices: '(host:0,){9}h' means 65 devices, there is room for 64" \
    train --quiet --devices "$(printf 'host:0,%.0s' $(seq 64))host:0"
bad 'unknown device' 'cuda' train $save --devices cuda:0
bad 'no such device' 'host:7' train $save --devices host:7
bad 'batch larger than the data' 'batch' train $host $save --batch 100000
bad 'one device, two named' 'one_device' train $host $save --strategy one_device --devices host:0,host:0
bad 'more cores than there are' '2 cores' train $host $save --strategy accelerator --cores 2
bad 'cores of a mirrored strategy' 'accelerator' train $host $save --strategy mirrored --cores 1
bad 'accelerator of a worker' 'one process' worker $host --strategy accelerator
bad 'mirrored strategy of a worker' 'one process' worker $host --strategy mirrored
bad 'a job for one process' '^copse train: --cluster.*one process' train $host $save --strategy accelerator \
    --cluster '{"cluster":{"worker":["127.0.0.1:9"]},"task":{"type":"worker","index":0}}'
bad 'no cores' '--cores.*at least 1' train $host $save --strategy accelerator --cores 0
bad 'no steps to a run' '--steps-per-run.*at least 1' train $host $save --strategy accelerator --steps-per-run 0
bad 'runs and batches ahead' '--prefetch.*accelerator' train $host $save --strategy accelerator --prefetch 2
bad 'too many batches ahead' '--prefetch.*at most 64' train $host $save --prefetch 65
bad 'servers of one process' '--servers.*mpirun' train $host $save --servers 5
bad 'windows without servers' 'one-sided on.*no job with parameter servers' train $host $save --one-sided on
bad 'windows of one process' 'window-bytes.*no job' \
    train $host $save --window-bytes 8192 --strategy parameter_server
bad 'a way by size, one way forced' '--one-sided-bytes: belongs to --one-sided auto' \
    train $host $save --one-sided on --one-sided-bytes 8192 --strategy parameter_server
bad 'a window of a byte' '--window-bytes: 4096 to' train $host $save --window-bytes 1
bad 'patience with nothing' '--evaluator-patience.*--checkpoint PATH' train $host $save --evaluator-patience 3
bad 'no patience' "--evaluator-patience: '0' is not a whole number of seconds" evaluate --checkpoint point --watch --evaluator-patience 0
bad 'a deadline beyond reason' "--worker-deadline: '4294968' is not" train $host --worker-deadline 4294968
bad 'patience without an evaluator' '--evaluator-patience.*job with an evaluator' train $host --checkpoint point --evaluator-patience 3
bad 'servers of one process, by name' '--servers.*mpirun' train $host $save --servers 1 --strategy parameter_server
bad 'servers of a mirrored strategy' '--servers.*parameter_server' train $host $save --servers 2 --strategy mirrored
bad 'too many steps to a run' '1024' train $host $save --strategy accelerator --steps-per-run 1025
bad 'no such row' "no row contains 'row gello'; without --only" bench --devices host:0 --no-peer --quick --only 'row gello'
bad 'unknown variant' "matmul has no variant 'fastest'; it has shared, wide, chunk, texel, clblast" train $host --kernel matmul=fastest
bad 'unknown family' "no family 'product'; the families are attention [(]plain, wide, texel, tile[)], blocks [(]shared, one, one_wide, wide, rows, tile[)], channel_norm [(]plain, wide[)], channel_sums [(]plain, wide[)], column_sum [(]reduce, wide, group[)], conv [(]plain, wide, texel, tile[)], conv_weight [(]plain, wide, texel, tile[)]" train $host --kernel product=wide
bad 'a variant without its family' "'wide' is not family=variant" train $host --kernel wide
COPSE_DISABLE=opencl,vulkan
export COPSE_DISABLE
bad 'opencl without OpenCL' 'opencl' train $save --devices opencl
good 'train without drivers' 'on 1 device$' train --epochs 2
unset COPSE_DISABLE
bad 'rate beyond 32 bits' '--lr' train --devices host --lr 1e39
bad 'space and minus' "--batch: ' -3'" train --batch ' -3'
bad 'save into a missing folder' 'nowhere' train $host --save "$work/nowhere/p.safetensors"
bad 'plot into a missing folder' 'nowhere' train $host --plot "$work/nowhere/p.svg"

# ---- where files go: all of it is checked before anything is trained ----
untrained() {
    bad "$@"
    [ ! -s "$work/stdout" ] || no "$1: trained: $(head -1 "$work/stdout")"
}
untrained 'empty save' '--save.*empty' train $host --save ''
untrained 'empty plot' '--plot.*empty' train $host --plot=
untrained 'no folder for save' '--save.*nowhere' train $host --save "$work/nowhere/p.st"
untrained 'no folder for plot' '--plot.*nowhere' train $host --plot "$work/nowhere/p.svg"
untrained 'save over a folder' '--save.*not a regular file' train $host --save "$work/cache"
mkfifo "$work/pipe"
untrained 'save over a pipe' '--save.*not a regular file' train $host --save "$work/pipe"
untrained 'plot over a pipe' '--plot.*not a regular file' train $host --plot "$work/pipe"
[ -p "$work/pipe" ] || no 'a pipe was replaced by a file'
ln -s "$work/absent" "$work/loose"
untrained 'save through a loose link' '--save.*link' train $host --save "$work/loose"
if [ "$(id -u)" -ne 0 ]; then
    mkdir -m 555 "$work/locked"
    untrained 'folder not writable' '--save.*locked' train $host --save "$work/locked/p.st"
else
    echo 'skipped: root may write into every folder'
fi
cp "$digits" "$work/own.csv.gz"
ln "$work/own.csv.gz" "$work/hard.csv.gz"
untrained 'save over the data' 'file of --data' train $host --data "$work/own.csv.gz" --save "$work/own.csv.gz"
untrained 'plot over the data' 'file of --data' train $host --data "$work/own.csv.gz" --plot "$work/hard.csv.gz"
untrained 'save and plot in one' 'file of --save' train $host --save p.st --plot "$work/out/p.st"
cmp -s "$digits" "$work/own.csv.gz" || no 'the data was overwritten'

ln -s kept.st "$work/link.st"
ln -s kept.svg "$work/link.svg"
: >"$work/kept.st"
: >"$work/kept.svg"
good 'save through links' 'right' train $host --quiet --save "$work/link.st" --plot "$work/link.svg"
for kind in st svg; do
    [ -L "$work/link.$kind" ] || no "the link to kept.$kind was replaced by a file"
    [ -s "$work/kept.$kind" ] || no "kept.$kind was not written"
done

# ---- checkpoints ----
bad 'resume from nowhere' '--resume.*--checkpoint' train $host --resume
bad 'empty checkpoint' '--checkpoint.*empty' train $host --checkpoint ''
bad 'wrong interval' '--checkpoint-every.*30s' train $host --checkpoint c --checkpoint-every 5m
bad 'interval of 0' '--checkpoint-every' train $host --checkpoint c --checkpoint-every 0
bad 'going on from nothing' '--on-loss continue.*--checkpoint' train $host --on-loss continue
bad 'keep in one file' '--keep.*folder' train $host --checkpoint c.safetensors --keep 2
untrained 'checkpoint and save in one' 'file of --save' train $host --save c.safetensors \
    --checkpoint "$work/out/c.safetensors"
good 'checkpoints' 'checkpoint: .*step-000000000046' train $host --checkpoint "$work/points-c" --checkpoint-every 20
[ "$(ls "$work/points-c" | wc -l)" -eq 3 ] || no "not three checkpoints: $(ls "$work/points-c")"
points=$work/points-c # what untrained_state looks at
untrained_state() {
    cp -r "$points" "$points.before"
    bad "$@"
    diff -r "$points" "$points.before" || no "$1: the checkpoints changed"
    rm -rf "$points.before"
}
untrained_state 'old checkpoints' 'add --resume' train $host --checkpoint "$work/points-c"
for kind in cut plain; do # the damaged one is named once, a file of something else as well
    head -c 5000 "$work/points-c/step-000000000046.safetensors" >"$work/cut.safetensors"
    printf '%s' '{}' >"$work/plain.safetensors"
    cp "$work/$kind.safetensors" "$work/$kind.before"
    bad "resuming from a $kind file" "$kind.safetensors.*to start anew, name another place" \
        train $host --checkpoint "$work/$kind.safetensors" --resume
    cmp "$work/$kind.safetensors" "$work/$kind.before" || no "the $kind file was changed"
done
mkdir "$work/points-h"
cp "$work/points-c/step-000000000040.safetensors" "$work/points-h"
cp "$work/cut.safetensors" "$work/points-h/step-000000000046.safetensors"
"$copse" train $host --quiet --checkpoint "$work/points-h" --resume >"$work/stdout" 2>"$work/stderr" ||
    no "beside a damaged checkpoint: $(cat "$work/stderr")"
grep -q '^copse: warning: monitor: .*046.safetensors is passed over' "$work/stderr" || no 'no warning of a damaged one'
grep -q '\.c:[0-9]' "$work/stderr" && no "a place in the source: $(cat "$work/stderr")"
untrained_state 'another batch' '--batch=64, now it is --batch=32' \
    train $host --checkpoint "$work/points-c" --resume --batch 32
untrained_state 'another model' '--model=mlp:128,64, now it is --model=mlp:9' \
    train $host --checkpoint "$work/points-c" --resume --model mlp:9
untrained_state 'another optimizer' '--optimizer=adam, now' \
    train $host --checkpoint "$work/points-c" --resume --optimizer sgd
good 'nothing left' '0 of 46 steps' train $host --checkpoint "$work/points-c" --resume
good 'nothing left but to save' 'model: +left.st' train $host --checkpoint "$work/points-c" --resume --save left.st
"$copse" train $host --quiet --save "$work/whole.st" >/dev/null
cmp -s "$work/out/left.st" "$work/whole.st" || no 'what was trained before was not saved'
rm -rf "$work/out"; mkdir "$work/out"
good 'resume where nothing is' '^46 steps' train $host --checkpoint "$work/points-d" --resume --quiet
good 'one file' 'checkpoint: one.safetensors' train $host --checkpoint one.safetensors
rm -rf "$work/out"; mkdir "$work/out"
good 'evaluating it' '^[0-9.]+ % of the 359 held-out examples are right' evaluate --devices host \
    --checkpoint "$work/points-c"
good 'evaluating a file' '^[0-9.]+ % of the 359 held-out' evaluate --devices host \
    --checkpoint "$work/points-d/step-000000000046.safetensors"
# damaged ones are passed over, as when resuming
cp -r "$work/points-c" "$work/cut-points"
set -- $(ls "$work/cut-points")
good 'evaluating an older one' '^[0-9.]+ % of the 359 held-out' evaluate --devices host \
    --checkpoint "$work/cut-points/$2"
tail -n 1 "$work/stdout" >"$work/older"
for name in "$3" "$1"; do
    head -c 20000 "$work/points-c/$name" >"$work/cut-points/$name"
done
(cd "$work/out" && "$copse" evaluate --devices host --quiet --checkpoint "$work/cut-points") \
    >"$work/stdout" 2>"$work/stderr" || no "past a damaged checkpoint: $(cat "$work/stderr")"
cmp "$work/stdout" "$work/older" || no "past a damaged checkpoint: not the one before it"
[ "$(wc -l <"$work/stderr")" -eq 1 ] &&
    grep -q "^copse: warning: .*/$3 is passed over: .*the header promises" "$work/stderr" ||
    no "past a damaged checkpoint: $(cat "$work/stderr")"
rm "$work/cut-points/$2"
(cd "$work/out" && "$copse" evaluate --devices host --quiet --checkpoint "$work/cut-points") \
    >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q "^copse: no checkpoint in '.*cut-points' is whole$" "$work/stderr" ||
    no "damaged checkpoints alone: $(cat "$work/stderr")"
sed 's/,[^,]*$/,1/' "$work/digits.csv" >"$work/ones.csv"
bad 'evaluating what' '--checkpoint PATH' evaluate
bad 'evaluating nothing' "no checkpoint in '.*nowhere'" evaluate --checkpoint "$work/nowhere"
bad 'evaluating no file' "no checkpoint file 'no.safetensors'" evaluate --checkpoint no.safetensors
bad 'evaluating something else' 'neither a folder of checkpoints nor FILE.safetensors' \
    evaluate --checkpoint "$work/ones.csv"
bad 'patience once' '--watch' evaluate --checkpoint "$work/points-c" --evaluator-patience 3
"$copse" train $host --quiet --save "$work/plain.safetensors" >/dev/null || no 'saving to evaluate'
bad 'evaluating parameters alone' "plain.safetensors' was not made by copse train --checkpoint" \
    evaluate --checkpoint "$work/plain.safetensors"
bad 'evaluating on other data' 'was made with --data=1797 .*, now it is' \
    evaluate --devices host --checkpoint "$work/points-c" --data "$work/ones.csv" --classes 10
head -n 20 "$work/digits.csv" >"$work/few.csv"
bad 'evaluating on fewer data' 'few.csv.*batches of 64.*--data of the run' \
    evaluate --devices host --checkpoint "$work/points-c" --data "$work/few.csv" --classes 10 --quiet
good 'checkpoint events' '"event":"checkpoint".*"steps":40,"epoch":1,"batch":17' \
    train $host --json --checkpoint "$work/points-e" --checkpoint-every 20
good 'resume event' '"event":"resume".*"steps":46,"epoch":2,"batch":0' \
    train $host --json --checkpoint "$work/points-e" --resume
# With a constant rate a run may be made longer, and is then what it would have been at once.
constant='--devices host --schedule constant --quiet'
"$copse" train $constant --epochs 2 --checkpoint "$work/points-f" >/dev/null || no 'longer: first part'
good longer 'right' train $constant --epochs 3 --checkpoint "$work/points-f" --resume
"$copse" train $constant --epochs 3 --checkpoint "$work/points-g" >/dev/null || no 'longer: at once'
cmp "$work/points-f/step-000000000069.safetensors" "$work/points-g/step-000000000069.safetensors" ||
    no 'longer: another checkpoint'
unchanged=$(cksum "$work"/points-f/*)
bad 'epochs that are over' 'of epoch 3 already, --epochs is 1' \
    train $constant --epochs 1 --checkpoint "$work/points-f" --resume
[ "$(cksum "$work"/points-f/*)" = "$unchanged" ] || no 'epochs that are over: the checkpoints changed'

# A signal: the step is finished, a checkpoint written, and the run can go on. By itself it would not end. `timeout`
# sends every signal twice at once, to the command and to its group: that is one request.
# signalled SIGNAL CODE OPTION...
signalled() {
    signal=$1 code=$2
    shift 2
    rm -rf "$work/points-s"
    : >"$work/stdout" # not what the one before said
    timeout -k 5 250 "$copse" train --devices host --model mlp:8 --batch 256 --json "$@" --checkpoint "$work/points-s" \
        --checkpoint-every 1 >"$work/stdout" 2>"$work/stderr" &
    child=$!
    while kill -0 $child 2>/dev/null && ! grep -q '"steps":3,' "$work/stdout"; do
        sleep 0.05
    done
    kill -"$signal" $child
    wait $child
    got=$?
    [ $got -eq "$code" ] || no "SIG$signal: exit code $got: $(cat "$work/stderr")"
    [ ! -s "$work/stderr" ] || no "SIG$signal: said $(cat "$work/stderr")"
    tail -1 "$work/stdout" | grep -q '"event":"stopped"' || no "SIG$signal: $(tail -1 "$work/stdout")"
}
signalled INT 130 --epochs 4000000001
points=$work/points-s
for _ in 1 2 3 4 5; do
    signalled INT 130 --epochs 4000000001
    signalled TERM 143 --epochs 4000000001 --schedule constant
done
passes=$(tail -1 "$work/stdout" | sed -n 's/.*"epoch":\([0-9]*\).*/\1/p')
good 'after a signal' '"event":"resume"' train --devices host --model mlp:8 --batch 256 --json --schedule constant \
    --epochs $((passes + 2)) --checkpoint "$work/points-s" --resume

# A file that would grow beyond what is permitted fails like any other; and so does what is printed.
# limited LINES BLOCKS PATTERN OPTION...
limited() {
    lines=$1 blocks=$2 pattern=$3
    shift 3
    (cd "$work/out" && ulimit -f "$blocks" && COPSE_DISABLE=opencl,vulkan exec "$copse" train --devices host --epochs 9 "$@") \
        >"$work/stdout" 2>"$work/stderr"
    code=$?
    [ "$(wc -l <"$work/stderr")" -eq "$lines" ] && grep -q "$pattern" "$work/stderr" ||
        no "ulimit -f $blocks: $code: $(cat "$work/stderr")"
    [ -z "$(ls -A "$work/out")" ] || no "ulimit -f $blocks: left $(ls -A "$work/out")"
    rm -rf "$work/out"; mkdir "$work/out"
}
limited 2 8 "^copse train: 'p.st' was not written: .*cannot write p.st" --quiet --save p.st # and a warning after an epoch
[ $code -eq 1 ] || no "a file that is too large: $code"
limited 1 2 "cannot write 'p.svg': File too large" --quiet --plot p.svg
[ $code -eq 2 ] || no "a plot that is too large: $code"
limited 1 1 'cannot write to standard output' --json
[ $code -eq 1 ] || no "printing too much: $code"

# ---- JSON lines ----
good 'large seed' '"seed":18446744073709551615,' train $host --json --seed 18446744073709551615
cp "$digits" "$work/$(printf 'd\377\303\251.csv.gz')"
good 'path that is not UTF-8' "$(printf 'd\357\277\275\303\251')[.]csv" \
    train $host --json --data "$work/$(printf 'd\377\303\251.csv.gz')"
iconv -f UTF-8 -t UTF-8 "$work/stdout" >"$work/utf8" 2>&1 || no 'JSON that is not UTF-8'
good 'exact sizes' '"max_buffer_bytes":[0-9]+,' devices --json
grep -qE '[0-9]e\+[0-9]' "$work/stdout" && no 'a size is rounded'

# ---- other kinds of data ----
{
    printf '\000\000\010\003\000\000\000\050\000\000\000\002\000\000\000\002'
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        printf '\377\000\000\377\000\377\377\000'
    done
} >"$work/x.idx"
{
    printf '\000\000\010\001\000\000\000\050'
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        printf '\000\001'
    done
} >"$work/y.idx"
bad 'IDX without labels' '--labels' train $host --data "$work/x.idx"
good 'IDX with labels' '100.00 % of the 8 ' train --devices host --epochs 40 --batch 8 \
    --data "$work/x.idx" --labels "$work/y.idx"
bad 'missing labels' 'no.idx' train $host $save --data "$work/x.idx" --labels "$work/no.idx"
untrained 'save over the labels' 'file of --labels' train $host --data "$work/x.idx" \
    --labels "$work/y.idx" --save "$work/y.idx"

bad 'labels out of range, by file' 'y.idx: row 2: the label 1 is out of range' train $host $save \
    --data "$work/x.idx" --labels "$work/y.idx" --classes 1
mkdir "$work/half"
cp "$work/x.idx" "$work/half/train-images-idx3-ubyte"
bad 'a folder without labels' 'no readable file .*/half/train-labels-idx1-ubyte, nor one with .gz' \
    train $host $save --data "$work/half"

# A signal while the parameters are written, which takes these a moment, leaves no half of a file.
COPSE_DISABLE=opencl,vulkan "$copse" train --devices host --data "$work/x.idx" --labels "$work/y.idx" --batch 32 \
    --model mlp:300000 --epochs 4 --quiet --save "$work/out/p.st" >"$work/stdout" 2>&1 &
child=$!
sleep 0.1 # after the check of the place, which makes such a file and removes it
while kill -0 $child 2>/dev/null && [ -z "$(find "$work/out" -name '*.tmp*')" ]; do :; done
kill $child 2>/dev/null
wait $child 2>/dev/null
code=$?
[ $code -eq 143 ] || [ $code -eq 0 ] || no "a signal while writing: $code" # 0: it came too late
[ -z "$(find "$work/out" -name '*.tmp*')" ] || no "a signal while writing left $(ls "$work/out")"
rm -rf "$work/out"; mkdir "$work/out"

# Moved with its data set the tool takes that one, not the one of the source tree.
mkdir -p "$work/moved/bin" "$work/moved/share/copse/digits"
cp "$copse" "$work/moved/bin/copse"
cp "$digits" "$work/moved/share/copse/digits/"
built=$copse
copse=$work/moved/bin/copse
if [ -e /proc/self/exe ]; then
    good 'data beside the tool' '/moved/share/copse/digits/digits.csv.gz"' train $host --json
    untrained 'save over the default data' 'file of --data' train $host \
        --save "$work/moved/share/copse/digits/digits.csv.gz"
else
    echo 'skipped: /proc/self/exe is not there'
fi
copse=$built

# ---- standard output that cannot be written ----
for command in --version --help devices 'devices --json' 'train --help' \
    "train $host --save $work/closed.st"; do
    "$copse" $command >&- 2>"$work/stderr"
    [ $? -eq 1 ] || no "$command without standard output: not 1"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || no "$command without standard output: not one line"
done
"$copse" train $host --save "$work/open.st" >"$work/stdout"
cmp -s "$work/open.st" "$work/closed.st" || no 'printed text went into the saved file'

# Without momentum the momentum rules are plain SGD.
figures() {
    "$copse" train $host --quiet "$@" | head -1
}
plain=$(figures --optimizer sgd)
[ "$(figures --optimizer momentum --momentum 0)" = "$plain" ] || no 'momentum 0 is not SGD'
[ "$(figures --optimizer nesterov --momentum 0)" = "$plain" ] || no 'nesterov 0 is not SGD'
[ "$(figures --optimizer momentum)" != "$plain" ] || no 'momentum 0.9 is SGD'

# What a failed run says was kept is what it saved itself.
(cd "$work/out" && "$copse" train --devices host --epochs 3 --batch 1438 --optimizer sgd --lr 1e9 \
    --schedule constant --save late.st) >"$work/stdout" 2>"$work/stderr"
[ $? -eq 1 ] || no 'diverged later: not 1'
grep -q "late.st.partial' keeps the parameters of epoch 1" "$work/stderr" || no "diverged later: $(cat "$work/stderr")"
[ -s "$work/out/late.st.partial" ] && [ ! -e "$work/out/late.st" ] || no "diverged later: $(ls "$work/out")"
rm -rf "$work/out"; mkdir "$work/out"

# After a good first epoch a run that fails keeps what was good.
"$copse" train --devices host --epochs 3 --save "$work/kept.safetensors" --quiet >/dev/null || no 'kept: first run'
cp "$work/kept.safetensors" "$work/before"
"$copse" train --devices host --epochs 3 --optimizer sgd --lr 1e30 --save "$work/kept.safetensors" \
    --quiet >/dev/null 2>"$work/stderr"
grep -q 'keeps' "$work/stderr" && no "a failed run claims an older file: $(cat "$work/stderr")"
cmp -s "$work/before" "$work/kept.safetensors" || no 'a failed run replaced the saved parameters'

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
