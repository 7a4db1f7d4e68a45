#!/bin/sh
# SPDX-License-Identifier: MIT
# page_paths.sh SOURCE [PAGE...]: every path of the source tree that a page names exists. A path is a word in backticks, or a
# word of a drawing, that begins with one of the folders below; it may contain * and <name>, and a line number after it. The
# changelog is left out: it tells of files that are gone.
set -eu
source=$1
shift
cd "$source"
[ $# -gt 0 ] || set -- README.md CONTRIBUTING.md SECURITY.md docs/*.md docs/*/*.md bindings/python/*.md examples/*/*.md
failed=0 pages=0 count=0
for page in "$@"; do
    [ -f "$page" ] || continue
    pages=$((pages + 1))
    # Words of a line that begin with a folder, outside of links, whose targets the site's generator checks.
    paths=$(sed -e 's/](\([^)]*\))/]/g' "$page" |
        grep -oE '(^|[` (,|])(core|prover|kernels|shaders|tests|tools|include|backends|docs|scripts|cmake|bindings|examples)/[][A-Za-z0-9_.<>*{},/-]*' |
        sed -e 's/^[` (,|]//' -e 's/[.,]*$//' -e 's/<[^>]*>/*/g' -e 's/[])}]*$//' | sort -u)
    for path in $(set -f; printf '%s\n' $paths); do
        case $path in *'>'* | *'<'*) continue ;; esac
        count=$((count + 1))
        set +f
        found=
        for file in $path; do [ ! -e "$file" ] || found=1; done
        [ "$found" ] || { echo "$page names $path, and the tree has no such file: $(grep -nF "$path" "$page" | head -n 1 | cut -d: -f1)"; failed=1; }
    done
done
# Pages of maintainers name files of a folder without it, after the folder's own: such a file exists somewhere.
for page in docs/architecture.md docs/internals/*.md docs/add-an-op.md docs/add-a-backend.md; do
    [ -f "$page" ] || continue
    for name in $(grep -oE '`[a-z0-9_]+\.(c|h|cc|cl|clh|def|cmake|sh|glsl|awk)`' "$page" | tr -d '`' | sort -u); do
        case $name in cl.h | vulkan.h) continue ;; esac # of the drivers' packages
        count=$((count + 1))
        [ -n "$(find core prover kernels shaders backends tests tools cmake include examples -name "$name" -print -quit)" ] ||
            { echo "$page:$(grep -nF "\`$name\`" "$page" | head -n 1 | cut -d: -f1): the tree has no file $name"; failed=1; }
    done
done
[ "$count" -gt 0 ] || { echo 'no page names a path: the test finds nothing'; exit 1; }
[ $failed = 0 ] || exit 1
echo "$count paths in $pages pages"
