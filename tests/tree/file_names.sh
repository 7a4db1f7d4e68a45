#!/bin/sh
# SPDX-License-Identifier: MIT
# file_names.sh SOURCE-FOLDER: folders and files of the repository are named with A-Z, a-z, 0-9, "." "_" and "-", and no file is
# empty but those listed here.
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

[ $failed -eq 0 ] && echo "$(printf '%s\n' "$tracked" | wc -l) names"
exit $failed
