# SPDX-License-Identifier: MIT
# Sourced by check: collects the seconds of all tests, what was skipped and what passed only alone, and prints them at the end.

report=$(mktemp -d) || exit 1
: >"$report/seconds"
: >"$report/skipped"
: >"$report/unsteady"

# note_skipped WHAT REASON
note_skipped() { printf '%s: %s\n' "$1" "$2" >>"$report/skipped"; }

# note_unsteady TEXT: tests that failed beside others and passed alone
note_unsteady() { printf '%s\n' "$1" >>"$report/unsteady"; }

# note_configured FOLDER: what CMake left out there
note_configured() {
    sed -n "s|^copse: |$1: |p" "$1/configure.log" >>"$report/skipped"
}

# note_tests FOLDER: after ctest in FOLDER, whose output is in $report/ctest and whose results are in $report/junit.xml:
# LastTest.log loses what is before a `ctest -N` in the same folder. A test is skipped as a whole, or says itself which part
# of it is.
note_tests() {
    LC_ALL=C awk -v folder="$1" -v seconds="$report/seconds" '
        function plain(text) {
            gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\047", text)
            gsub(/&amp;/, "\\&", text)
            return text
        }
        FNR == 1 { file++ }
        file == 1 && sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "") {
            is_skipped[$1] = /\*\*\*Skipped/
            if ($NF == "sec")
                printf "%.1f %s (%s)\n", $(NF - 1), $1, folder >>seconds
        }
        file == 2 && !is_output && sub(/^\t<testcase name="/, "") { name = plain(substr($0, 1, index($0, "\"") - 1)) }
        file == 2 && sub(/^\t*<system-out>/, "") { is_output = 1 }
        { is_last = file == 2 && is_output && sub(/<\/system-out>$/, "") }
        file == 2 && is_output && sub(/^ *skipped:? */, "") && !said[name, $0]++ {
            reasons[name] = reasons[name] (reasons[name] ? "; " : "") plain($0)
        }
        is_last { is_output = 0 }
        END {
            for (name in is_skipped)
                if (is_skipped[name])
                    printf "%s: %s: %s\n", folder, name, reasons[name] ? reasons[name] : "it gives no reason"
                else if (reasons[name])
                    printf "%s: %s, in part: %s\n", folder, name, reasons[name]
        }' "$report/ctest" "$report/junit.xml" | LC_ALL=C sort >"$report/new"
    sed '/, in part: /d' "$report/new" >>"$report/skipped"
    sed -n '/, in part: /p' "$report/new" >>"$report/skipped"
}

# run_script WHAT COMMAND...: a test that is no entry of ctest; exit code 77: it was skipped
run_script() {
    what=$1
    shift
    say "$what"
    { "$@" && code=0 || code=$?; echo $code >"$report/code"; } 2>&1 | tee "$report/output"
    code=$(cat "$report/code")
    [ "$code" = 0 ] || [ "$code" = 77 ] || fail "$*"
    sed -n -e 's/^ *skipped:* *//p' -e 's/^== \(.*\) skipped: /\1: /p' "$report/output" >"$report/new"
    [ "$code" = 0 ] || [ -s "$report/new" ] || echo 'it gives no reason' >"$report/new"
    while read -r reason; do
        note_skipped "$what" "$reason"
    done <"$report/new"
}

report_end() {
    if [ -s "$report/unsteady" ]; then
        say "failed beside other tests, passed alone: faults of the tests or of the library, to be mended"
        sed 's/^/     /' "$report/unsteady"
    fi
    if [ -s "$report/seconds" ]; then
        say "slowest tests"
        LC_ALL=C sort -rn "$report/seconds" | head -n 15 | while read -r time name; do
            printf '%9s s  %s\n' "$time" "$name"
        done
        [ -s "$report/skipped" ] || say "nothing was skipped"
    fi
    if [ -s "$report/skipped" ]; then
        say "skipped"
        sed 's/^/     /' "$report/skipped"
    fi
    rm -rf "$report"
}
