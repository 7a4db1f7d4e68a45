#!/bin/sh
# SPDX-License-Identifier: MIT
# device_files.sh SOURCE COPSE: what docs/devices has from `copse gpucheck` is whole, readable and without private data, and
# each tuning record is one. device_files.sh --one FILE: only whether a file has private data.
set -eu

# has FILE WHAT GREP-OPTIONS PATTERN: whether a line matches, which is then printed
has() {
    file=$1 what=$2
    shift 2
    ! grep -n "$@" "$file" >/dev/null && return 1
    echo "$file: $what: $(grep -n "$@" "$file" | head -n 1 | cut -c1-200)"
}

# private FILE: prints what identifies a person, a machine or a card
private() {
    found=1
    hex='[0-9a-fA-F]'
    has "$1" 'a UUID' -E -e "$hex{8}-$hex{4}-$hex{4}-$hex{4}-$hex{12}" -e "(^|[^0-9a-zA-Z])$hex{32}([^0-9a-zA-Z]|\$)" && found=0
    has "$1" 'an identity' -iE -e '"[a-z]*(uuid|luid|serial|hostname)[a-z]*":' -e '"pci":' -e '\| *[a-z]*(uuid|luid) *\|' && found=0
    # a path: a slash after a space or a quotation mark
    has "$1" 'a path' -E -e "(^|[ \"'(=])(~|/(home|root|Users|tmp|usr|opt|var|etc|mnt|work|run|media|data))/[A-Za-z0-9_.]" \
        -e '[A-Za-z]:\\\\?(Users|Documents|Temp)' && found=0
    return $found
}

if [ "$1" = --one ]; then
    ! private "$2"
    exit
fi
source=$1 copse=$2
failed=0 count=0
for file in "$source"/docs/devices/gpucheck/*.jsonl "$source"/docs/devices/gpucheck/*.txt; do
    [ -e "$file" ] || continue
    count=$((count + 1))
    private "$file" && failed=1
done
for file in "$source"/docs/devices/gpucheck/*.jsonl; do
    [ -e "$file" ] || continue
    head -n 1 "$file" | grep -q '^{"event":"gpucheck","format":1,"library":"[0-9.]*"}$' || { echo "$file: not of gpucheck"; failed=1; }
    "$copse" conformance compare "$file" "$file" >/dev/null || { echo "$file: cannot be read"; failed=1; }
done
for file in "$source"/core/trust/records/*.txt; do
    [ -e "$file" ] || continue
    count=$((count + 1))
    private "$file" && failed=1
    head -n 1 "$file" | grep -qE '^copse-tuning 1 [0-9]+ [0-9a-f]{16}$' || { echo "$file: not a tuning record"; failed=1; }
done
[ $failed = 0 ] || exit 1
echo "$count files"
