#!/bin/sh
# SPDX-License-Identifier: MIT
# The confusion matrix of `copse evaluate`, as text and as SVG: classes with long and similar names can be told apart, and no
# text is cut or outside of the picture.
# usage: confusion.sh COPSE
set -u
copse=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/expect.sh"
cd "$work" || exit 1

# evaluate NAME...: a model of classes with these names, and its evaluation
evaluate() {
    printf '%s\n' "$@" >names
    awk 'BEGIN { srand(1) } { name[NR] = $0 } END { print "a,b,class"; for (i = 0; i < 120; i++) {
        k = i % NR; print k + rand() "," rand() "," name[k + 1] } }' names >table.csv
    "$copse" train --devices host:0 --data table.csv --epochs 1 --quiet --save model >/dev/null &&
        "$copse" evaluate model table.csv --devices host:0 --plot plot.svg >said 2>&1 || no "$1: $(cat said)"
}
heads() {
    sed -n 's/^ *label . predicted  *//p' said | tr -s ' '
}

evaluate 'golden eagle' 'golden retriever' 'golden goose'
[ "$(heads)" = 'golden eagle golden goose golden retriever' ] || no "names that fit: $(cat said)"
grep -qE '^  golden retriever +[0-9]+ +[0-9]+ +[0-9]+$' said || no "rows: $(cat said)"

evaluate zero one two three
[ "$(heads)" = 'one three two zero' ] || no "short names: $(cat said)"

# More than fit in a line: numbers, which the lines explain.
many=$(for i in 1 2 3 4 5 6 7 8 9; do printf 'class_of_animals_%s ' $i; done)
evaluate $many
[ "$(heads)" = '1 2 3 4 5 6 7 8 9' ] || no "many names: $(cat said)"
grep -qE '^  9 +class_of_animals_9 +[0-9]' said || no "legend: $(cat said)"
[ -z "$(awk 'length($0) > 100' said | grep -v '(')" ] || no "wide: $(cat said)"
long=a_very_long_name_of_a_class_that_no_column_of_a_table_has_room_for
evaluate "${long}_one" "${long}_two" é
[ "$(heads)" = '1 2 3' ] || no "long names: $(cat said)"
grep -q "^  2 .*_two " said || no "long names are cut: $(cat said)"

# Numbers stay below their heads, whatever the names are.
sed -n '/^  class .*F1$/,/^$/p' said | grep -v -e é -e '^$' | awk '{ n = length($0) } NR == 1 { width = n } n != width { bad = 1 }
    END { exit bad || NR != 3 }' || no "columns of classes: $(cat said)"
sed "1s/.*/${long}_that_is_measured,b,class/" table.csv >wide.csv
"$copse" train --devices host:0 --data wide.csv --epochs 1 --quiet --save wide >/dev/null && "$copse" info wide >info.txt || no 'info'
awk '/^  column .*use$/ { at = index($0, "use") } at && / number  / { n++; bad = bad || index($0, "number") != at } at && NF == 0 { exit }
    END { exit bad || n != 2 }' info.txt || no "columns of info: $(cat info.txt)"

# The picture: the title is whole, and each text is inside. A character has at most 8.4 of 12 units; text is at an angle of 45.
python3 - plot.svg "${long}_two" <<'END' || no 'SVG'
import re, sys
svg = open(sys.argv[1], encoding="utf-8").read()
width, height = map(int, re.search(r"width='(\d+)' height='(\d+)'", svg).groups())
assert "lines: labels, columns: predictions</text>" in svg, "the title is cut"
assert svg.count(sys.argv[2]) == 2, "a name is cut"
for x, y, anchor, text in re.findall(r"<text x='([-\d.]+)' y='([-\d.]+)' text-anchor='(\w+)' fill='[^']*'>([^<]*)</text>", svg):
    if (x, y) != ("0.0", "0.0"):
        left = float(x) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * 6.7 * len(text)
        assert left >= 0 and left + 6.7 * len(text) <= width, text
for x, y, text in re.findall(r"translate\(([\d.]+) ([\d.]+)\) rotate\(-45\)'><text[^>]*>([^<]*)<", svg):
    reach = 6.7 * len(text) * 0.71
    assert float(x) + reach <= width and float(y) - reach >= 30, (text, "over the title or the edge")
END
[ $failed -eq 0 ] && echo 'classes can be told apart'
exit $failed
