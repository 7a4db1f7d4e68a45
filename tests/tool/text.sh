#!/bin/sh
# SPDX-License-Identifier: MIT
# text.sh COPSE: texts as data of `copse train`, `copse evaluate` and `copse predict`; hostile texts: exit code 2, one line with
# line and column, and no file is written.
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"
cd "$work" || exit 1

# hostile NAME PATTERN TEXT OPTION...: TEXT is a printf format
hostile() {
    name=$1 pattern=$2
    printf "$3" >"$work/$name.txt"
    shift 3
    bad "$name" "$pattern" train --devices host:0 --data "$work/$name.txt" --save p.safetensors --plot p.svg --checkpoint c "$@"
}
chars="--tokens characters --context 4"

# ---- hostile texts ----
hostile empty 'empty.txt is empty' '' $chars
hostile empty_bytes 'empty_bytes.txt is empty' '' --tokens bytes --context 4
hostile mark_only 'mark_only.txt is empty' '\357\273\277' $chars
hostile one 'has 1 characters; a window of 4 and the one after it needs 5' 'a' $chars
hostile short 'has 5 characters; a window of 16' 'abcde' --tokens characters
hostile one_window 'cannot be split' 'abcdefg' $chars
hostile same 'all characters are "a"' "$(printf 'a%.0s' $(seq 100))" $chars
hostile start 'line 2, column 1 .byte 3.: invalid UTF-8: a byte that continues no character' 'ab\n\200' $chars
hostile lead 'line 1, column 3 .byte 2.: invalid UTF-8: a byte that begins no character' 'ab\377' $chars
hostile overlong 'line 1, column 3 .byte 2.: invalid UTF-8: a character written with more bytes than it needs' 'ab\300\257' $chars
hostile overlong_3 'column 3 .byte 2.: .*more bytes than it needs' 'ab\340\200\257' $chars
hostile surrogate 'column 3 .byte 2.: invalid UTF-8: a surrogate' 'ab\355\240\200' $chars
hostile above 'column 3 .byte 2.: invalid UTF-8: a character above U.10FFFF' 'ab\364\220\200\200' $chars
hostile cut 'line 2, column 2 .byte 4.: invalid UTF-8: the text ends inside a character' 'ab\nx\342\202' $chars
hostile broken 'column 3 .byte 2.: invalid UTF-8: a character that is not complete' 'ab\342\202z' $chars
hostile nul 'line 2, column 2 .byte 4.: a NUL; bytes' 'ab\nx\000y' $chars
hostile latin 'line 1, column 4 .byte 3.' 'caf\351 au lait' $chars
hostile table_options '--label belongs to other data than texts' 'abcdefghijkl' $chars --label a
hostile scaled '--scale belongs to other data' 'abcdefghijkl' $chars --scale max
hostile classes '--classes belongs to other data' 'abcdefghijkl' $chars --classes 3
hostile missing '--missing belongs to other data' 'abcdefghijkl' $chars --missing mean
hostile ignored '--ignore belongs to other data' 'abcdefghijkl' $chars --ignore a
hostile task '--task belongs to other data' 'abcdefghijkl' $chars --task regression
hostile header '--header belongs to other data' 'abcdefghijkl' $chars --header no
hostile labels '--labels belongs to other data' 'abcdefghijkl' $chars --labels l.npy
hostile words 'no choice .*words|words.*characters' 'abcdefghijkl' --tokens words
hostile context_alone '--context and --stride belong to --tokens' 'abcdefghijkl' --context 4
hostile context_zero 'has 12 characters; a window of 16' 'abcdefghijkl' --tokens characters --context 0
hostile context_huge 'at most 2147483647' 'abcdefghijkl' --tokens characters --context 4294967295
hostile no_embedding "layer 2 'dense 8 relu': it takes f32, the input is i32.4.; put an embedding in front" 'abcdefghijkl' $chars --model mlp:8
hostile outputs 'tokens need .12., for the token after the window, or .4, 12.' 'abcdefghijklabcdefghijkl' $chars \
    --model 'embedding in 2; flatten; dense 5'
hostile gpt_sizes "'gpt:4,128': write gpt:LAYERS,WIDTH,HEADS with 1 to 256 layers" 'abcdefghijklabcdefghijkl' $chars --model gpt:4,128
hostile gpt_more "'gpt:257,8,1': write gpt:" 'abcdefghijklabcdefghijkl' $chars --model gpt:257,8,1
hostile gpt_end "'gpt:1,8,1,': write gpt:" 'abcdefghijklabcdefghijkl' $chars --model gpt:1,8,1,
hostile decoder_sizes "'decoder:4,128': write decoder:LAYERS,WIDTH,HEADS with 1 to 256 layers" 'abcdefghijklabcdefghijkl' $chars --model decoder:4,128
hostile decoder_end "'decoder:1,8,1x': write decoder:" 'abcdefghijklabcdefghijkl' $chars --model decoder:1,8,1x
hostile decoder_odd "'attention 8 causal=yes rotary=yes.*rotary positions turn pairs" 'abcdefghijklabcdefghijkl' $chars --model decoder:1,8,8
hostile gpt_heads "'attention 3 causal=yes.*the width of .4, 8. does not divide into 3 heads" 'abcdefghijklabcdefghijkl' $chars --model gpt:1,8,3
hostile gru_sizes "'gru:2,8,1': write gru:LAYERS,WIDTH with 1 to 256 layers, such as gru:2,256" 'abcdefghijklabcdefghijkl' $chars --model gru:2,8,1
hostile lstm_more "'lstm:257,8': write lstm:" 'abcdefghijklabcdefghijkl' $chars --model lstm:257,8
hostile prose 'give --tokens characters, or bytes' 'It was the best of times,\nit was the worst of times, it was\nthe age of wisdom\n'
hostile prose_lines 'give --tokens characters, or bytes' 'one\ntwo\nthree\n'
mkdir folder
bad folder 'folder' train --devices host:0 --data "$work/folder" $chars --save p.safetensors
bad nowhere 'nowhere.txt' train --devices host:0 --data "$work/nowhere.txt" $chars --save p.safetensors
bad default_data 'name it with --data' train --devices host:0 $chars --save p.safetensors
mkfifo pipe
bad pipe 'pipe' train --devices host:0 --data "$work/pipe" $chars --save p.safetensors
# More different characters than a vocabulary has.
awk 'BEGIN { for (a = 144; a <= 191; a++) for (b = 128; b <= 191; b++) for (c = 128; c <= 191; c++)
    printf "%c%c%c%c", 240, a, b, c }' </dev/null >many.txt 2>/dev/null
if [ "$(head -c 4 many.txt | od -An -tx1 | tr -d ' ')" = f0908080 ]; then
    bad many 'line 1, column 65537: there are more than 65536 different characters' \
        train --devices host:0 --data "$work/many.txt" $chars --save p.safetensors
else
    echo 'skipped: too many characters: this awk writes no bytes'
fi

# ---- good ones ----
i=0
while [ $i -lt 60 ]; do
    printf 'The owl said "hoo%d", and flew.\r\n\tThen it sl\303\251pt; the end.\n' $((i % 3))
    i=$((i + 1))
done >tale.txt
run="train --devices host:0 --data $work/tale.txt --tokens characters --context 8"
good train '^data .*: 33.. windows of 8 characters, one every 1; 25 different characters$' $run --epochs 4 --save m.safetensors
grep -qE '^[0-9.]+ % of the 6.. held-out tokens are right \(loss [0-9.]+, perplexity [0-9.]+, [0-9.]+ bits per byte\)$' stdout || no "train: $(tail -4 stdout)"
grep -q 'held out: the end of the text' stdout || no "train: $(head -3 stdout)"
grep -qE 'held-out loss [0-9.]+  accuracy +[0-9.]+ %  perplexity [0-9.]+  bits/byte [0-9.]+$' stdout || no "train: $(tail -8 stdout)"
mv out/m.safetensors .
gzip -c tale.txt >tale.gz
good gzip '^data .*: 33.. windows of 8 characters, one every 1; 25 different characters$' train --devices host:0 --data "$work/tale.gz" \
    --tokens characters --context 8 --epochs 1
good json '"event":"done",.*"accuracy":[0-9.]+,"perplexity":[0-9.]+,"bits_per_byte":[0-9.]+,"test_loss"' $run --epochs 1 --json
grep -q '"event":"epoch",.*"test_perplexity":.*"test_bits_per_byte":' stdout || no "json: $(cat stdout)"
good every '^data .*: 4.. windows of 8 characters, one every 8' $run --epochs 40 --model 'embedding in 4; dense out' --save every.safetensors
grep -qE '^[0-9.]+ % of the (6|7).. held-out tokens' stdout || no "every: $(tail -3 stdout)"
awk '/^epoch  40/ { exit !($6 > 15 && $6 - $12 < 10 && $12 - $6 < 10) }' stdout || no "every: $(grep '^epoch  40' stdout)"
mv out/every.safetensors .
# A transformer learns the letters of a line in their places; a bare embedding gets 15 % to 25 %.
good gpt ' tokens are right' $run --epochs 20 --model gpt:1,16,2 --lr 0.01 --batch 16 --save gpt.safetensors
awk '/^epoch  20/ { exit !($6 > 85) }' stdout || no "gpt: $(grep '^epoch  20' stdout)"
mv out/gpt.safetensors .
# The sanitized build (COPSE_TEST_SOME) trains one of the four networks: tests of the layers train the others there.
if [ -z "${COPSE_TEST_SOME-}" ] || [ "${COPSE_TEST_ALL-}" ]; then
    good decoder ' tokens are right' $run --epochs 20 --model decoder:1,16,2 --lr 0.01 --batch 16
    awk '/^epoch  20/ { exit !($6 > 85) }' stdout || no "decoder: $(grep '^epoch  20' stdout)"
    for net in gru:1,24 lstm:1,24; do
        good "$net" ' tokens are right' $run --epochs 20 --model $net --lr 0.01 --batch 16
        awk '/^epoch  20/ { exit !($6 > 85) }' stdout || no "$net: $(grep '^epoch  20' stdout)"
    done
fi
good bytes '^data .*: 1[67]. windows of 8 bytes, one every 20; 256 different bytes$' $run --tokens bytes --stride 20 --epochs 1 --save b.safetensors
mv out/b.safetensors .

good info '^tokens +25: "\\t\\n ' info "$work/m.safetensors"
grep -q '"' stdout && grep -qE '^input +8 bytes: windows of characters, one every 1$' stdout || no "info: $(cat stdout)"
grep -qE '^task +sequence of text data$' stdout || no "info: $(cat stdout)"
good evaluate '^[0-9.]+ % of the 33.. tokens are right .loss [0-9.]+, perplexity [0-9.]+, [0-9.]+ bits per byte.$' evaluate "$work/m.safetensors" "$work/tale.txt" --devices host:0
[ "$(grep -cE '^  [0-9]+, [0-9]+ \([0-9.]+\): ".*" then ".*"$' stdout)" -eq 10 ] || no "worst windows: $(cat stdout)"
grep -q '"evaluated"' stdout && no 'evaluate prints events'
good 'evaluate json' '"perplexity":.*"bits_per_byte":[0-9.]+.*"worst":\[\{"row":[0-9]+,"loss":[0-9.]+,"line":[0-9]+,"column":[0-9]+,"window":"' \
    evaluate "$work/every.safetensors" "$work/tale.txt" --devices host:0 --json
grep -qE '"rows":4..,.*"tokens":3' stdout || no "tokens: $(cat stdout)"
good 'evaluate bytes' 'tokens are right' evaluate "$work/b.safetensors" "$work/tale.txt" --devices host:0
good 'evaluate plot' 'tokens are right' evaluate "$work/m.safetensors" "$work/tale.txt" --devices host:0 --quiet --plot c.svg
[ "$(grep -c '<rect' out/c.svg)" -ge 625 ] || no "plot: $(grep -c '<rect' out/c.svg) cells"
rm -f out/c.svg

bad 'predict empty' 'empty.txt is empty' predict "$work/m.safetensors" "$work/empty.txt" --devices host:0
printf 'and flew.\n\tThen it s' >ask.txt
good predict '^line,column,token,probability$' predict "$work/m.safetensors" "$work/ask.txt" --devices host:0
[ "$(tail -1 stdout | cut -d, -f1-3)" = '2,11,l' ] || no "predict: $(cat stdout)"
good 'predict lines' '^2,11,l,0\.' predict "$work/m.safetensors" "$work/ask.txt" --devices host:0 --lines
[ "$(wc -l <stdout)" -eq 3 ] && grep -qF '1,10,\n,0.' stdout || no "predict lines: $(cat stdout)"
good 'predict json' '^\{"row":1,"line":1,"column":10,"token":"\\n","probability":0\.[0-9]+,"probabilities":\{"\\t":' \
    predict "$work/m.safetensors" "$work/ask.txt" --devices host:0 --lines --json
good 'predict to a file' '^1 row: p.csv$' predict "$work/every.safetensors" "$work/ask.txt" --devices host:0 --output p.csv
rm -f out/p.csv
good 'predict bytes' '^2,11,[^,]*,[0-9.e-]+$' predict "$work/b.safetensors" "$work/ask.txt" --devices host:0
printf 'The fox said' >fox.txt
bad unknown 'fox.txt: line 1, column 7: the character "x" .U.0078. is none of the 25' \
    predict "$work/m.safetensors" "$work/fox.txt" --devices host:0 --output p.csv
bad 'evaluate unknown' 'line 1, column 7: the character "x"' evaluate "$work/m.safetensors" "$work/fox.txt" --devices host:0 --plot c.svg
printf 'hoo' >brief.txt
only='the network predicts only the token after a whole window'
bad 'predict brief' "brief.txt has 3 characters; a window of 8 needs 8; $only\$" predict "$work/m.safetensors" "$work/brief.txt" --devices host:0
printf 'hoo\nhoo\nhoo\n' >lines.txt
good 'predict a late line' '^3,4,' predict "$work/m.safetensors" "$work/lines.txt" --devices host:0 --lines
printf 'hoo\nho\n\n' >lines.txt
bad 'predict no line' "no line ends after 8 characters; $only\$" predict "$work/m.safetensors" "$work/lines.txt" --devices host:0 --lines
# A network that predicts each position takes shorter texts, too: its token is the one of `generate`.
good 'predict short lines' '^1,4,' predict "$work/every.safetensors" "$work/lines.txt" --devices host:0 --lines
[ "$(cut -d, -f1,2 stdout | tr '\n' ' ')" = 'line,column 1,4 2,3 3,1 ' ] || no "short lines: $(cat stdout)"
good 'predict a short text' '^1,4,[^,]*,0\.[0-9]*$' predict "$work/gpt.safetensors" "$work/brief.txt" --devices host:0
next=$(sed -n '2s/^1,4,\([^,]*\),.*/\1/p' stdout)
[ "hoo$next" = "$("$copse" generate "$work/gpt.safetensors" --devices host:0 --prompt hoo --length 1 --temperature 0)" ] ||
    no "a short text: $(cat stdout)"
"$copse" train --devices host:0 --epochs 1 --quiet --save digits.safetensors >/dev/null
bad 'lines of a table' '--lines is for models of texts' predict "$work/digits.safetensors" "$work/ask.txt" --devices host:0 --lines
printf 'ab\000c' >binary
bad 'a binary file by a text model' 'line 1, column 3 .byte 2.: a NUL' predict "$work/m.safetensors" "$work/binary" --devices host:0

# Checkpoints: resumed to the same bits; evaluated; another window is refused.
good whole 'checkpoint: ' $run --epochs 2 --checkpoint whole.safetensors --checkpoint-every 20
good half 'checkpoint: ' $run --epochs 1 --schedule constant --checkpoint half.safetensors
good resumed '^resumed ' $run --epochs 2 --schedule constant --checkpoint half.safetensors --resume --save resumed.safetensors --save-last
good straight 'model: ' $run --epochs 2 --schedule constant --save straight.safetensors --save-last
"$copse" export out/resumed.safetensors --npy resumed_npy >/dev/null && "$copse" export out/straight.safetensors --npy straight_npy >/dev/null
for name in dense1.weight embedding1.weight dense2.bias; do
    cmp -s resumed_npy/$name.npy straight_npy/$name.npy || no "resumed: another $name"
done
grep ' held-out tokens ' stdout >trained
"$copse" evaluate --devices host:0 --data tale.txt --checkpoint out/half.safetensors --quiet >evaluated 2>&1
cmp -s trained evaluated || no "evaluate --checkpoint: $(cat evaluated) after $(cat trained)"
mv out/half.safetensors .
rm -rf out/*
bad 'another context' 'was made with ' $run --context 4 --epochs 3 --schedule constant --checkpoint "$work/half.safetensors" --resume
bad 'other tokens' 'was made with ' $run --tokens bytes --epochs 3 --schedule constant --checkpoint "$work/half.safetensors" --resume

# The text is identified by its content: here the last line is another one.
sed '$s/end/den/' tale.txt >other.txt
bad 'another text' 'was made with --data=.* labels' train --devices host:0 --data "$work/other.txt" --tokens characters --context 8 \
    --epochs 3 --schedule constant --checkpoint "$work/half.safetensors" --resume

# Two replicas train as one.
"$copse" $run --epochs 1 --quiet >one
"$copse" $run --epochs 1 --quiet --devices host:0,host:0 >two
[ "$(head -1 one | cut -c1-4)" = "$(head -1 two | cut -c1-4)" ] || no "two replicas: $(head -1 two) after $(head -1 one)"

[ $failed -eq 0 ] && echo "$passed passed"
exit $((failed > 0))
