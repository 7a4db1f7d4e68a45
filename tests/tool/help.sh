#!/bin/sh
# SPDX-License-Identifier: MIT
# Help, suggestions, man pages and shell completion: all of them are made from the tables of options.
# usage: help.sh COPSE
set -u
copse=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"

commands=$("$copse" help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 8 ] || no "few commands: $commands"

# Each command has help in two forms, and no line of more than 100 columns.
for command in $commands; do
    "$copse" help "$command" >"$work/a" && "$copse" "$command" --help >"$work/b" || no "help on $command"
    cmp -s "$work/a" "$work/b" || no "two helps on $command"
    [ -z "$(awk 'length($0) > 100' "$work/a")" ] || no "wide help on $command"
done

# Groups, examples; the options for jobs of several workers are in a topic of their own.
"$copse" train --help >"$work/train"
"$copse" help distributed >"$work/distributed"
for group in Data Model Training Devices Output Examples; do
    grep -q "^$group:\$" "$work/train" || no "train --help has no $group"
done
grep -q '^  copse train .*--save' "$work/train" || no 'no example'
for option in cluster engine worker-deadline servers one-sided; do
    grep -q -- "^  --$option " "$work/train" && no "--$option is in train --help"
    grep -q -- "^  --$option " "$work/distributed" || no "--$option is not in help distributed"
    "$copse" worker --help | grep -q -- "^  --$option " || no "--$option is not in worker --help"
done
grep -q -- '--epochs N' "$work/distributed" && no 'help distributed repeats --epochs'
for page in train distributed; do
    grep -q '^  copse launch -n 4 -- train' "$work/$page" || no "$page does not name launch"
done
grep -q 'copse help distributed' "$work/train" || no 'train --help does not name the topic'

# like PATTERN ARGUMENT...: exit code 2, one line that matches
like() {
    pattern=$1
    shift
    "$copse" "$@" >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] && [ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -q -- "$pattern" "$work/stderr" ||
        no "$*: $(cat "$work/stderr")"
}
like "did you mean 'train'?" trian
like "did you mean 'evaluate'?" evalute
like "did you mean 'find-lr'?" find-rl
like "did you mean 'conformance'?" conf
like "copse help. lists them" fly
like 'did you mean --epochs?' train --epoch=5
like 'did you mean --weight-decay?' train --weihgt-decay 1
like 'train --help. lists them' train --fly
like 'did you mean --evaluator-patience?' evaluate --watch --patience 3
like 'train --help. lists them' train -x
like 'did you mean --loss "cross_entropy weights=balanced"?' train --class-weight=balanced
for name in cv kfold; do like 'did you mean --folds?' train --$name 5; done
like 'did you mean --lr?' train --learning-rate 0.1
grep -q -e --kfold "$work/train" && no 'help offers an option of other programs'
like "unknown option 'iris.csv'; did you mean --data iris.csv?" train iris.csv
like "did you mean --data $work?" train "$work"
like 'train --help. lists them' train 0.5
like "did you mean 'train'?" help tran
like "no command or topic 'zzz'" help zzz

# Man pages and completion: each option of each command is in all of them.
"$copse" help --files "$work/made" || no 'help --files'
for command in $commands; do
    page=$work/made/man/copse-$command.1
    for option in $(sed -n 's/^  --\([a-z-]*\).*/\1/p' <<END
$("$copse" "$command" --help; [ "$command" != train ] || cat "$work/distributed")
END
    ); do
        grep -q -- "^.fB.-.-$(echo "$option" | sed 's/-/.-/g').fR" "$page" || no "$command: no --$option in its man page"
        grep -q -- "-n '__fish_seen_subcommand_from $command' -l $option " "$work/made/fish/copse.fish" ||
            [ "$option" = help ] || [ "$option" = debug ] || no "$command: no --$option in fish"
        sed -n "/^    $command)/,/;;\$/p" "$work/made/zsh/_copse" | grep -q -- "'--$option[['-]" ||
            no "$command: no --$option in zsh"
        sed -n "/^    $command)/,/' ;;\$/p" "$work/made/bash/copse" | grep -q -- "--$option[ ']" ||
            no "$command: no --$option in bash"
    done
    grep -q "copse.-$command" "$work/made/man/copse.1" || no "copse.1 does not name $command"
    if command -v groff >/dev/null; then
        [ -z "$(groff -man -Tascii -ww "$page" 2>&1 >/dev/null)" ] || no "groff: $page"
    fi
done
command -v groff >/dev/null || echo 'skipped: groff is not installed, it does not read the man pages'

# What bash completes. The words of the line come after the place of the cursor.
if command -v bash >/dev/null; then
    # completes WORDS WANTED
    completes() {
        got=$(bash -c '. "$1"; read -ra COMP_WORDS <<<"$2"; [ "${2% }" = "$2" ] || COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _copse; echo "${COMPREPLY[*]}"' - "$work/made/bash/copse" "$1")
        [ "$got" = "$2" ] || no "'$1' completes to '$got', not '$2'"
    }
    completes 'copse tra' train
    completes 'copse train --epo' --epochs
    completes 'copse train --optimizer pro' 'proximal_sgd proximal_adagrad'
    completes 'copse bench --devices v' vulkan
    (cd "$work" && : >points.csv && completes 'copse train --data poi' points.csv) || no 'files'
else
    echo 'skipped: bash is not installed'
fi
command -v zsh >/dev/null && { zsh -n "$work/made/zsh/_copse" || no 'zsh'; }
command -v fish >/dev/null && { fish -n "$work/made/fish/copse.fish" || no 'fish'; }

# --evaluator-patience is for the evaluator of a job: `copse train` without a job does not offer it. --patience is for all.
for place in "$work/made/bash/copse" "$work/made/zsh/_copse"; do
    sed -n "/^    train)/,/' ;;\$/p" "$place" >"$work/train"
    sed -n "/^    worker)/,/\(' ;;\|_files' ;;\)\$/p" "$place" >"$work/worker"
    grep -q -- --evaluator-patience "$work/train" && no "$place offers --evaluator-patience for train"
    grep -q -- --patience "$work/train" || no "$place does not offer --patience for train"
    grep -q -- --evaluator-patience "$work/worker" || no "$place does not offer --evaluator-patience for worker"
done
grep -q "seen_subcommand_from train' -l evaluator-patience" "$work/made/fish/copse.fish" && no 'fish offers --evaluator-patience for train'
grep -q "seen_subcommand_from train' -l patience" "$work/made/fish/copse.fish" || no 'fish does not offer --patience for train'
"$copse" train --help | grep -q -- --evaluator-patience && no 'train --help has --evaluator-patience'
"$copse" train --help | grep -q -- '--patience N' || no 'train --help has no --patience'
"$copse" worker --help | grep -q -- '--evaluator-patience SECONDS' || no 'worker --help has no --evaluator-patience'

# The pages that the texts name are there.
pages=$("$copse" train --help | sed -n 's/^Pages: //p')
[ -d "$pages" ] || no "the folder of the pages is missing: $pages"
for command in $commands; do
    "$copse" "$command" --help | sed -n 's/.*: \([a-z-]*\.md\).*/\1/p' | sort -u | while read -r page; do
        [ -s "$pages/$page" ] || echo "$page"
    done >"$work/missing"
    [ ! -s "$work/missing" ] || no "$command --help names $(cat "$work/missing"), and $pages has none"
    "$copse" "$command" --help | grep -q 'docs/' && no "$command --help names a folder of the source"
done

# --debug is an option of all commands, and adds the place in the source to errors of the library.
for arguments in 'train --devices cuda' '--debug train --devices cuda' 'train --devices cuda --debug'; do
    "$copse" $arguments >"$work/stdout" 2>"$work/stderr"
    grep -q '([a-z_]*\.c:[0-9]*)$' "$work/stderr" && has=yes || has=no
    case $arguments in *--debug*) want=yes ;; *) want=no ;; esac
    [ $has = $want ] || no "$arguments: $(cat "$work/stderr")"
done

[ $failed -eq 0 ] && echo 'help, suggestions, man pages and completion agree'
exit $failed
