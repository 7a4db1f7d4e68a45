#!/bin/sh
# SPDX-License-Identifier: MIT
# data.sh FOLDER ROWS: writes the data of the golden table to FOLDER: the first ROWS digits as a table (digits.csv) and as
# pictures with labels (digits-images-idx3-ubyte, digits-labels-idx1-ubyte), and a text of 1,500 characters (text.txt).
set -u
to=$1 rows=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
gzip -dc "$top/examples/data/digits/digits.csv.gz" | head -n "$rows" >"$to/digits.csv"
count=$(printf '\\%03o\\%03o' $((rows / 256)) $((rows % 256)))
pixels=$(awk -F, '{ for (i = 1; i <= 64; i++) printf "\\%03o", 15 * $i }' "$to/digits.csv")
labels=$(awk -F, '{ printf "\\%03o", $65 }' "$to/digits.csv")
printf "\\0\\0\\010\\003\\0\\0$count\\0\\0\\0\\010\\0\\0\\0\\010$pixels" >"$to/digits-images-idx3-ubyte"
printf "\\0\\0\\010\\001\\0\\0$count$labels" >"$to/digits-labels-idx1-ubyte"
awk 'BEGIN {
    split("a tree has roots; the roots drink and leaves grow in light", word, " ")
    for (x = 7; length(text) < 1500; x = (75 * x + 74) % 65537)
        text = text word[1 + x % 11] (x % 9 ? " " : "\n")
    printf "%s", text
}' >"$to/text.txt"
