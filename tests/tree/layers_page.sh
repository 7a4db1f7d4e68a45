#!/bin/sh
# SPDX-License-Identifier: MIT
# layers_page.sh BUILD-FOLDER PAGE.md: follows docs/layers.md. Its C blocks become layers.c, its text block net.txt, and its
# sh blocks run in their order in that folder, with Copse installed where the page says.
set -eu
build=$1 page=$2
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT

cmake --install "$build" --prefix "$HOME/copse" >"$HOME/log" 2>&1 || { cat "$HOME/log"; exit 1; }
# blocks LANGUAGE: the text of the page's blocks of one language
blocks() {
    awk -v start="\`\`\`$1" '$0 == start { inside = 1; next } /^```/ { inside = 0 } inside' "$page"
}
mkdir "$HOME/page"
cd "$HOME/page"
blocks c >layers.c
blocks text >net.txt
{ echo 'set -eu'; blocks sh; } >run.sh
for file in layers.c net.txt run.sh; do
    [ "$(wc -l <"$file")" -gt 3 ] || { echo "$page: no block for $file"; exit 1; }
done
sh run.sh >log 2>&1 || { cat log; exit 1; }

# the network by calls, the built one with its table, the loss of the program; three runs of the command
[ "$(grep -c '^network: dense 64 relu; residual { layer_norm; dense 64 gelu; dense 64 }; dense' log)" = 2 ] &&
    grep -q '^total  *13,258$' log &&
    awk '/^loss / { sub(",", "", $2); ok = $2 < 0.3 && $4 > 0.9 } END { exit !ok }' log &&
    [ "$(grep -c '^epoch  *2/2 ' log)" = 3 ] || { cat log; echo "the page does not print what it says"; exit 1; }
grep '^loss' log
