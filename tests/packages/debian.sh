#!/bin/sh
# SPDX-License-Identifier: MIT
# debian.sh PACKAGES: installs the Debian packages of a folder (scripts/packages.sh) in a new Debian 12, trains there, and
# compiles a program with pkg-config.
set -u
packages=$(cd "$1" && pwd) source=$(cd "$(dirname "$0")/../.." && pwd)
command -v mmdebstrap >/dev/null || { echo 'skipped: mmdebstrap is not installed (see scripts/packages.txt)'; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo 'skipped: not root'; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$packages"/*.deb "$source/tests/tree/install_program.c" "$work"
cat >"$work/inside" <<'END'
set -eu
cd /tmp/packages
copse --version
copse train --devices host:0 --epochs 2 --quiet --save /tmp/model.safetensors
test -s /tmp/model.safetensors
copse help train | grep '^Pages: /usr/' | sed 's/^Pages: //' >/tmp/pages
test -s "$(cat /tmp/pages)/optimizers.md"
test -s /usr/share/man/man1/copse-train.1
gcc -std=c11 install_program.c -o /tmp/program $(pkg-config --cflags --libs copse)
/tmp/program
END
mmdebstrap --variant=minbase --include=gcc,libc6-dev,pkgconf \
    --customize-hook='mkdir -p "$1/tmp/packages"' \
    --customize-hook="cp $work/*.deb $work/install_program.c $work/inside \"\$1/tmp/packages\"" \
    --customize-hook='chroot "$1" apt-get -y --no-install-recommends install /tmp/packages/libcopse0.2_*.deb \
        /tmp/packages/libcopse-dev_*.deb /tmp/packages/copse_*.deb' \
    --customize-hook='chroot "$1" sh /tmp/packages/inside' \
    bookworm /dev/null >"$work/log" 2>&1 || { tail -n 30 "$work/log"; echo 'FAILED: the packages in a new Debian 12'; exit 1; }
grep -E '^copse [0-9]|held-out' "$work/log"
echo 'the packages install, train and link in a new Debian 12'
