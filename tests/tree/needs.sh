#!/bin/sh
# SPDX-License-Identifier: MIT
# needs.sh SOURCE CMAKE: what a build says when zlib or cJSON is missing: the package of the system that it is built for.
set -u
source=$1 cmake=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
# says SYSTEM PACKAGE TEXT: without a package of find_package, or without the headers of cJSON
says() {
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(needs NONE)
set(CMAKE_SYSTEM_NAME $1)
$([ "$1" = Linux ] || echo 'set(CMAKE_CROSSCOMPILING TRUE)')
set(COPSE_OPENCL OFF)
set(COPSE_VULKAN OFF)
$([ "$2" = ZLIB ] && echo 'set(CMAKE_DISABLE_FIND_PACKAGE_ZLIB TRUE)' || echo 'set(ZLIB_FOUND TRUE)
set(COPSE_CJSON_HEADERS COPSE_CJSON_HEADERS-NOTFOUND CACHE PATH "")
set(CMAKE_FIND_ROOT_PATH /nowhere)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)')
macro(find_package name)
    if(NOT CMAKE_DISABLE_FIND_PACKAGE_\${name})
        set(\${name}_FOUND TRUE)
    endif()
endmacro()
include("$source/cmake/needs.cmake")
END
    rm -rf "$work/build"
    "$cmake" -S "$work" -B "$work/build" >"$work/log" 2>&1 && { echo "FAILED: $1 without $2 configures"; failed=1; }
    grep -q "^ *copse: $3$" "$work/log" || { echo "FAILED: $1 without $2:"; cat "$work/log"; failed=1; }
}
says Linux ZLIB 'zlib.h not found: install the Debian package zlib1g-dev'
says Windows ZLIB 'zlib.h not found: install the Debian package libz-mingw-w64-dev'
says Linux CJSON 'cjson/cJSON.h not found: install the Debian package libcjson-dev'
says Windows CJSON 'cjson/cJSON.h not found: build it for Windows and name its folder in CMAKE_PREFIX_PATH'
exit $failed
