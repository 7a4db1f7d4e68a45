#!/bin/sh
# SPDX-License-Identifier: MIT
# debian.sh PACKAGES RELEASE: installs the Debian packages of a folder (scripts/packages.sh) in a new Debian, bookworm or a later
# one, trains there by the command and in Python, and compiles a program with pkg-config.
set -u
packages=$(cd "$1" && pwd) release=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
command -v mmdebstrap >/dev/null || { echo 'skipped: mmdebstrap is not installed (see scripts/packages.txt)'; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo 'skipped: not root'; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$packages"/*.deb "$source/tests/tree/install_program.c" "$work"
cat >"$work/inside" <<'END'
set -eu
cd /tmp/packages
install() { apt-get -y --no-install-recommends install "$@"; }
install $(ls ./*.deb | grep -vE -- '-(gloo|mpi)_')
for engine in gloo mpi; do # they need the libraries of the release in which they were built
    install ./*-"$engine"_*.deb || echo "skipped: $engine cannot be installed in this release"
done
copse --version
copse train --devices host:0 --epochs 2 --quiet --save /tmp/model.safetensors
test -s /tmp/model.safetensors
copse help train | grep '^Pages: /usr/' | sed 's/^Pages: //' >/tmp/pages
test -s "$(cat /tmp/pages)/optimizers.md"
test -s /usr/share/man/man1/copse-train.1
python3 -m json.tool /usr/share/doc/copse/copse.spdx.json >/dev/null
cd / # in Python with the package, its digits and its command
cat >/tmp/program.py <<'END_OF_PROGRAM'
import copse

train, test = copse.Dataset.open(copse.DIGITS).split(seed=1)
model = copse.Model(copse.Strategy("host:0"), train, "dense 32 relu; dense out")
print("Python:", model.fit(train, epochs=2, validation_data=test, learning_rate=0.003, seed=1).history["val_accuracy"][-1])
END_OF_PROGRAM
python3 /tmp/program.py
python3 -m copse --version
cd /tmp/packages
[ ! -e "$(dpkg -L libcopse0.2 | grep 'libcopse.so.0.2$' | xargs dirname)/copse_gloo.so" ] ||
    copse launch -n 2 -- train --devices host:0 --epochs 2 --quiet --save /tmp/two.safetensors
gcc -std=c11 install_program.c -o /tmp/program $(pkg-config --cflags --libs copse)
/tmp/program
END
mmdebstrap --variant=minbase --include=gcc,libc6-dev,pkgconf,python3 \
    --customize-hook='mkdir -p "$1/tmp/packages"' \
    --customize-hook="cp $work/*.deb $work/install_program.c $work/inside \"\$1/tmp/packages\"" \
    --customize-hook='chroot "$1" sh /tmp/packages/inside' \
    "$release" /dev/null >"$work/log" 2>&1 || { tail -n 30 "$work/log"; echo "FAILED: the packages in a new Debian $release"; exit 1; }
grep -E '^copse [0-9]|^Python|held-out|^skipped' "$work/log"
[ "$release" != bookworm ] || ! grep -q '^skipped' "$work/log" || { echo 'FAILED: an engine cannot be installed'; exit 1; }
echo "the packages install, train and link in a new Debian $release"
