#!/bin/sh
# SPDX-License-Identifier: MIT
# tables.sh COPSE: `copse train` on tables as people have them, and on hostile ones: exit code 2, one line with row and column,
# and no file is written.
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"

# hostile NAME PATTERN TABLE [OPTION...]: TABLE is a printf format
hostile() {
    name=$1 pattern=$2
    printf "$3" >"$work/$name.csv"
    shift 3
    bad "$name" "$pattern" train --devices host:0 --data "$work/$name.csv" --save p.safetensors --plot p.svg \
        --checkpoint c "$@"
}

# good NAME PATTERN OPTION...
good() {
    name=$1 pattern=$2
    shift 2
    (cd "$work/out" && timeout 120 "$copse" train --devices host:0 "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    before=$failed
    [ $code -eq 0 ] || no "$name: exit code $code: $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stdout" || no "$name: $(cat "$work/stdout")"
    [ $failed -eq $before ] && passed=$((passed + 1))
}

# ---- hostile tables ----
hostile missing 'row 3, column 2 ."b".*the cell is empty; fill it in, leave the column out .ignore, --ignore., or let the mean replace it .missing: mean, --missing mean.$' 'a,b,c\n1,2,x\n3,,y\n5,6,x\n'
hostile empty_and_comma 'row 2, column 1 ."preis".*the cell is empty.*numbers of the table have a decimal comma: write them with ...$' \
    'preis;menge;art\n;3;x\n1,5;4;y\n2,5;5;x\n'
hostile empty_and_comma_before 'row 3.*the cell is empty.*a decimal comma' 'a;b;c\n1,5;3;x\n;4;y\n'
hostile json_lines 'is JSON, or lines of JSON, which is not read; write it as CSV, or read it in Python: Dataset.table takes a list of dictionaries$' \
    '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n'
hostile json_list 'is JSON, which is not read' '[{"a": 1, "b": "x"}]\n'
hostile excel 'is a zip archive, as workbooks of Excel and LibreOffice are, which is not read; save the sheet as CSV in UTF-8$' \
    'PK\003\004\024\000\006\000xl'
hostile old_excel 'is a workbook of an older Excel, which is not read' '\320\317\021\340\241\261'
hostile parquet 'is a Parquet file, which is not read' 'PAR1\025\000'
hostile sqlite 'is a database of SQLite, which is not read; write the table as CSV: sqlite3 -header -csv' 'SQLite format 3\000'
hostile unknown 'row 3, column 1 ."a".*"[?]" means a missing value' 'a,b,c\n1,2,x\n?,2,y\n5,6,x\n'
hostile no_label 'row 3, column 3 ."c".*every row needs a label' 'a,b,c\n1,2,x\n3,4,\n5,6,x\n' --missing mean
hostile ragged_short 'row 3: fewer cells than the 3 columns' 'a,b,c\n1,2,x\n3,4\n'
hostile ragged_long 'row 3: more cells than the 3 columns' 'a,b,c\n1,2,x\n3,4,y,5\n'
hostile letter 'row 3, column 1 ."a".*"1O" is not a number' 'a,b,c\n1,2,x\n1O,4,y\n5,6,x\n'
hostile infinite 'row 2, column 1 ."a".*"inf" is not a number' 'a,b,c\ninf,2,x\n3,4,y\n5,6,x\n'
hostile huge 'row 2, column 2 ."b".*1e999 is too large' 'a,b,c\n1,1e999,x\n3,4,y\n'
hostile twice 'row 1: columns 1 and 2 are both named "a"' 'a,a,c\n1,2,x\n3,4,y\n'
hostile open_quote 'row 3, column 2: the quote is not closed' 'a,b,c\n1,2,x\n3,"4,y\n5,6,x\n'
hostile bytes 'row 2: invalid UTF-8' 'a,b,c\n\377\376,2,x\n'
hostile nul 'row 2: a NUL' 'a,b,c\n1,\0002,x\n'
hostile mac 'row 1: a carriage return inside' 'a,b,c\r1,2,x\r3,4,y\r'
hostile comma 'row 2, column 1 ."a".*"1,5" is not a number; numbers are written' 'a;b;c\n1,5;2;x\n2,5;3;y\n'
hostile price 'row 2, column 2 ."price".*"cheap" is not a number' 'a,price\n1,cheap\n2,dear\n' --task regression
hostile fraction 'row 3, column 2 ."b".*not a class' 'a,b\n1,0\n2,0.5\n' --task classification
hostile range 'row 3, column 2 ."b".*the label 7 is out of range' 'a,b\n1,0\n2,7\n' --classes 3
hostile one_class 'all labels are "x"' 'a,c\n1,x\n2,x\n3,x\n4,x\n'
hostile nothing 'no rows of data' 'a,b,c\n'
hostile label_name 'no column named "kind"' 'a,b,c\n1,2,x\n' --label kind
hostile label_names 'no column named "d" in its first row; it has 3 columns; a comma is between the columns of several targets, and a name with one is in quotes' \
    'a,b,c\n1,2,3\n' --label b,d
hostile label_place '3 columns, so none with the number 4' 'a,b,c\n1,2,x\n' --label 4
hostile label_zero '--label: ' 'a,b,c\n1,2,x\n' --label 0
hostile ignored 'no column "z" to leave out' 'a,b,c\n1,2,x\n' --ignore z
{ echo name,age,class; for i in $(seq 60); do echo "person $i,$i,$((i % 2))"; done; } >"$work/people.csv"
hostile people 'row 2, column 1 ."name".*60 different texts in 60 rows.*ignore' "$(sed 's/$/\\n/' "$work/people.csv" | tr -d '\n')"

# dates NAME CELL: a table of 300 days, where row 79 has another cell
dates() {
    awk -v odd="$2" 'BEGIN { print "day,x,kind"; for (i = 0; i < 300; i++)
        printf "%s,%d,%s\n", i == 77 ? odd : sprintf("2024-%02d-%02d", 1 + i % 12, 1 + i % 28), i * 7 % 60, i % 2 ? "a" : "b" }' >"$work/$1.csv"
}
hostile_dates() {
    dates "$1" "$2"
    bad "$1" "$3" train --devices host:0 --data "$work/$1.csv" --save p.safetensors
}
hostile_dates rubbish rubbish 'row 79, column 1 ."day".: "rubbish" is no date; nearly all cells of the column are dates as 2024-12-31: correct it'
hostile_dates month 2024-13-45 'row 79, column 1 ."day".: "2024-13-45" is no date: there is no such month'
hostile_dates hour 2024-12-31T25:61 'row 79, column 1 ."day".: "2024-12-31T25:61" is no date: there is no such time'

# ---- good ones ----
good dates_mean '1 of dates' --data "$work/rubbish.csv" --missing mean --epochs 1 --save "$work/dates"
grep -q 'cells of dates that cannot be read: 1, the first is "rubbish" in row 79' "$work/stderr" || no "dates: $(cat "$work/stderr")"
printf 'day,x\n3.1.2022,1\n4.1.2022,2\n' | "$copse" predict "$work/dates" - --devices host:0 >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q 'no cell of the column is a date as 2024-12-31, which training had' "$work/stderr" || no "dates: $(cat "$work/stderr")"
printf 'day,x\n3.1.2022,1\n2024-01-04,2\n' | "$copse" predict "$work/dates" - --devices host:0 >"$work/stdout" 2>"$work/stderr"
[ $? -eq 0 ] && grep -q 'cannot be read: 1, the first is "3.1.2022" in row 2' "$work/stderr" || no "dates: $(cat "$work/stderr")"
good people_without_names 'columns: 1 of numbers, each with mean 0 and deviation 1; 1 left out' \
    --data "$work/people.csv" --ignore name --epochs 2
good by_label_name 'task: classification, .* classes 0, 1' --data "$work/people.csv" --ignore name --label class --epochs 2
awk 'BEGIN { print "n;colour;price"; for (i = 0; i < 90; i++)
    printf "%s;%s;%.2f\n", i % 7 == 3 ? "" : i % 13, i % 3 ? "red" : "blue", i % 13 * 2 + (i % 3 ? 5 : 0) + 0.25 }' >"$work/price.csv"
good regression 'task: regression, found from the labels .*target "price" with mean' --data "$work/price.csv" --missing mean
grep -qE '^R2 0\.[89][0-9]*, mean absolute error' "$work/stdout" || no "regression: $(tail -3 "$work/stdout")"
grep -q 'columns: 1 of numbers, .*; 1 of text, with 2 categories' "$work/stdout" || no "regression: $(head -3 "$work/stdout")"
good regression_json '"event":"done","steps":[0-9]+,"loss":[^,]*,"r2":[^,]*,"mae":[^,]*,"test_loss"' --data "$work/price.csv" \
    --missing mean --epochs 2 --json --plot r.svg
grep -q 'held-out R2' "$work/out/r.svg" || no 'the plot of a regression has no R2'
grep -q '"event":"epoch",.*"mae":.*"test_r2":.*"test_mae":' "$work/stdout" || no "events of a regression: $(cat "$work/stdout")"

# Several targets of a regression, one with a comma in its name: trained, in the model file, predicted by name, and judged each in
# its own unit.
awk 'BEGIN { print "kind,\"width, cm\",height,x"; srand(1)
    for (i = 0; i < 300; i++) { x = rand(); k = i % 2; printf "%s,%.4f,%.4f,%.4f\n", k ? "a" : "b", 10 + 4 * x + k, 500 - 300 * x, x } }' >"$work/sizes.csv"
good targets 'task: regression; targets "width, cm", "height"$' --data "$work/sizes.csv" --label 'height,"width, cm"' --save sizes
grep -qE '^data .*: 300 examples of 3 numbers, 2 targets$' "$work/stdout" || no "targets: $(head -1 "$work/stdout")"
mv "$work/out/sizes" "$work/sizes"
"$copse" info "$work/sizes" >"$work/stdout" 2>&1
grep -qE '^  width, cm +label' "$work/stdout" && grep -qE '^  height +label' "$work/stdout" || no "info of targets: $(cat "$work/stdout")"
printf 'x,kind\n0.5,a\n0.5,b\n' | "$copse" predict "$work/sizes" - --devices host:0 >"$work/stdout" 2>"$work/stderr" || no "targets: $(cat "$work/stderr")"
[ "$(head -1 "$work/stdout")" = '"width, cm",height' ] || no "names of targets: $(cat "$work/stdout")"
awk -F, 'NR > 1 && ($1 < 11.5 || $1 > 13.5 || $2 < 330 || $2 > 370) { bad = 1 } NR == 2 { a = $1 } NR == 3 { b = $1 }
    END { exit bad || NR != 3 || a - b < 0.6 || a - b > 1.4 }' "$work/stdout" || no "values of targets: $(cat "$work/stdout")"
"$copse" evaluate "$work/sizes" "$work/sizes.csv" --devices host:0 >"$work/stdout" 2>&1
grep -qE '^R2 0\.9[0-9]* over 300 rows and 2 targets' "$work/stdout" && grep -qE '^ *width, cm +0\.9[0-9]* +0\.[0-9]+$' "$work/stdout" &&
    grep -qE '^ *height +0\.9[0-9]* +[0-9]\.?[0-9]*$' "$work/stdout" || no "evaluate targets: $(cat "$work/stdout")"
"$copse" evaluate "$work/sizes" "$work/sizes.csv" --devices host:0 --json | grep -qE '"r2":[^,]*,"mae":.*"targets":\[\{"target":"width, cm","r2":.*"target":"height"' ||
    no 'evaluate targets as JSON'
cut -d, -f1-3,5 "$work/sizes.csv" >"$work/one.csv" # without height
"$copse" evaluate "$work/sizes" "$work/one.csv" --devices host:0 >"$work/stdout" 2>&1
[ $? -eq 2 ] && grep -q 'there is no column "height", a target of the training, while other targets are there$' "$work/stdout" || no "one target: $(cat "$work/stdout")"

# New rows with cells that training did not have: `copse predict` and `copse evaluate` replace them and warn, or refuse them and
# advise what is possible.
printf 'n;colour;price\n;red;\n1;violet;none\n' >"$work/ask.csv"
grep -v '^;' "$work/price.csv" >"$work/whole.csv"
# asked RC PATTERN-IN-STDERR ARGUMENT...: `copse predict` of ask.csv
asked() {
    code=$1 pattern=$2
    shift 2
    "$copse" predict "$work/model" "$work/ask.csv" --devices host:0 "$@" >"$work/stdout" 2>"$work/stderr"
    [ $? -eq "$code" ] && grep -q "$pattern" "$work/stderr" || no "predict $*: $(cat "$work/stderr")"
}
good refuse '^R2' --data "$work/whole.csv" --missing refuse --epochs 1 --quiet --save "$work/model"
asked 0 'missing cells: 1, the first is row 2, column 1 ("n"); a number becomes the mean of its column'
grep -q 'that training did not have: 1, the first is "violet" in row 3, column 2 ("colour")' "$work/stderr" || no 'violet'
[ "$(wc -l <"$work/stdout")" -eq 3 ] || no "predict: $(cat "$work/stdout")"
cp "$work/stdout" "$work/predicted"
asked 2 'row 2, column 1 ("n"): the cell is empty; fill it in, or let the column.s mean replace it (missing: mean, --missing mean)$' --missing refuse
asked 2 '"violet" is not one of the 2 categories that training had; correct it, or .* (unknown: ignore, --unknown ignore)$' --unknown refuse
asked 0 violet --missing mean
! grep -q 'missing cells' "$work/stderr" && cmp -s "$work/stdout" "$work/predicted" || no "--missing mean: $(cat "$work/stderr")"
good mean '^R2' --data "$work/whole.csv" --missing mean --epochs 1 --quiet --save "$work/model"
asked 0 violet
! grep -q 'missing cells' "$work/stderr" || no "trained with mean: $(cat "$work/stderr")"
printf 'n;colour;price\n;red;3\n1;violet;4\n2;red;5\n' >"$work/new.csv"
"$copse" evaluate "$work/model" "$work/new.csv" --devices host:0 --unknown refuse >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q violet "$work/stderr" || no "evaluate --unknown refuse: $(cat "$work/stderr")"
"$copse" evaluate "$work/model" "$work/new.csv" --devices host:0 >"$work/stdout" 2>"$work/stderr"
[ $? -eq 0 ] && grep -q violet "$work/stderr" || no "evaluate: $(cat "$work/stderr")"
"$copse" evaluate --checkpoint "$work/none" --missing mean >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q 'belong to MODEL and DATA' "$work/stderr" || no "evaluate --checkpoint: $(cat "$work/stderr")"
# Language models have no tables.
printf GGUF >"$work/model.gguf"
for option in '--missing refuse' '--unknown refuse'; do
    "$copse" evaluate "$work/model.gguf" "$work/new.csv" --devices host:0 $option >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] && grep -q 'are for models of tables' "$work/stderr" || no "a language model with $option: $(cat "$work/stderr")"
done

# The columns of DATA in front of the predictions, and standard input.
asked 0 violet --keep-columns
sed 's/^price$/predicted_price/' "$work/predicted" | paste -d ';' "$work/ask.csv" - | cmp -s - "$work/stdout" || no "--keep-columns: $(cat "$work/stdout")"
# Predictions of two models beside each other have names of their own.
cp "$work/stdout" "$work/kept.csv"
"$copse" predict "$work/model" "$work/kept.csv" --devices host:0 --keep-columns --unknown ignore 2>/dev/null | head -1 >"$work/header"
[ "$(cat "$work/header")" = 'n;colour;price;predicted_price;predicted_2_price' ] || no "--keep-columns twice: $(cat "$work/header")"
# MODEL and DATA in the wrong order.
for command in predict evaluate; do
    "$copse" $command "$work/ask.csv" "$work/model" --devices host:0 >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] && grep -q "ask.csv' is no model, and '.*/model' is a file of one: MODEL comes first, then DATA" "$work/stderr" || no "swapped: $(cat "$work/stderr")"
done
printf '"x;y";"red";\n\n1;blue;\r\n' | sed 's/"x;y"/2/' >"$work/bare.csv"
"$copse" predict "$work/model" - --devices host:0 --keep-columns <"$work/bare.csv" >"$work/stdout" 2>"$work/stderr"
[ $? -eq 0 ] && [ "$(cut -d ';' -f 1-3 "$work/stdout" | tr '\n' ' ')" = '2;"red"; 1;blue; ' ] || no "a table without a header: $(cat "$work/stdout" "$work/stderr")"
printf 'n;colour\nx;red\n' | "$copse" predict "$work/model" - --devices host:0 >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q 'csv: standard input, row 2, column 1 ("n"): "x" is not a number' "$work/stderr" || no "standard input: $(cat "$work/stderr")"
"$copse" evaluate "$work/model" - --devices host:0 <"$work/new.csv" >"$work/stdout" 2>"$work/stderr"
[ $? -eq 0 ] || no "evaluate of standard input: $(cat "$work/stderr")"
asked 2 'writes CSV, not --json' --keep-columns --json

# A checkpoint keeps how the table was read; `evaluate` reads it so, and other options are refused.
good checkpoint 'checkpoint: ' --data "$work/price.csv" --missing mean --epochs 2 --checkpoint "$work/c.safetensors"
grep -E '^R2 ' "$work/stdout" >"$work/trained"
"$copse" evaluate --devices host:0 --data "$work/price.csv" --checkpoint "$work/c.safetensors" --quiet >"$work/evaluated" 2>&1
cmp -s "$work/trained" "$work/evaluated" || no "evaluate: $(cat "$work/evaluated") after $(cat "$work/trained")"
good resumed '^R2 ' --data "$work/price.csv" --missing mean --epochs 2 --checkpoint "$work/c.safetensors" --resume
grep -E '^R2 ' "$work/stdout" | cmp -s - "$work/trained" || no "resumed: $(cat "$work/stdout")"
for other in '--scale none' '--task classification' '--ignore 1' '--label 1'; do
    # shellcheck disable=SC2086
    "$copse" train --devices host:0 --data "$work/price.csv" --missing mean --epochs 2 --checkpoint "$work/c.safetensors" \
        --resume $other >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] || no "resumed with $other: $(cat "$work/stderr")"
done
# A text that all rows have is one category.
awk 'BEGIN { print "n,unit,kind"; for (i = 0; i < 60; i++) printf "%d.5,kg,%s\n", i * 7 % 60, i % 2 ? "a" : "b" }' >"$work/unit.csv"
good one_category '1 of numbers, .*; 1 of text, with 1 category$' --data "$work/unit.csv" --epochs 1
# Names of 30 characters do not shift the numbers after them.
long=a_class_whose_name_has_thirty_1
awk -v long=$long 'BEGIN { print long "_column,b,kind"; for (i = 0; i < 60; i++) printf "%d.5,%d,%s\n", i * 7 % 60, i % 5, i * 7 % 60 < 30 ? long : "k\303\266" }' >"$work/long.csv"
good long_names . --data "$work/long.csv" --epochs 3 --quiet --save "$work/long"
"$copse" evaluate "$work/long" "$work/long.csv" --devices host:0 >"$work/stdout" 2>&1
grep -qE '^  class {26} +rows' "$work/stdout" || no "long names: $(cat "$work/stdout")"
rows=$(awk '/^  class /{ at = index($0, "rows") + 3; next } at && /^  a_class/ { print substr($0, at - 1, 2); exit }' "$work/stdout")
[ "$rows" = 30 ] || no "rows are not below their title, '$rows': $(cat "$work/stdout")"
"$copse" info "$work/long" >"$work/stdout"
[ "$(awk '/^  column /{ at = index($0, "use"); next } at && /^  a_class|^  b / { print substr($0, at, 6) }' "$work/stdout" | sort -u)" = number ] || no "info: $(cat "$work/stdout")"
rm -f "$work/out"/*
bad 'classes of values' '--split stratified divides the examples of each class, and a regression has no classes: leave --split out' \
    train --devices host:0 --data "$work/price.csv" --missing mean --split stratified
[ $failed -eq 0 ] && echo "$passed tables"
exit $((failed > 0))
