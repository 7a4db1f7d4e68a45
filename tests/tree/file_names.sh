#!/bin/sh
# SPDX-License-Identifier: MIT
# file_names.sh SOURCE-FOLDER: folders and files of the repository are named with A-Z, a-z, 0-9, "." "_" and "-", no file is
# empty but those listed here, and no two files of C have the same name. Two pairs may: the backends implement one table, and
# core/device/ calls it, with the same file names; a public header, and the header of the inside of the same thing.
set -u
cd "$1" || exit 1
tracked=$(git ls-files 2>/dev/null) && [ -n "$tracked" ] || { echo "skipped: $1 is no checkout of git"; exit 77; }
failed=0

strange=$(printf '%s\n' "$tracked" | grep -vE '^([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$')
[ -z "$strange" ] || { printf 'a name that the shell or another system may misread: %s\n' "$strange"; failed=1; }

# PEP 561: the file alone says that the package has types
may_be_empty='bindings/python/src/copse/py.typed'
empty=$(printf '%s\n' "$tracked" | while IFS= read -r path; do [ ! -f "$path" ] || [ -s "$path" ] || printf '%s\n' "$path"; done |
    grep -vxF "$may_be_empty")
[ -z "$empty" ] || { printf 'an empty file: %s\n' "$empty"; failed=1; }

again=$(printf '%s\n' "$tracked" | awk -F/ '
    !/\.(c|cc|h)$/ { next }
    /^backends\// { backends[$NF] = $0; next }
    /^include\// { if ($NF in public) print public[$NF] " and " $0; public[$NF] = $0; next }
    $NF in inside { print inside[$NF] " and " $0 }
    { inside[$NF] = $0 }
    END {
        for (name in backends) {
            if (name in inside && inside[name] != "core/device/" name) print backends[name] " and " inside[name]
            if (name in public) print backends[name] " and " public[name]
        }
    }')
[ -z "$again" ] || { printf 'the same name twice: %s\n' "$again"; failed=1; }

[ $failed -eq 0 ] && echo "$(printf '%s\n' "$tracked" | wc -l) names"
exit $failed
