#!/bin/sh
# SPDX-License-Identifier: MIT
# windows.sh [CMake option...]: builds for 64-bit Windows on Debian, in build/windows. Installs what is missing, and builds the
# libraries that Debian does not have for Windows from Debian's sources, in build/windows-needs.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh

need_packages build windows
needs=$PWD/build/windows-needs
mkdir -p "$needs/source/lists/partial" "$needs/source/sources"

# apt_sources OPTION...: apt-get with lists of sources, which the machine itself may not have
apt_sources() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$needs/source/sources" \
        -o Dir::State::lists="$needs/source/lists" -o APT::Sandbox::User=root "$@"
}
list_sources() {
    [ ! -e "$needs/source/sources/listed" ] || return 0
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$file" ] || continue
        case $file in
        *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
        *.list) sed -n 's/^deb /deb-src /p' "$file" ;;
        *) continue ;;
        esac >"$needs/source/sources/$(basename "$file")"
    done
    grep -L debian "$needs"/source/sources/* | xargs -r rm -f # of others
    apt_sources update && touch "$needs/source/sources/listed"
}

# unpack NAME: the source of a Debian package in $needs/source/NAME. A security update may be gone from the archive: then the
# version of the release.
unpack() {
    [ ! -d "$needs/source/$1" ] || return 0
    list_sources || return 1
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    for version in '' "/$release"; do
        rm -rf "$needs/source/get"
        mkdir "$needs/source/get"
        (cd "$needs/source/get" && apt_sources --only-source source "$1$version") >"$needs/source/$1.log" 2>&1 || continue
        mv "$needs"/source/get/*/ "$needs/source/$1" && return 0
    done
    tail -n 3 "$needs/source/$1.log" >&2
    return 1
}

# build_need NAME PRODUCT [CMake option...]: installs it in $needs
build_need() {
    name=$1 product=$2
    shift 2
    [ ! -e "$needs/$product" ] || return 0
    say "building $name for Windows"
    unpack "$name" || return 1
    {
        cmake -S "$needs/source/$name" -B "$needs/source/$name/build-windows" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/mingw-w64.cmake" -DCOPSE_WINDOWS_NEEDS="$needs" \
            -DCMAKE_INSTALL_PREFIX="$needs" -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" &&
            cmake --build "$needs/source/$name/build-windows" &&
            cmake --install "$needs/source/$name/build-windows" && rm -f "$needs"/lib/*.dll.a
    } >"$needs/source/$name.log" 2>&1 || { tail -n 20 "$needs/source/$name.log" >&2; return 1; }
}

build_need cjson lib/libcjson.a -DENABLE_CJSON_TEST=OFF -DBUILD_SHARED_LIBS=OFF -DENABLE_CUSTOM_COMPILER_FLAGS=OFF \
    -DCMAKE_C_FLAGS=-DCJSON_HIDE_SYMBOLS || # else every DLL exports its functions
   
    fail "cJSON cannot be built for Windows"
build_need cmocka lib/libcmocka-static.a -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF ||
    say "no cmocka for Windows: tests are not built"
{
    build_need libpng1.6 lib/libpng.a -DPNG_SHARED=OFF -DPNG_TESTS=OFF &&
        build_need libjpeg-turbo lib/libjpeg.a -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_SIMD=OFF
} || say "no libpng or libjpeg-turbo for Windows: pictures are not read"
for folder in CL vulkan vk_video; do # headers without code
    [ ! -d /usr/include/$folder ] || cp -RL /usr/include/$folder "$needs/include/"
done

mkdir -p "$needs/licences"
for name in cjson libpng1.6 libjpeg-turbo; do
    for file in "$needs/source/$name"/debian/copyright; do
        [ ! -e "$file" ] || cp "$file" "$needs/licences/$name"
    done
done
for package in libz-mingw-w64 mingw-w64-common gcc-mingw-w64-base; do # zlib, the runtime, libgcc
    [ ! -e /usr/share/doc/$package/copyright ] || cp /usr/share/doc/$package/copyright "$needs/licences/$package"
done

tests=OFF
[ ! -e "$needs/lib/libcmocka-static.a" ] || tests=ON
build_in build/windows -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/mingw-w64.cmake" -DCOPSE_WINDOWS_NEEDS="$needs" \
    -DCOPSE_WERROR=ON -DCOPSE_TESTS=$tests "$@"
