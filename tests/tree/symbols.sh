#!/bin/sh
# SPDX-License-Identifier: MIT
# symbols.sh SOURCE GENERATED COPSE COPSE-STATIC CONFORMANCE CONFORMANCE-STATIC: what the two shared libraries export and
# use. Each exports the functions that the public headers declare for it, all of them. libcopse exports beside them what
# copse-conformance uses of its inside, COPSE_PRIVATE in the headers of core/, and nothing else. Neither links a driver
# loader, ends the process or prints. Libraries of Windows (.dll) are read with the tools of mingw-w64.
set -u
source=$1 generated=$2 copse=$3 copse_static=$4 conformance=$5 conformance_static=$6
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# fault TEXT FILE-OF-NAMES: fails if there are names
fault() {
    [ ! -s "$2" ] || { echo "$1:" $(cat "$2"); failed=1; }
}
# declared MACRO FOLDER...: names that headers declare with an export macro
declared() {
    macro=$1
    shift
    find "$@" -name '*.h' -exec cat {} + | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' |
        tr ';' '\n' | sed -n "s/.*\b$macro \([^(\[]*[ *]\)\(copse_[a-z0-9_]*\)\([(\[].*\)\{0,1\}\$/\2/p" | sort -u
}
case $copse in *.dll) tools=x86_64-w64-mingw32- ;; *) tools= ;; esac
exported() {
    if [ "$tools" ]; then
        ${tools}objdump -p "$1" | awk '
            /^\[Ordinal\/Name Pointer\]/ { is_list = 1; next } /^$/ { is_list = 0 } is_list { print $NF }'
    else
        nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' # A: the versions themselves
    fi | sort -u
}
# imported LIBRARY: what it takes of libcopse
imported() {
    if [ "$tools" ]; then
        ${tools}objdump -p "$1" | awk '
            /DLL Name:|export table/ { is_ours = /libcopse/ } is_ours && $3 ~ /^copse_/ { print $3 }'
    else
        nm -D --undefined-only "$1" | awk '$2 ~ /copse_/ { sub(/@.*/, "", $2); print $2 }'
    fi | sort -u
}
lent="$source/include/copse/device/opencl.h $source/include/copse/device/vulkan.h" # in builds with these backends
declared COPSE_API "$source/include" "$generated/copse" >"$work/public"
declared COPSE_API $lent >"$work/lent"
declared COPSE_PRIVATE "$source/core" >"$work/private"
declared COPSE_CONFORMANCE_API "$source/include" >"$work/prover"
exported "$copse" >"$work/copse"
exported "$conformance" >"$work/conformance"
imported "$conformance" >"$work/used"
for list in public private prover copse conformance used; do
    [ "$(wc -l <"$work/$list")" -ge 20 ] || { echo "too few names in the list $list"; failed=1; }
done

comm -23 "$work/public" "$work/copse" | comm -23 - "$work/lent" >"$work/faults"
fault "public, but libcopse does not export them" "$work/faults"
sort -u "$work/public" "$work/private" | comm -13 - "$work/copse" >"$work/faults"
fault "exported by libcopse, but neither COPSE_API nor COPSE_PRIVATE" "$work/faults"
comm -23 "$work/private" "$work/used" >"$work/faults"
[ "$tools" ] || fault "COPSE_PRIVATE, but copse-conformance does not use them: take COPSE_PRIVATE off the declarations" "$work/faults"
comm -23 "$work/prover" "$work/conformance" >"$work/faults"
fault "public, but copse-conformance does not export them" "$work/faults"
comm -13 "$work/prover" "$work/conformance" >"$work/faults"
fault "exported by copse-conformance, but not COPSE_CONFORMANCE_API" "$work/faults"
comm -23 "$work/used" "$work/copse" >"$work/faults"
fault "used by copse-conformance, but not exported by libcopse" "$work/faults"

# version LIBRARY NAME: every exported name has the version of cmake/symbols.map.in
version() {
    [ "$tools" ] && return
    minor=$(sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p' "$generated/copse.pc")
    nm -D --defined-only --with-symbol-versions "$1" | awk -v public="@@$2_$minor" -v private="^@@$2_PRIVATE_$minor[.]" '
        $2 == "A" { next }
        { name = version = $3; sub(/@.*/, "", name); sub(/^[^@]*/, "", version) }
        name ~ /^copse__/ ? version !~ private : version != public { print $3 }' >"$work/faults"
    fault "$1: names with another version than cmake/symbols.map.in says" "$work/faults"
}
version "$copse" COPSE
version "$conformance" COPSE_CONFORMANCE

banned='abort|exit|_exit|_Exit|quick_exit|__assert_fail|printf|vprintf|puts|putchar|perror|psignal'
banned="$banned|__printf_chk|__vprintf_chk|stdout|stderr|signal|sigaction|fork|system"
for library in "$copse" "$conformance"; do
    ${tools}objdump -p "$library" | grep -E 'NEEDED|DLL Name' | grep -i -E 'opencl|vulkan|mpi|gloo' >"$work/faults"
    fault "$library: linked against a loader" "$work/faults"
done
for archive in "$copse_static" "$conformance_static"; do
    ${tools}nm -A --undefined-only "$archive" | grep -E " U ($banned)(@.*)?\$" >"$work/faults"
    fault "$archive: the library must not end the process, print or install handlers" "$work/faults"
done
[ $failed = 1 ] || echo "libcopse: $(wc -l <"$work/public") public names, $(wc -l <"$work/private") private ones;" \
    "copse-conformance: $(wc -l <"$work/prover") public names"
exit $failed
