#!/bin/sh
# SPDX-License-Identifier: MIT
# installed_links.sh FOLDER: every relative link of the installed pages leads to an installed file.
set -u
cd "$1" || exit 1
list=$(mktemp) || exit 1
trap 'rm -f "$list"' EXIT
find . -name '*.md' -type f | while read -r page; do
    grep -oE '\]\([^)]+\)' "$page" | sed -e 's/^](//' -e 's/)$//' -e 's/#.*//' | grep -vE '^$|^https?:' | sort -u |
        sed "s|^|$page |"
done >"$list"
failed=0
while read -r page target; do
    [ -e "$(dirname "$page")/$target" ] || { echo "${page#./} links to $target, which is not installed"; failed=1; }
done <"$list"
for folder in . internals devices; do
    [ -n "$(find "$folder" -maxdepth 1 -name '*.md')" ] || { echo "no pages in $folder"; failed=1; }
done
[ -s "$list" ] || { echo 'the pages have no links: the test finds nothing'; failed=1; }
[ $failed = 1 ] || echo "$(wc -l <"$list") links"
exit $failed
