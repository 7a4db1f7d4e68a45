#!/bin/sh
# SPDX-License-Identifier: MIT
# first_network.sh BUILD-FOLDER PAGE.md: follows docs/first-network.md literally. Its C blocks become first.c, its cmake
# block CMakeLists.txt, and its sh blocks run in their order in an empty folder, with Copse installed where the page says.
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
# the first sh block makes the folder that the files go into
awk '$0 == "```sh" { inside = 1; next } /^```/ { if (inside) exit } inside' "$page" >"$HOME/begin.sh"
blocks sh >"$HOME/all.sh"
{
    echo 'set -eu'
    cat "$HOME/begin.sh"
    echo 'cp "$HOME/first.c" "$HOME/CMakeLists.txt" .'
    tail -n +"$(($(wc -l <"$HOME/begin.sh") + 1))" "$HOME/all.sh"
} >"$HOME/run.sh"
blocks c >"$HOME/first.c"
blocks cmake >"$HOME/CMakeLists.txt"
for file in first.c CMakeLists.txt begin.sh; do
    [ -s "$HOME/$file" ] || { echo "$page: no block for $file"; exit 1; }
done
mkdir "$HOME/empty"
(cd "$HOME/empty" && sh "$HOME/run.sh") >"$HOME/log" 2>&1 || { cat "$HOME/log"; exit 1; }

# two runs, each with the accuracy of the trained and of the reloaded network
awk '/^accuracy / { n++; a[n] = $2 }
     END { exit !(n == 4 && a[1] > 0.9 && a[1] == a[2] && a[3] == a[4] && a[1] == a[3]) }' "$HOME/log" ||
    { cat "$HOME/log"; echo "not four equal accuracies above 0.9"; exit 1; }
grep '^accuracy' "$HOME/log" | head -1
