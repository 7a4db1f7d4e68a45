#!/bin/sh
# SPDX-License-Identifier: MIT
# conan.sh [OPTION...]: makes the Conan package (packaging/conan) with the libraries of this system, and the program of the
# package's test with it. Options go to conan, such as -o 'copse/*:shared=False'. Conan comes from the package index, into a
# virtual environment. Exit code 77: the index cannot be reached.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{ python3 -m venv "$work/tools" && "$work/tools/bin/pip" install -q 'conan>=2'; } >"$work/log" 2>&1 || {
    echo "skipped: conan cannot be installed: $(grep -v '^ *$' "$work/log" | tail -n 1 | cut -c1-200)"
    exit 77
}
export CONAN_HOME="$work/home"
cp -r "$source/packaging/conan" "$work/recipe" # conan writes beside the recipe
mkdir "$work/system"
cat >"$work/system/conanfile.py" <<'END_OF_RECIPE'
from conan import ConanFile


class System(ConanFile):
    """A library of this system, in the place of its Conan package."""
    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "system-" + self.name) # FindPNG of CMake finds the others
        part = self.cpp_info.components["jpeg"] if self.name == "libjpeg-turbo" else self.cpp_info
        part.includedirs = part.libdirs = []
        part.system_libs = {"cjson": ["cjson"], "zlib": ["z"], "libpng": ["png"], "libjpeg-turbo": ["jpeg"]}.get(self.name, [])
END_OF_RECIPE
sed -i "s|Path(self.recipe_folder, \"..\", \"..\"|Path(\"$source\"|" "$work/recipe/conanfile.py"
sed -i "s|\.\./\.\./\.\./tests|$source/tests|" "$work/recipe/test_package/CMakeLists.txt"
{
    "$work/tools/bin/conan" profile detect
    for library in cjson/1.7.15 zlib/1.2.13 libpng/1.6.39 libjpeg-turbo/2.1.5 opencl-headers/2022.09.30 vulkan-headers/1.3.239; do
        "$work/tools/bin/conan" create "$work/system" --name "${library%/*}" --version "${library#*/}"
    done
    "$work/tools/bin/conan" create "$work/recipe" --no-remote -c tools.cmake.cmaketoolchain:generator=Ninja "$@"
} >"$work/log" 2>&1 || { tail -n 40 "$work/log"; echo 'FAILED: the Conan package'; exit 1; }
echo 'the Conan package builds, and a program links it and runs'
