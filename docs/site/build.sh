#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/site/build.sh [OUTPUT]: builds the documentation as a static site in OUTPUT (build/site): OUTPUT/html/index.html.
# A broken link, a link to a heading that does not exist, or a page that no menu lists is an error.
# Exit code 77: the generator cannot be installed.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$top/build/site}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# The generator: MKDOCS, or installed once in the output folder.
mkdocs=${MKDOCS-$out/venv/bin/mkdocs}
if [ ! -x "$mkdocs" ] || { [ -z "${MKDOCS-}" ] && [ ! -e "$out/venv/complete" ]; }; then
    { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q -r "$top/docs/site/requirements.txt" &&
        : >"$out/venv/complete"; } \
        >"$out/install.log" 2>&1 || {
        rm -rf "$out/venv"
        echo "skipped: mkdocs cannot be installed: $(grep -v '^ *$' "$out/install.log" | tail -n 1)"
        exit 77
    }
fi

# The pages where their links expect them, and the files that they link to.
rm -rf "$out/pages" "$out/html"
mkdir -p "$out/pages/bindings"
cp "$top/README.md" "$top/CHANGELOG.md" "$top/CONTRIBUTING.md" "$top/SECURITY.md" "$top/LICENSE" "$out/pages/"
cp -r "$top/docs" "$top/examples" "$top/include" "$out/pages/"
cp -r "$top/bindings/python" "$out/pages/bindings/python"
for folder in core kernels backends tests scripts; do # source files that pages name in links
    grep -rhoE "\]\((\.\./)+$folder/[^)#]*" "$top"/*.md "$top"/docs/*.md | sed 's/.*(\(\.\.\/\)*//' | sort -u
done | while read -r path; do
    [ -f "$top/$path" ] || continue
    mkdir -p "$out/pages/$(dirname "$path")"
    cp "$top/$path" "$out/pages/$path"
done
rm -rf "$out/pages/docs/site"
python3 "$top/docs/site/api_index.py" "$top/include" >"$out/pages/docs/api.md"
cp "$top/docs/site/mkdocs.yml" "$out/mkdocs.yml"
cd "$out"
"$mkdocs" build --strict --clean >"$out/mkdocs.log" 2>&1 || { grep -v INFO "$out/mkdocs.log"; exit 1; }
# The theme's search loads a script from the network where a page is read from a file: the site has its own.
cp "$top/docs/site/iframe_worker.js" "$out/html/assets/javascripts/"
find "$out/html" -name '*.html' | while read -r page; do
    base=$(dirname "${page#"$out/html/"}" | sed -e 's|[^/][^/]*|..|g')
    [ "$(dirname "$page")" != "$out/html" ] || base=.
    sed -i "s|https://unpkg.com/iframe-worker/shim|$base/assets/javascripts/iframe_worker.js|" "$page"
done
! grep -rlE '<script[^>]* src="https?:' --include='*.html' "$out/html" || { echo 'these pages load scripts from the network'; exit 1; }
echo "$out/html/index.html"
