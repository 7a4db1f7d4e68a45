# SPDX-License-Identifier: MIT
# Sourced by quickstart and check from the top folder: installs missing packages, builds.
# Nothing is installed or rebuilt when it is there already.

say() { printf '== %s\n' "$*"; }
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

# need_packages GROUP...: install what is missing of these groups of packages.txt, or fail.
need_packages() {
    has_apt || {
        say "no apt here: these Debian packages are expected under their local names:" $(wanted "$@" | cut -d' ' -f1)
        return 0
    }
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    show_missing
    can_install || fail "not root and no sudo: install the packages above, then run again"
    names=$(printf '%s\n' "$missing" | cut -d' ' -f1)
    install_packages $names || fail "apt-get could not install: $(echo $names)"
}

# want_packages GROUP...: install what is missing of these groups, as far as it can be. `unavailable` has the rest, a line
# for each: its name and why it is wanted.
want_packages() {
    unavailable=
    has_apt || {
        say "no apt here: these Debian packages are of use under their local names:" $(wanted "$@" | cut -d' ' -f1)
        return 0
    }
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    show_missing
    if can_install; then
        names=$(printf '%s\n' "$missing" | cut -d' ' -f1)
        install_packages $names || for name in $names; do # one by one: a name that apt does not know spoils all
            install_packages "$name" || :
        done
    fi
    unavailable=$(missing_packages "$@")
}

has_apt() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

# Sets `as_root`, the command that gives the right to install.
can_install() {
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    [ -z "$as_root" ] || command -v sudo >/dev/null
}

missing_packages() {
    wanted "$@" | while read -r package why; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
        [ "$state" = installed ] || printf '%s %s\n' "$package" "$why"
    done
}

show_missing() {
    say "installing missing packages (apt-get):"
    printf '%s\n' "$missing" | while read -r package why; do
        printf '     %-24s %s\n' "$package" "$why"
    done
}

install_packages() {
    [ -n "${is_updated-}" ] || { is_updated=1; $as_root apt-get -qq update; } || return
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends install "$@" >/dev/null
}

wanted() {
    for group in "$@"; do
        sed -n "s/^$group  *\([^ ]*\)  *\(.*\)/\1 \2/p" scripts/packages.txt
    done
}

# build_in FOLDER [CMake option...]: configure when new or when options are given, then build. Prints progress on a
# terminal, and errors; with COPSE_VERBOSE=1 every command.
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
    if [ -n "${COPSE_VERBOSE-}" ]; then
        cmake --build "$folder" --verbose || fail "the build in $folder"
    elif [ -t 1 ]; then # one line, which is redrawn
        cmake --build "$folder" || fail "the build in $folder"
    else
        cmake --build "$folder" >"$folder/build.log" 2>&1 || {
            sed -n '/^FAILED/,$p' "$folder/build.log" | grep -v '^\[[0-9]*/[0-9]*\]' | head -n 100 >&2
            fail "the build in $folder: $folder/build.log"
        }
        grep -E 'warning:' "$folder/build.log" || : # rare, and not to be missed
    fi
}
