# SPDX-License-Identifier: MIT
# Sourced by quickstart and check from the top folder: installs missing packages, builds.
# Nothing is installed or rebuilt when it is there already.

say() { printf '== %s\n' "$*"; }
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

# need_packages GROUP...: install what is missing of these groups of packages.txt.
need_packages() {
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || {
        say "no apt here: these Debian packages are expected under their local names:" \
            $(wanted "$@" | cut -d' ' -f1)
        return 0
    }
    missing=$(wanted "$@" | while read -r package why; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
        [ "$state" = installed ] || printf '%s %s\n' "$package" "$why"
    done)
    [ -n "$missing" ] || return 0

    say "installing missing packages (apt-get):"
    printf '%s\n' "$missing" | while read -r package why; do
        printf '     %-24s %s\n' "$package" "$why"
    done
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "not root and no sudo: install the packages above, then run again"
        as_root=sudo
    fi
    names=$(printf '%s\n' "$missing" | cut -d' ' -f1)
    { $as_root apt-get -qq update && $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends install $names >/dev/null; } ||
        fail "apt-get could not install: $(echo $names)"
}

wanted() {
    for group in "$@"; do
        sed -n "s/^$group  *\([^ ]*\)  *\(.*\)/\1 \2/p" scripts/packages.txt
    done
}

# build_in FOLDER [CMake option...]: configure when new or when options are given, then build.
build_in() {
    folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ] || [ $# -gt 0 ]; then
        say "configuring $folder"
        mkdir -p "$folder"
        cmake -S . -B "$folder" -G Ninja "$@" >"$folder/configure.log" 2>&1 || {
            cat "$folder/configure.log" >&2
            fail "cmake could not configure $folder"
        }
        sed -n 's/^copse: /   /p' "$folder/configure.log"
    fi
    say "building $folder"
    cmake --build "$folder" || fail "the build in $folder"
}
