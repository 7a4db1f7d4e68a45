#!/bin/sh
# SPDX-License-Identifier: MIT
# format.sh SOURCE: clang-format 15 changes no C file. Another version formats otherwise.
set -u
cd "$1" || exit 1
format=
for name in clang-format-15 clang-format; do
    if "$name" --version 2>/dev/null | grep -q 'version 15\.'; then format=$name; break; fi
done
[ "$format" ] || { echo 'skipped: no clang-format 15: install the Debian package clang-format-15'; exit 77; }
list=$(mktemp) || exit 1
trap 'rm -f "$list"' EXIT
find backends bindings core examples include prover tests tools -name '*.[ch]' -type f >"$list"
[ -s "$list" ] || { echo 'no C files: the test finds nothing'; exit 1; }
if printf 'int  f( void );\n' | "$format" --dry-run -Werror 2>/dev/null; then echo 'clang-format finds no fault in a badly formatted line'; exit 1; fi
xargs -P 2 -n 50 "$format" --dry-run -Werror <"$list" || { echo "run $format -i on these files"; exit 1; }
echo "$(wc -l <"$list") files"
