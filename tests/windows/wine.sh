#!/bin/sh
# SPDX-License-Identifier: MIT
# wine.sh BUILD COPSE: the library and the command of a build for Windows (scripts/windows.sh), run by wine: names that the
# DLLs export, training, the same bits as COPSE, the command of this machine, files with names beyond ASCII, checkpoints,
# Ctrl-C, conformance in helper processes, and the unit tests that are built.
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
mkdir -p "$WINEPREFIX" # which the server asks for
# A server that ends after the last program of a test refuses the first one of the next.
wineserver -p
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
"$copse" --version >stdout 2>stderr && grep -q '^copse [0-9.]*$' stdout || no "--version: $(cat stdout stderr)"
grep -q "$(printf '\r')" stdout && no 'the output has carriage returns'
"$copse" devices >stdout 2>stderr && grep -q '^host:0 ' stdout || no "devices: $(cat stdout stderr)"
name='Größe 模型'
"$copse" train $quiet --epochs 2 --save "$name.st" >stdout 2>stderr || no "train: $(cat stdout stderr)"
"$native" train $quiet --epochs 2 --save native.st >stdout 2>stderr || no "train on this machine: $(cat stdout stderr)"
cmp -s "$name.st" native.st || no 'the model has other bits than the one that is trained on this machine'
zcat "$source/examples/data/digits/digits.csv.gz" | head -n 50 >"$name.csv"
"$copse" predict "$name.st" "$name.csv" --devices host:0 --output "$name.out" >stdout 2>stderr || no "predict: $(cat stdout stderr)"
"$native" predict native.st "$name.csv" --devices host:0 --output native.out >stdout 2>stderr || no "predict here: $(cat stderr)"
cmp -s "$name.out" native.out || no 'predictions have other bytes than on this machine'
"$copse" predict "$name.st" nothing.csv >stdout 2>stderr && no 'predicts from a file that is not there'
grep -q "nothing.csv" stderr || no "the error line: $(cat stderr)"
"$copse" train $quiet --schedule constant --epochs 4 --save whole.st >stdout 2>stderr || no "4 epochs: $(cat stderr)"
"$copse" train $quiet --schedule constant --epochs 2 --checkpoint "$name" >stdout 2>stderr || no "2 epochs: $(cat stderr)"
"$copse" train $quiet --schedule constant --epochs 4 --checkpoint "$name" --resume --save resumed.st >stdout 2>stderr ||
    no "resumed: $(cat stderr)"
"$copse" export resumed.st --npy resumed >stdout 2>stderr && "$copse" export whole.st --npy whole >stdout 2>stderr || no "export: $(cat stderr)"
for file in whole/*.npy; do
    cmp -s "$file" "resumed/${file#whole/}" || no "resumed training has other bits: $file"
done
"$copse" train --devices host:0 --quiet --epochs 1 >stdout 2>stderr || no "with the kernel cache: $(cat stderr)"
"$copse" train $quiet --epochs 2 --data "$name.csv" --model 'dense 8 relu; dense out' --save "$name 2.st" >stdout 2>stderr ||
    no "train on a file of this name: $(cat stderr)"
# The programs of examples/ have a manifest for UTF-8.
denoiser() { timeout 300 wine "$build/denoiser.exe" "$@" >stdout 2>stderr; }
denoiser --make "$name.pgm" "$name 2.pgm" && [ -s "$name.pgm" ] && [ -s "$name 2.pgm" ] || no "denoiser: $(ls) $(cat stderr)"
denoiser --make "$name.pgm" "./$name.pgm" && no 'the denoiser writes a file over another one of the command'
grep -q 'is named twice' stderr || no "denoiser: $(cat stderr)"
if "$copse" devices 2>/dev/null | grep -q '^opencl:0 '; then
    printf 'no launch\n' >"$name.launch"
    "$copse" conformance --device opencl:0 --kernel "$name.launch" --op "@$name.launch" >stdout 2>stderr &&
        no 'takes a wrong description of a launch'
    grep -q "$name.launch, line 1: 'no' is no keyword" stderr || no "a description of a launch: $(cat stderr)"
else
    echo "skipped: descriptions of launches: wine finds no OpenCL device"
fi
find "$WINEPREFIX"/drive_c/users/*/AppData/Local/copse -maxdepth 0 >stdout 2>&1 || no 'no cache folder in LOCALAPPDATA'

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
    echo '== Ctrl-C'
    press c 130 # wine 8 has no Ctrl-Break
else
    echo 'skipped: Ctrl-C: the build has no tests, or there is no `script` (Debian package bsdutils)'
fi

echo '== the zip'
rm -f "$build"/*.zip
(cd "$build" && cpack) >log 2>&1 || { cat log; no 'cpack'; }
mkdir zip && cmake -E chdir zip cmake -E tar xf "$build"/copse-*-windows-*.zip || no 'unzip'
top=$(echo "$work"/zip/*)
for path in bin/copse.exe bin/libcopse.dll lib/libcopse.dll.a lib/copse.def include/copse/copse.h share/doc/copse/LICENSE \
    share/doc/copse/windows.md share/doc/copse/licences/cjson lib/pkgconfig/copse.pc; do
    [ -s "$top/$path" ] || no "the zip lacks $path"
done
# program FILE: compiled against the unzipped tree, as C11 and with all warnings
program() {
    x86_64-w64-mingw32-gcc-win32 -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/$1.c" -o "$top/bin/$1.exe" \
        -I"$top/include" -L"$top/lib" -lcopse || no "$1 does not compile"
}
program layers
WINEDLLOVERRIDES='opencl=;vulkan-1=' wine "$top/bin/layers.exe" "$top/share/copse/digits/digits.csv.gz" >stdout 2>stderr &&
    tr -d '\r' <stdout | awk '/^epoch 8 / { ok = $NF < 0.3 } END { exit !ok }' || no "layers: $(cat stdout stderr)"
mkdir project
cp "$source/examples/layers.c" project/program.c
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(copse 0.2 REQUIRED COMPONENTS conformance)
add_executable(program program.c)
target_link_libraries(program PRIVATE copse::copse)
END
cmake -S project -B project/build -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/mingw-w64.cmake" \
    -DCOPSE_WINDOWS_NEEDS="$top" >log 2>&1 && cmake --build project/build >>log 2>&1 || { cat log; no 'find_package'; }
(cd / && timeout 100 wine "$top/bin/copse.exe" help train) >stdout 2>stderr
grep -q '^Pages: .*/share/doc/copse' stdout || no "the pages of the zip: $(grep Pages stdout)"

echo '== conformance'
"$copse" conformance --device host:0 --tier quick >stdout 2>stderr || no "conformance: $(cat stdout stderr)"
grep -qE '^[0-9]+ cases on 1 device in .* s: [0-9]+ pass$' stdout || no "conformance: $(tail -n 3 stdout)"

if [ -e "$build/tests/tests.exe" ]; then
    echo '== unit tests'
    # `mirrored` counts threads in /proc.
    known='mirrored'
    export WINEDLLOVERRIDES='opencl=;vulkan-1=' # tests of drivers are tests of this machine's
    cd "$source" || exit 1 # tests read files of the source
    count=0
    for test in $(wine "$build/tests/tests.exe" | tr -d '\r'); do
        timeout 300 wine "$build/tests/tests.exe" "$test" >"$work/log" 2>&1 </dev/null
        code=$?
        [ $code -ne 77 ] || echo "skipped: $test: $(tr -d '\r' <"$work/log" | grep -i skipped | head -n 1)"
        case " $known " in
        *" $test "*) [ $code -ne 0 ] || no "$test passes: take it off the list of this script" ;;
        *) [ $code -eq 0 ] || [ $code -eq 77 ] || { no "$test: exit code $code"; grep -v '^\[ *\(RUN\|OK\)' "$work/log" | head -n 20; } ;;
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
