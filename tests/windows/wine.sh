#!/bin/sh
# SPDX-License-Identifier: MIT
# wine.sh BUILD COPSE: the library and the command of a build for Windows (scripts/windows.sh), run by wine: names that the
# DLLs export, training, the same bits as COPSE, the command of this machine, files with names beyond ASCII, checkpoints,
# Ctrl-C and Ctrl-Break, conformance in helper processes, and the unit tests that are built.
set -u
build=$(cd "$1" && pwd) native=$(realpath "$2")
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v wine >/dev/null || { echo 'skipped: wine is not installed (see scripts/packages.txt)'; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$source/tests/tool/expect.sh"
export WINEPREFIX="$build/wine" WINEDEBUG=-all
unset DISPLAY
cd "$work" || exit 1
wineboot -i >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

cat >"$work/copse" <<END
#!/bin/sh
exec timeout 300 wine '$build/copse.exe' "\$@"
END
chmod +x "$work/copse"
copse="$work/copse"
quiet='--devices host:0 --quiet --no-cache'

echo '== exported names'
cmake --build "$build" --target copse_static copse_conformance_static >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
sh "$source/tests/tree/symbols.sh" "$source" "$build/gen" "$build/libcopse.dll" "$build/libcopse.a" \
    "$build/libcopse-conformance.dll" "$build/libcopse_conformance_static.a" || no 'exported names'
for file in libcopse.dll libcopse-conformance.dll copse.exe; do
    x86_64-w64-mingw32-objdump -p "$build/$file" | sed -n 's/.*DLL Name: //p' |
        grep -viE '^(advapi32|kernel32|msvcrt|shell32|user32|libcopse|libcopse-conformance)\.dll$' &&
        no "$file needs this DLL, too"
done

echo '== training, files, checkpoints'
"$copse" --version >out 2>err && grep -q '^copse [0-9.]*$' out || no "--version: $(cat out err)"
grep -q "$(printf '\r')" out && no 'the output has carriage returns'
"$copse" devices >out 2>err && grep -q '^host:0 ' out || no "devices: $(cat out err)"
name='Größe 模型'
"$copse" train $quiet --epochs 2 --save "$name.st" >out 2>err || no "train: $(cat out err)"
"$native" train $quiet --epochs 2 --save native.st >out 2>err || no "train on this machine: $(cat out err)"
cmp -s "$name.st" native.st || no 'the model has other bits than the one that is trained on this machine'
zcat "$source/examples/data/digits/digits.csv.gz" | head -n 50 >"$name.csv"
"$copse" predict "$name.st" "$name.csv" --devices host:0 --output "$name.out" >out 2>err || no "predict: $(cat out err)"
"$native" predict native.st "$name.csv" --devices host:0 --output native.out >out 2>err || no "predict here: $(cat err)"
cmp -s "$name.out" native.out || no 'predictions have other bytes than those of this machine'
"$copse" predict "$name.st" nothing.csv >out 2>err && no 'predicts from a file that is not there'
grep -q "nothing.csv" err || no "the error line: $(cat err)"
"$copse" train $quiet --schedule constant --epochs 4 --save whole.st >out 2>err || no "4 epochs: $(cat err)"
"$copse" train $quiet --schedule constant --epochs 2 --checkpoint "$name" >out 2>err || no "2 epochs: $(cat err)"
"$copse" train $quiet --schedule constant --epochs 4 --checkpoint "$name" --resume --save resumed.st >out 2>err ||
    no "resumed: $(cat err)"
"$copse" export resumed.st --npy resumed >out 2>err && "$copse" export whole.st --npy whole >out 2>err || no "export: $(cat err)"
for file in whole/*.npy; do
    cmp -s "$file" "resumed/${file#whole/}" || no "resumed training has other bits: $file"
done
"$copse" train --devices host:0 --quiet --epochs 1 >out 2>err || no "with the kernel cache: $(cat err)"
find "$WINEPREFIX"/drive_c/users/*/AppData/Local/copse -maxdepth 0 >out 2>&1 || no 'no cache folder in LOCALAPPDATA'

# press KEY CODE: an endless run is stopped, and leaves what it has
press() {
    rm -f stopped.st.partial run.txt run.txt.code
    TERM=xterm timeout 120 script -qec "wine '$build/tests/press.exe' run.txt '\"event\":\"epoch\"' 2 $1 '$(winepath -w \
        "$build/copse.exe")' train $quiet --model mlp:8 --batch 256 --epochs 4000000000 --json --save stopped.st" /dev/null \
        </dev/null >log 2>&1
    [ "$(cat run.txt.code 2>/dev/null)" = "$2" ] || no "$1: exit code $(cat run.txt.code log), not $2"
    [ -s stopped.st.partial ] && [ ! -e stopped.st ] || no "$1: $(ls)"
    tail -n 1 run.txt | grep -q '"event":"stopped"' || no "$1: the last event: $(tail -n 1 run.txt)"
}
if command -v script >/dev/null && [ -e "$build/tests/press.exe" ]; then
    echo '== Ctrl-C and Ctrl-Break'
    press c 130
    press break 143
else
    echo 'skipped: Ctrl-C: the build has no tests, or there is no `script` (Debian package bsdutils)'
fi

echo '== conformance'
"$copse" conformance --device host:0 --tier quick --no-cache >out 2>err || no "conformance: $(cat out err)"
grep -qE '^[0-9]+ cases on 1 device in .* s: [0-9]+ pass$' out || no "conformance: $(tail -n 3 out)"

if [ -e "$build/tests/tests.exe" ]; then
    echo '== unit tests'
    # `mirrored` counts threads in /proc.
    known='mirrored'
    export WINEDLLOVERRIDES='opencl=;vulkan-1=' # tests of drivers are tests of this machine's
    count=0
    for test in $(wine "$build/tests/tests.exe" | tr -d '\r'); do
        timeout 300 wine "$build/tests/tests.exe" "$test" >log 2>&1 </dev/null
        code=$?
        case " $known " in
        *" $test "*) [ $code -ne 0 ] || no "$test passes: take it off the list of this script" ;;
        *) [ $code -eq 0 ] || [ $code -eq 77 ] || { no "$test: exit code $code"; grep -v '^\[ *\(RUN\|OK\)' log | head -n 20; } ;;
        esac
        count=$((count + 1))
    done
    [ $count -gt 100 ] || no "only $count tests"
    echo "$count programs of tests; known to fail: $known"
else
    echo 'skipped: unit tests: the build has none'
fi
wineserver -k
[ $failed -eq 0 ] && echo 'all is well under wine'
exit $((failed > 0))
