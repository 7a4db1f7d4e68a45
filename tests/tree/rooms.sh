#!/bin/sh
# SPDX-License-Identifier: MIT
# rooms.sh BUILD: fails when files of one folder of core/ or prover/ call each other in a circle, as the symbols of their object files
# say. `open` names the folders that still have a circle; a folder without one must leave the list. The subfolders of a room
# are judged as its files are, but those of `families`, whose ops call each other. Also fails when a function that a header of
# a folder declares is defined in another one: such a call goes upwards unseen. Also fails when core or a backend uses a
# symbol of the prover, or another room one of core/strategy.
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
open=''
families='core/ops prover/cases'
for tool in nm tsort; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
# objects_of FOLDER...: the objects of its sources, of libcopse or of copse-conformance. An object without a source is left over
# from a file that was moved.
objects_of() {
    (cd "$top" && find "$@" -name '*.c') | sed -e "s|.*|$build/CMakeFiles/copse_objects.dir/&.o|" \
        -e 's|copse_objects\(.dir/prover/\)|copse_prover\1|' | while read -r object; do
        [ ! -f "$object" ] || echo "$object"
    done
}
# folder_of FIELD: lines whose field is a folder; of a room in `families`, the room
folder_of() {
    awk -v field="$1" -v families=" $families " '{ split($field, part, "/"); room = part[1] "/" part[2]
        if (index(families, " " room " ")) $field = room
        print }'
}
: >"$work/defined"
for room in "$top"/core/*/ "$top"/prover/*/; do
    name=$(basename "$(dirname "$room")")/$(basename "$room")
    objects=$(objects_of "$name")
    [ -n "$objects" ] || continue
    # shellcheck disable=SC2086
    nm -A --defined-only $objects | sed 's|^.*\.dir/\([^:]*\)/[^/:]*:|\1 |' | awk '$3 ~ /^[TDBRVW]$/ { print $4, $1 }' |
        folder_of 2 >>"$work/defined"
    # "user provider" for every pair of files where one uses a symbol that the other defines
    # shellcheck disable=SC2086
    nm -A $objects | awk '
        { file = $1; sub(/:[0-9a-f]*$/, "", file); sub(/.*\//, "", file); sub(/\.o$/, "", file) }
        $2 == "U" { uses[file " " $3] = 1 }
        $2 ~ /^[TDBRVW]$/ { defines[$3] = file }
        END {
            for (use in uses) {
                split(use, part, " ")
                if (part[2] in defines && defines[part[2]] != part[1])
                    print part[1], defines[part[2]]
            }
        }' | sort -u >"$work/calls"
    [ -s "$work/calls" ] || continue
    tsort "$work/calls" >/dev/null 2>"$work/circle"
    case " $families " in
    *" $name "*) ;;
    *)
        # the same for subfolders; the room's own files are "."
        # shellcheck disable=SC2086
        nm -A $objects | awk -v room="/$name/" '
            { folder = $1; sub(/:[0-9a-f]*$/, "", folder); sub(".*" room, "", folder)
              if (!sub("/.*", "", folder)) folder = "." }
            $2 == "U" { uses[folder " " $3] = 1 }
            $2 ~ /^[TDBRVW]$/ { defines[$3] = folder }
            END {
                for (use in uses) {
                    split(use, part, " ")
                    if (part[2] in defines && defines[part[2]] != part[1])
                        print part[1], defines[part[2]]
                }
            }' | sort -u >"$work/subfolders"
        tsort "$work/subfolders" >/dev/null 2>"$work/ring"
        if [ -s "$work/ring" ]; then
            echo "$name: subfolders call each other in a circle:"
            sed 's/^tsort: /    /' "$work/ring"
            failed=1
        fi
        ;;
    esac
    is_open=0
    case " $open " in *" $name "*) is_open=1 ;; esac
    if [ -s "$work/circle" ] && [ $is_open = 0 ]; then
        echo "$name: files call each other in a circle:"
        sed 's/^tsort: /    /' "$work/circle"
        failed=1
    elif [ ! -s "$work/circle" ] && [ $is_open = 1 ]; then
        echo "$name: has no circle any more: take it off the list in tests/tree/rooms.sh"
        failed=1
    fi
done
# shellcheck disable=SC2046
nm -A --undefined-only $(objects_of core backends) | sed 's|^.*/copse_objects.dir/\(.*\)\.o: *U \(.*\)|\2 \1|' >"$work/used_by_core"
awk 'NR == FNR { if ($2 ~ /^prover\//) room[$1] = $2; next }
     $1 in room { print $2 ": uses " $1 ", which is defined in " room[$1] ": core must not need the prover"; bad = 1 }
     END { exit bad }' "$work/defined" "$work/used_by_core" || failed=1
# core/strategy makes strategies for applications; the rooms below them know a strategy by core/replica alone.
awk 'NR == FNR { if ($2 == "core/strategy") made[$1] = 1; next }
     $1 in made && $2 !~ /^core\/strategy\// { print $2 ": uses " $1 " of core/strategy"; bad = 1 }
     END { exit bad }' "$work/defined" "$work/used_by_core" || failed=1
for list in defined used_by_core; do
    grep -q . "$work/$list" || { echo "no symbols in the list $list"; failed=1; }
done
grep -q ' prover/' "$work/defined" || { echo "no objects of the prover in $build"; failed=1; }
(cd "$top" && find core prover -name '*.h' -exec grep -HE '^([A-Za-z][A-Za-z_0-9 ]*[ *])?copse__[a-z_0-9]*\(' {} +) |
    sed 's|^\(.*\)/[^/:]*:\(.*[ *]\)*\(copse__[a-z_0-9]*\)(.*|\3 \1|' | folder_of 2 | sort -u >"$work/declared"
awk 'NR == FNR { in_room[$1] = in_room[$1] " " $2 " "; next }
     $1 in in_room && !index(in_room[$1], " " $2 " ") { print $2 ": declares " $1 ", which is defined in" in_room[$1]; bad = 1 }
     END { exit bad }' "$work/defined" "$work/declared" || failed=1
[ -s "$work/declared" ] || { echo "no declarations found"; failed=1; }
[ $failed = 0 ] && echo "no circles${open:+ but in: $open}"
exit $failed
