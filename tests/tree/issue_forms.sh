#!/bin/sh
# SPDX-License-Identifier: MIT
# issue_forms.sh SOURCE COPSE: the command knows every subcommand and option that the forms of .github name.
set -eu
source=$1 copse=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$source"/.github/ISSUE_TEMPLATE/*.yml | grep -oE '`copse [^`.]*`?' | tr -d '`' | sort -u >"$work/commands"
[ -s "$work/commands" ] || { echo 'the forms name no command'; exit 1; }
while read -r _ subcommand rest; do
    case $subcommand in
    --*) "$copse" "$subcommand" >"$work/help" 2>&1 || { echo "a form names copse $subcommand"; exit 1; } ;;
    *) "$copse" "$subcommand" --help >"$work/help" 2>&1 || { echo "a form names copse $subcommand, which is no command"; exit 1; } ;;
    esac
    for word in $rest; do
        case $word in --*) grep -q -e "^ *$word\\b" "$work/help" || { echo "a form names copse $subcommand $word: no such option"; exit 1; } ;; esac
    done
done <"$work/commands"
grep -q 'conformance .*--markdown' "$work/commands" || { echo 'no form asks for the device card'; exit 1; }
echo "$(wc -l <"$work/commands") commands in forms"
