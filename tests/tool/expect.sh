# SPDX-License-Identifier: MIT
# Shared by tests, to be sourced: $work is a folder that the test removes; for `good` and `bad` $copse is the command. Counts
# in $passed and $failed.
export XDG_CACHE_HOME="$work/cache"
mkdir "$work/cache" "$work/out"
failed=0
passed=0

no() {
    printf 'FAILED: %s\n' "$*"
    failed=$((failed + 1))
}

# bad NAME PATTERN ARGUMENT...: exit code 2, one line that matches, nothing in out/
bad() {
    name=$1 pattern=$2
    shift 2
    (cd "$work/out" && timeout 120 "$copse" "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    before=$failed
    [ $code -eq 2 ] || no "$name: exit code $code"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || no "$name: not one line: $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stderr" || no "$name: $(cat "$work/stderr")"
    [ -z "$(ls -A "$work/out")" ] || no "$name: left $(ls -A "$work/out")"
    rm -rf "$work/out"; mkdir "$work/out"
    [ $failed -eq $before ] && passed=$((passed + 1))
}

# good NAME PATTERN ARGUMENT...: exit code 0, standard output matches, nothing on standard error
good() {
    name=$1 pattern=$2
    shift 2
    (cd "$work/out" && timeout 120 "$copse" "$@") >"$work/stdout" 2>"$work/stderr"
    code=$?
    before=$failed
    [ $code -eq 0 ] || no "$name: exit code $code: $(cat "$work/stderr")"
    [ ! -s "$work/stderr" ] || no "$name: said $(cat "$work/stderr")"
    grep -qE -- "$pattern" "$work/stdout" || no "$name: $(tail -3 "$work/stdout")"
    [ $failed -eq $before ] && passed=$((passed + 1))
}
