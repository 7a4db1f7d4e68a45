#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh BUILD-FOLDER C-COMPILER PROGRAM.c EXAMPLES-FOLDER: installs into an empty prefix and builds a small
# program there, once with pkg-config and once with find_package, then runs both, and everyday_program.c beside it, which
# includes copse/copse.h alone. Builds all examples with pkg-config and runs those that need no device but host:0.
set -eu
build=$1 cc=$2 program=$3 examples=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
library=$(dirname "$(find "$prefix" -name libcopse.so)")
[ -e "$library/libcopse.so.0.1" ] || { echo "no soname libcopse.so.0.1"; exit 1; }
[ -x "$prefix/bin/copse" ] && "$prefix/bin/copse" devices >/dev/null

export PKG_CONFIG_PATH="$library/pkgconfig"
$cc -std=c11 -Wall -Wextra -Werror "$program" -o "$work/by-pkg-config" \
    $(pkg-config --cflags --libs copse) -Wl,-rpath,"$library"
"$work/by-pkg-config"
$cc -std=c11 -Wall -Wextra -Werror -Werror=implicit-function-declaration "$(dirname "$program")/everyday_program.c" \
    -o "$work/everyday" $(pkg-config --cflags --libs copse) -Wl,-rpath,"$library"
"$work/everyday" "$work/everyday.safetensors"

mkdir "$work/project"
cp "$program" "$work/project/program.c"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(copse 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE copse::copse)
END
{ cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" && cmake --build "$work/project/build"; } >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
"$work/project/build/program"

for path in "$examples"/*.c; do
    name=$(basename "$path" .c)
    more=-lm
    if [ "$name" = lend_vulkan ]; then
        more='-lm -lvulkan'
        if ! echo 'int main(void) { return 0; }' | $cc -x c - -o "$work/vulkan" $more 2>/dev/null ||
            [ ! -e "$prefix/include/copse/device/vulkan.h" ]; then
            echo "example $name is left out: no Vulkan loader to link, or no Vulkan backend"
            continue
        fi
    fi
    $cc -std=c11 -Wall -Wextra -Werror "$path" -o "$work/$name" \
        $(pkg-config --cflags --libs copse) $more -Wl,-rpath,"$library"
done
unset COPSE_CONFIG TF_CONFIG
"$work/merge_call" >"$work/log" && grep -q '^the run returned 20$' "$work/log" || { cat "$work/log"; exit 1; }
"$work/parameter_servers" >"$work/log" && grep -q 'slope 3.000' "$work/log" || { cat "$work/log"; exit 1; }
(cd "$work" && ./predict) >"$work/log" && grep -q '^[0-9]* of 300 points are inside; 9[0-9.]* % of the labels are right$' "$work/log" ||
    { cat "$work/log"; exit 1; }
"$work/user_op" >"$work/log" && grep -q '^host:0: [1-9][0-9]* cases passed, 0 failed$' "$work/log" &&
    grep -q '^swish(2) = 1.761594, slope 1.090784$' "$work/log" || { cat "$work/log"; exit 1; }
"$work/layers" "$(find "$prefix" -name digits.csv.gz)" >"$work/log" && grep -q '^total  *13,258$' "$work/log" &&
    awk '/^epoch 8 / { ok = $NF < 0.3 } END { exit !ok }' "$work/log" || { cat "$work/log"; exit 1; }
"$work/monitor_step" "$work/run" >"$work/log" && "$work/monitor_step" "$work/run" >>"$work/log" &&
    grep -q '^resumed from .*step-0*10.safetensors$' "$work/log" && grep -q '^step 20: loss' "$work/log" ||
    { cat "$work/log"; exit 1; }
