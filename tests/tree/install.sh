#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh BUILD-FOLDER C-COMPILER PROGRAM.c EXAMPLES-FOLDER: installs into an empty prefix and builds a small program that
# trains over libcopse alone, and one that judges a device (conformance_program.c beside it), each once with pkg-config and
# once with find_package, then runs them; and everyday_program.c beside it, which includes copse/copse.h alone. Builds all examples with pkg-config and runs those that need no device but host:0.
set -eu
build=$1 cc=$2 program=$3 examples=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
library=$(dirname "$(find "$prefix" -name libcopse.so)")
for name in libcopse libcopse-conformance; do
    [ -e "$library/$name.so.0.2" ] || { echo "no soname $name.so.0.2"; exit 1; }
done
[ -x "$prefix/bin/copse" ] && "$prefix/bin/copse" devices >/dev/null

export PKG_CONFIG_PATH="$library/pkgconfig"
$cc -std=c11 -Wall -Wextra -Werror "$program" -o "$work/by-pkg-config" \
    $(pkg-config --cflags --libs copse) -Wl,-rpath,"$library"
"$work/by-pkg-config"
[ -e "$library/libcopse.a" ] || { echo "no static library"; exit 1; }
$cc -std=c11 -Wall -Wextra -Werror "$program" -o "$work/static" $(pkg-config --static --cflags --libs-only-L copse) \
    -Wl,-Bstatic -lcopse -Wl,-Bdynamic $(pkg-config --static --libs copse | sed 's/-lcopse //')
"$work/static"
if ldd "$work/static" | grep -q libcopse; then echo "the static program needs libcopse.so"; exit 1; fi
judge=$(dirname "$program")/conformance_program.c
$cc -std=c11 -Wall -Wextra -Werror "$judge" -o "$work/judge-by-pkg-config" \
    $(pkg-config --cflags --libs copse-conformance) -Wl,-rpath,"$library"
# judged PROGRAM: it runs, and finds no fault in this process and in a helper process
judged() {
    "$1" >"$work/log" 2>&1 && grep -qE '^[1-9][0-9]* and [1-9][0-9]* cases PASS$' "$work/log" || { cat "$work/log"; exit 1; }
}
judged "$work/judge-by-pkg-config"
$cc -std=c11 -Wall -Wextra -Werror -Werror=implicit-function-declaration "$(dirname "$program")/everyday_program.c" \
    -o "$work/everyday" $(pkg-config --cflags --libs copse) -Wl,-rpath,"$library"
"$work/everyday" "$work/everyday.safetensors"

mkdir "$work/project"
cp "$program" "$work/project/program.c"
cp "$judge" "$work/project/judge.c"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(copse 0.2 REQUIRED COMPONENTS conformance)
add_executable(program program.c)
target_link_libraries(program PRIVATE copse::copse)
add_executable(judge judge.c)
target_link_libraries(judge PRIVATE copse::conformance)
add_executable(static program.c)
target_link_libraries(static PRIVATE copse::static)
END
{ cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" && cmake --build "$work/project/build"; } >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
"$work/project/build/program"
"$work/project/build/static"
judged "$work/project/build/judge"
if ldd "$work/project/build/static" | grep -q libcopse; then echo "copse::static needs libcopse.so"; exit 1; fi
for built in by-pkg-config everyday project/build/program; do
    if ldd "$work/$built" | grep -q conformance; then echo "$built needs libcopse-conformance"; exit 1; fi
done
# An installation without the library: training is found, the component is not.
rm "$library"/libcopse-conformance.so* "$library"/cmake/copse/copse-conformance-targets*
"$work/project/build/program"
for component in '' 'COMPONENTS conformance'; do
    sed -i "s/^find_package.*/find_package(copse 0.2 REQUIRED $component)/; /judge/d" "$work/project/CMakeLists.txt"
    rm -rf "$work/project/build"
    cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
        >"$work/log" 2>&1 && code=0 || code=1
    if [ -z "$component" ] && [ $code != 0 ]; then cat "$work/log"; exit 1; fi
    if [ -n "$component" ] && { [ $code = 0 ] || ! grep -q 'conformance' "$work/log"; }; then
        echo "find_package takes a component that is not installed:"; cat "$work/log"; exit 1
    fi
done
cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

for path in "$examples"/*.c; do
    name=$(basename "$path" .c)
    more=-lm package=copse
    if grep -q 'copse/device/conformance' "$path"; then package=copse-conformance; fi
    if [ "$name" = lend_vulkan ]; then
        more='-lm -lvulkan'
        if ! echo 'int main(void) { return 0; }' | $cc -x c - -o "$work/vulkan" $more 2>/dev/null ||
            [ ! -e "$prefix/include/copse/device/vulkan.h" ]; then
            echo "example $name is left out: no Vulkan loader to link, or no Vulkan backend"
            continue
        fi
    fi
    $cc -std=c11 -Wall -Wextra -Werror "$path" -o "$work/$name" \
        $(pkg-config --cflags --libs $package) $more -Wl,-rpath,"$library"
done
unset COPSE_CONFIG TF_CONFIG
"$work/merge_call" >"$work/log" && grep -q '^the run returned 20$' "$work/log" || { cat "$work/log"; exit 1; }
"$work/parameter_servers" >"$work/log" && grep -q 'slope 3.000' "$work/log" || { cat "$work/log"; exit 1; }
(cd "$work" && ./predict) >"$work/log" && grep -q '^[0-9]* of 300 points are inside; 9[0-9.]* % of the labels are right$' "$work/log" ||
    { cat "$work/log"; exit 1; }
(cd "$work" && ./table "$examples/data/flowers.csv") >"$work/log" &&
    awk '/^red, length 0[.]0: / { low = $4 } /^red, length 2[.]5: / { high = $4 } END { exit !(low < 20 && high > 60 && NR == 6) }' "$work/log" ||
    { cat "$work/log"; exit 1; }
"$work/user_op" >"$work/log" && grep -q '^host:0: [1-9][0-9]* cases passed, 0 failed$' "$work/log" &&
    grep -q '^swish(2) = 1.761594, slope 1.090784$' "$work/log" || { cat "$work/log"; exit 1; }
"$work/layers" "$(find "$prefix" -name digits.csv.gz)" >"$work/log" && grep -q '^total  *13,258$' "$work/log" &&
    awk '/^epoch 8 / { ok = $NF < 0.3 } END { exit !ok }' "$work/log" || { cat "$work/log"; exit 1; }
"$work/eight_bit_gradients" "$(find "$prefix" -name digits.csv.gz)" >"$work/log" && grep -q '^8-bit gradients: ' "$work/log" ||
    { cat "$work/log"; exit 1; }
"$work/monitor_step" "$work/run" >"$work/log" && "$work/monitor_step" "$work/run" >>"$work/log" &&
    grep -q '^resumed from .*step-0*10.safetensors$' "$work/log" && grep -q '^step 20: loss' "$work/log" ||
    { cat "$work/log"; exit 1; }
