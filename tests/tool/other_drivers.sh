#!/bin/sh
# SPDX-License-Identifier: MIT
# Conformance, tier standard, on drivers that are not installed: SwiftShader (Vulkan, from Debian's
# chromium-common), rusticl (OpenCL, from mesa-opencl-icd), Intel's CPU runtime (OpenCL, from the
# Python package intel-opencl-rt, under Intel's licence), and the current lavapipe, rusticl and PoCL of Debian's
# unstable suite. They are unpacked into FOLDER, not installed, so that no other program finds them, and run without
# the other backend: mode reduce pairs the device with each other one, and has no such cases here. A driver that
# cannot be fetched is skipped with the reason. A driver passes if the run passes and no case is worse than in
# FOLDER/<driver>.json of the last run.
# usage: other_drivers.sh COPSE [FOLDER [DRIVER...]]
# COPSE_DRIVER_MODES: the modes [run grad launch opt reduce]
# COPSE_DRIVER_OPS: ops, and kernels of mode launch, with commas between them; the run is not compared with the last one [all]
set -u
copse=$1
folder=${2-${XDG_CACHE_HOME:-$HOME/.cache}/copse-drivers}
[ $# -ge 2 ] && shift 2 || shift
[ $# -gt 0 ] || set -- swiftshader rusticl intel-cpu lavapipe-unstable rusticl-unstable pocl-unstable
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 1
libraries=usr/lib/$(uname -m)-linux-gnu
modes=${COPSE_DRIVER_MODES:-run grad launch opt reduce}
failed=0
ran=0

say() { printf '== %s\n' "$*"; }

# unpack PACKAGE...: Debian packages into the current folder; `missing` says what is not to be had
unpack() {
    for package in "$@"; do
        [ -e "$package.done" ] && continue
        command -v apt-get >/dev/null || { missing='no apt-get here'; return 1; }
        { apt-get -qq download "$package" >log 2>&1 && dpkg-deb -x "$package"_*.deb . >>log 2>&1; } ||
            { missing="cannot download $package: $(tail -n 1 log)"; return 1; }
        rm -f "$package"_*.deb
        : >"$package.done"
    done
}

# unstable: a root folder with drivers of Debian's unstable suite and the libraries that they need; their C library is
# newer than that of a stable Debian. About 300 MB are fetched, 1.3 GB unpacked.
unstable() {
    root=$folder/unstable
    command -v unshare >/dev/null || { missing='no unshare here'; return 1; }
    if [ ! -e "$root.done" ]; then
        command -v apt-get >/dev/null || { missing='no apt-get here'; return 1; }
        mirror=$(apt-get indextargets --format '$(REPO_URI) $(SUITE)' 2>/dev/null | sed -n '/-security$/!s/ .*//p' | head -n 1)
        [ -n "$mirror" ] || { missing='apt has no Debian mirror'; return 1; }
        apt=$root.apt
        rm -rf "$root" && mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$apt/lists/partial" \
            "$apt/archives/partial"
        echo "deb $mirror unstable main" >"$apt/sources.list"
        : >"$apt/status"
        set -- -qq -y -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
            -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o Dir::State::status="$apt/status" \
            -o Debug::NoLocking=1 -o APT::Install-Recommends=false
        # libz, libcjson, libpng and libjpeg are those that the command is linked with
        { apt-get "$@" update && apt-get "$@" --download-only install coreutils bash libc-bin mesa-vulkan-drivers \
            libvulkan1 ocl-icd-libopencl1 pocl-opencl-icd mesa-opencl-icd zlib1g libcjson1 libpng16-16t64 \
            libjpeg62-turbo; } >log 2>&1 ||
            { missing="cannot download Debian's unstable drivers: $(tail -n 1 log)"; return 1; }
        for package in "$apt"/archives/*.deb; do
            dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" || { missing="cannot unpack $package"; return 1; }
        done
        [ -e "$root/bin/sh" ] || ln -s bash "$root/bin/sh"
        rm -rf "$apt"
        : >"$root.done"
    fi
    inside true >log 2>&1 || { missing="cannot change to the root folder $root: $(tail -n 1 log)"; return 1; }
}

# inside COMMAND...: with the root folder `root`, or as it is without one
inside() {
    [ -n "$root" ] || { "$@"; return; }
    as=
    [ "$(id -u)" -eq 0 ] || as=-r
    unshare $as -m sh -c '
        root=$1 here=$2 build=$3
        shift 3
        for folder in /proc /sys /dev "$here" "$build"; do
            mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 125
        done
        exec chroot "$root" /usr/bin/env -C "$here" "$@"' \
        sh "$root" "$PWD" "${copse%/*}" "$@"
}

# Each sets up its environment in the subshell that it is called in, and prints nothing.

swiftshader() {
    device=vulkan:0
    unpack chromium-common || return 1
    library=$PWD/usr/lib/chromium/libvk_swiftshader.so
    sed "s|\"library_path\": *\"[^\"]*\"|\"library_path\": \"$library\"|" \
        usr/lib/chromium/vk_swiftshader_icd.json >icd.json
    export VK_ICD_FILENAMES="$PWD/icd.json" VK_DRIVER_FILES="$PWD/icd.json" COPSE_DISABLE=opencl
}

rusticl() {
    device=opencl:0
    unpack mesa-opencl-icd || return 1
    # The library of OpenCL's functions is looked for in this place only.
    [ -e /usr/lib/clc/spirv64-mesa3d-.spv ] ||
        { missing='no /usr/lib/clc: install the Debian package libclc-15'; return 1; }
    unpack libllvmspirvlib15 || return 1
    mkdir -p vendors
    printf '%s\n' "$PWD/$libraries/libRusticlOpenCL.so.1" >vendors/rusticl.icd
    export OCL_ICD_VENDORS="$PWD/vendors/" RUSTICL_ENABLE=llvmpipe COPSE_DISABLE=vulkan
    export LD_LIBRARY_PATH="$PWD/$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

intel_cpu() {
    device=opencl:0
    if [ ! -e wheels.done ]; then
        pip=$(command -v pip || command -v pip3) || { missing='no pip here'; return 1; }
        # Each wheel holds its libraries below <name>.data/data/lib.
        { "$pip" -q download -d wheels intel-opencl-rt intel-cmplr-lib-rt >log 2>&1 &&
            for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" all || exit 1; done \
                >>log 2>&1 && mkdir -p lib && cp -R all/*.data/data/lib/. lib/; } ||
            { missing="cannot unpack intel-opencl-rt: $(tail -n 1 log)"; return 1; }
        rm -rf wheels all lib/libOpenCL.so*
        : >wheels.done
    fi
    mkdir -p vendors
    printf '%s\n' "$PWD/lib/libintelocl.so" >vendors/intel-cpu.icd
    export OCL_ICD_VENDORS="$PWD/vendors/" COPSE_DISABLE=vulkan
    export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

lavapipe_unstable() {
    device=vulkan:0
    unstable || return 1
    set -- "$root"/usr/share/vulkan/icd.d/lvp_icd*.json
    export VK_DRIVER_FILES="${1#"$root"}" COPSE_DISABLE=opencl
}

rusticl_unstable() {
    device=opencl:0
    unstable || return 1
    mkdir -p vendors
    cp "$root"/etc/OpenCL/vendors/rusticl.icd vendors/ || { missing='mesa-opencl-icd has no rusticl.icd'; return 1; }
    export OCL_ICD_VENDORS="$PWD/vendors/" RUSTICL_ENABLE=llvmpipe COPSE_DISABLE=vulkan
}

pocl_unstable() {
    device=opencl:0
    unstable || return 1
    mkdir -p vendors
    cp "$root"/etc/OpenCL/vendors/pocl.icd vendors/ || { missing='pocl-opencl-icd has no pocl.icd'; return 1; }
    export OCL_ICD_VENDORS="$PWD/vendors/" POCL_CACHE_DIR="$PWD/cache/pocl" COPSE_DISABLE=vulkan
}

# check DRIVER, in a subshell: 0 = passed, 1 = failed, 77 = skipped
check() {
    missing=
    root=
    mkdir -p "$folder/$1" && cd "$folder/$1" || return 1
    case $1 in
    swiftshader | rusticl) "$1" ;;
    intel-cpu) intel_cpu ;;
    lavapipe-unstable) lavapipe_unstable ;;
    rusticl-unstable) rusticl_unstable ;;
    pocl-unstable) pocl_unstable ;;
    *) missing='there is no such driver here'; false ;;
    esac || { say "$1 skipped: $missing"; return 77; }
    export XDG_CACHE_HOME="$PWD/cache"
    mkdir -p cache
    inside timeout 60 "$copse" devices >devices 2>&1
    name=$(sed -n "s/^$device  *//p" devices)
    [ -n "$name" ] || { say "$1 skipped: it has no device here: $(tail -n 1 devices)"; return 77; }

    say "$1: $name"
    inside timeout 3600 "$copse" conformance $modes --tier standard --device $device --deadline 600 \
        ${COPSE_DRIVER_OPS:+--ops "$COPSE_DRIVER_OPS"} --markdown card.md --json >new.json 2>err
    code=$?
    tail -n 1 new.json
    [ $code -eq 0 ] || {
        grep '"event":"case"' new.json | grep -E '"verdict":"(FAIL|MISTRUSTED|XPASS|TIMEOUT|CRASH|DEVICE_LOST)"'
        tail -n 3 err
        say "$1 failed: exit code $code; in $PWD"
        return 1
    }
    [ -z "${COPSE_DRIVER_OPS-}" ] || return 0
    if [ -e last.json ] && ! "$copse" conformance compare last.json new.json; then
        say "$1 failed: worse than the last run, $PWD/last.json"
        return 1
    fi
    mv new.json last.json
}

case $copse in */*) copse=$(cd "$(dirname "$copse")" && pwd)/${copse##*/} ;; esac
for driver; do
    (check "$driver")
    case $? in
    0) ran=$((ran + 1)) ;;
    77) ;;
    *) ran=$((ran + 1)) failed=$((failed + 1)) ;;
    esac
done
say "$ran of $# drivers were there, $failed failed"
[ $failed -eq 0 ] || exit 1
[ $ran -gt 0 ] || exit 77
