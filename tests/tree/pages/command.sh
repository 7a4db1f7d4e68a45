# SPDX-License-Identifier: MIT
# What the commands of command.md expect: build/copse, files with the names of its examples, and a run to be resumed. COPSE_FULL
# set: the commands run as they are. Otherwise they use host:0, and the three that take minutes a part of their cases.
set -eu
mkdir build DIR
cat >build/copse <<'END'
#!/bin/sh
[ -z "${COPSE_FULL-}" ] || exec copse "$@"
command=$1
shift
case $command in
conformance) set -- "$@" --device host:0 --ops softmax ;;
tune) set -- "$@" --device host:0 --seconds 1 ;;
bench) set -- "$@" --devices host --quick --no-peer ;;
train | predict | generate | evaluate)
    case " $* " in
    *' --devices opencl:0,vulkan:0 '*) set -- "$@" --devices host:0,host:0 ;;
    *' --devices '*) ;;
    *) set -- "$@" --devices host ;;
    esac ;;
esac
exec copse "$command" "$@"
END
chmod +x build/copse

# bytes AWK-PROGRAM: the numbers that it prints
bytes() { printf "$(awk "BEGIN { $1 }" | awk '{ printf "\\%03o", $1 }')"; }
{
    bytes 'split("0 0 8 3 0 0 1 0 0 0 0 4 0 0 0 4", h, " "); for (i = 1; i <= 16; i++) print h[i]'
    for half in 1 2; do bytes 'for (i = 0; i < 128 * 16; i++) print int(i / 16) % 2 * 200 + i % 7'; done
} >DIR/train-images-idx3-ubyte
bytes 'split("0 0 8 1 0 0 1 0", h, " "); for (i = 1; i <= 8; i++) print h[i]; for (i = 0; i < 256; i++) print i % 2' \
    >DIR/train-labels-idx1-ubyte
awk 'BEGIN {
    OFS = ","; srand(1); print "kind,length,colour"
    for (i = 0; i < 100; i++)
        print i % 2 ? "tulip" : "crocus", 2 * (i % 2) + rand(), rand() < 0.5 ? "red" : "blue"
}' >flowers.csv
printf 'colour,length\nred,2.5\nblue,0.5\n' >new.csv
awk 'BEGIN { for (i = 0; i < 10; i++) print "The owl sleeps, and the fox runs." }' >tale.txt
printf 'flatten\ndense 16 relu; dropout 0.1\ndense out\n' >net.txt
copse train --devices host --epochs 2 --quiet --checkpoint run
