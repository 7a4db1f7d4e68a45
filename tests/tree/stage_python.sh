# SPDX-License-Identifier: MIT
# Sourced. stage_python BUILD SOURCE COMPILER WORK PYTHON: puts the Python package into the empty folder WORK, with the
# declarations made from the headers, and sets the environment in which PYTHON imports it with the library of BUILD.
stage_python() {
    rm -rf "$4"
    mkdir -p "$4/home"
    cp -r "$2/bindings/python/src/copse" "$4/copse"
    "$5" "$2/bindings/python/make_ffi.py" "$3" "$4/copse/_ffi.py" "$2/include" "$1/gen" >"$4/log" ||
        { cat "$4/log"; return 1; }
    export PYTHONPATH="$4" PYTHONDONTWRITEBYTECODE=1 HOME="$4/home"
    export COPSE_LIBRARY="$1/libcopse.so" COPSE_COMMAND="$1/copse"
}
