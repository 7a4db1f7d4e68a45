#!/bin/sh
# SPDX-License-Identifier: MIT
# check_report.sh SOURCE CTEST: what ./check prints at its end: the slowest tests, everything that was skipped with its
# reason, and packages that cannot be installed.
set -eu
source=$1 ctest=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$source"

# ---- tests ----
mkdir "$work/tests"
cat >"$work/tests/CTestTestfile.cmake" <<END
add_test(passes sh -c "sleep 0.2")
add_test(skips_in_part sh -c "echo 'skipped: no locale'; echo '4 skipped'; echo '  skipped on host:0: no cuts'")
add_test(skips sh -c "echo before; echo 'skipped: no TensorFlow'; exit 77")
add_test(lists "$ctest" --test-dir "$work/tests" -N)
add_test(skips_quoted sh -c "printf \"skipped: no <TensorFlow> & 'more'\"; exit 77")
add_test(skips.mute sh -c "exit 77")
add_test(fails sh -c "echo 'skipped: it is not'; exit 1")
set_tests_properties(passes skips_in_part skips skips_quoted skips.mute fails PROPERTIES SKIP_RETURN_CODE 77)
END
(
    . scripts/setup.sh
    . scripts/report.sh
    fail() { exit 1; }
    printf 'other\ncopse: MPI not found\n' >"$work/tests/configure.log"
    note_configured "$work/tests"
    "$ctest" --test-dir "$work/tests" -j 1 -O "$report/ctest" --output-junit "$report/junit.xml" >"$work/ctest" 2>&1 || :
    note_tests "$work/tests"
    run_script 'a script' sh -c 'echo "skipped: no drivers"; exit 77'
    run_script 'half a script' sh -c 'echo "== one skipped: no file"'
    run_script 'a good script' true
    report_end
    [ ! -e "$report" ]
) >"$work/said"
sed "s|$work/||" "$work/said" >"$work/got"
cat >"$work/expected" <<'END'
== skipped
     tests: MPI not found
     tests: skips.mute: it gives no reason
     tests: skips: no TensorFlow
     tests: skips_quoted: no <TensorFlow> & 'more'
     tests: fails, in part: it is not
     tests: skips_in_part, in part: no locale; on host:0: no cuts
     a script: no drivers
     half a script: one: no file
END
sed -n '/^== skipped$/,$p' "$work/got" | diff "$work/expected" - || { echo 'FAILED: what was skipped'; exit 1; }
grep -A 1 '^== slowest tests$' "$work/said" | grep -q ' s  passes (' || { echo "FAILED: $(cat "$work/said")"; exit 1; }
grep -q 'tests passed, 1 tests failed out of 7' "$work/ctest" || { echo "FAILED: $(cat "$work/ctest")"; exit 1; }

# ---- packages: an apt that does not know one of them ----
mkdir "$work/bin" "$work/scripts"
cp scripts/setup.sh "$work/scripts"
printf '%s\n' 'check there here already' 'check libgood is good' 'check libnew only newer systems have it' \
    >"$work/scripts/packages.txt"
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
for package; do :; done
[ -e "$0.$package" ] && printf installed
END
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/asked"
case " $* " in *' libnew '*) exit 100 ;; *' libgood '*) : >"$here/dpkg-query.libgood" ;; esac
END
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
chmod +x "$work/bin"/*
: >"$work/bin/dpkg-query.there"
(
    cd "$work"
    PATH=$work/bin:$PATH
    . scripts/setup.sh
    want_packages check
    printf '%s\n' "$unavailable"
    (need_packages check) && exit 1
    exit 0
) >"$work/said" 2>"$work/errors" || { echo 'FAILED: a package that is needed is not there, and that is no failure'; exit 1; }
grep -qx 'libnew only newer systems have it' "$work/said" || { echo "FAILED: $(cat "$work/said")"; exit 1; }
grep -q '^failed: apt-get could not install: libnew$' "$work/errors" || { echo "FAILED: $(cat "$work/errors")"; exit 1; }
[ "$(grep -c update "$work/bin/asked")" -eq 1 ] || { echo 'FAILED: lists were fetched again and again'; exit 1; }
echo 'skips, seconds and packages are told'
