#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh BUILD-FOLDER C-COMPILER PROGRAM.c: installs into an empty prefix and builds a small
# program there, once with pkg-config and once with find_package, then runs both.
set -eu
build=$1 cc=$2 program=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
library=$(dirname "$(find "$prefix" -name libcopse.so)")
[ -e "$library/libcopse.so.0" ] || { echo "no soname libcopse.so.0"; exit 1; }
[ -x "$prefix/bin/copse" ] && "$prefix/bin/copse" devices >/dev/null

export PKG_CONFIG_PATH="$library/pkgconfig"
$cc -std=c11 -Wall -Wextra -Werror "$program" -o "$work/by-pkg-config" \
    $(pkg-config --cflags --libs copse) -Wl,-rpath,"$library"
"$work/by-pkg-config"

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
