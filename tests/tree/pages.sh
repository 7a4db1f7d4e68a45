#!/bin/sh
# SPDX-License-Identifier: MIT
# pages.sh INSTALLED PAGE.md [LANGUAGE=FILE...]: follows a page literally, in an empty folder, with Copse installed in
# $HOME/copse, a link to INSTALLED, and in PATH. Its sh blocks run in their order; a command that fails ends the test. The blocks of each LANGUAGE
# are added to FILE in the folder where the page is at that time. pages/NAME.awk, where there is one, checks what the
# commands print; pages/NAME.sh prepares the folder.
set -eu
installed=$1 page=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT
ln -s "$installed" "$HOME/copse"
PATH=$HOME/copse/bin:$PATH
name=$(basename "$page" .md)

# The page as one script: blocks of files become here-documents.
{
    echo 'set -eux'
    awk -v files="$*" '
        BEGIN { n = split(files, given, " "); for (i = 1; i <= n; i++) { split(given[i], pair, "="); file[pair[1]] = pair[2] } }
        /^```/ && inside { if (inside == "file") print "END_OF_BLOCK"; inside = ""; next }
        $0 == "```sh" { inside = "sh"; next }
        /^```/ { inside = substr($0, 4) in file ? "file" : "other"
                 if (inside == "file") print "cat >>" file[substr($0, 4)] " <<\"END_OF_BLOCK\""
                 next }
        inside == "sh" || inside == "file"' "$page"
} >"$HOME/run.sh"
grep -q '^```sh$' "$page" || { echo "$page: has no sh block"; exit 1; }
for pair in "$@"; do
    grep -q "^cat >>${pair#*=} " "$HOME/run.sh" || { echo "$page: no block for ${pair#*=}"; exit 1; }
done
mkdir "$HOME/empty"
[ ! -e "$here/pages/$name.sh" ] || (cd "$HOME/empty" && sh "$here/pages/$name.sh") >"$HOME/log" 2>&1 ||
    { cat "$HOME/log"; echo "$page: the folder cannot be prepared"; exit 1; }
(cd "$HOME/empty" && sh "$HOME/run.sh") >"$HOME/output" 2>"$HOME/log" ||
    { cat "$HOME/output" "$HOME/log"; echo "$page: a command failed"; exit 1; }
check=$here/pages/$name.awk
[ ! -e "$check" ] || awk -f "$check" "$HOME/output" || { cat "$HOME/output"; echo "$page: does not print what it says"; exit 1; }
echo "$page: $(grep -c '^+ ' "$HOME/log") commands"
