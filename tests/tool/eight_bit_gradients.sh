#!/bin/sh
# SPDX-License-Identifier: MIT
# eight_bit_gradients.sh EXAMPLE DIGITS: gradients as codes of 8 bits train nearly as well as exact ones, with about a quarter
# of their bytes. The operation is really in the steps: without it no byte is counted.
set -eu
lines=$("$1" "$2") # its status counts
printf '%s\n' "$lines" | tee /dev/stderr | awk '
    { accuracy[$1] = $5; bytes[$1] = $7 }
    END {
        exit !(accuracy["exact"] > 90 && accuracy["8-bit"] > accuracy["exact"] - 2 && bytes["exact"] > 10 &&
               bytes["8-bit"] > 0.25 * bytes["exact"] && bytes["8-bit"] < 0.27 * bytes["exact"])
    }'
