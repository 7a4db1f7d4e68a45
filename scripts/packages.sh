#!/bin/sh
# SPDX-License-Identifier: MIT
# packages.sh [CMake option...]: makes Debian packages of the work tree, the Python package among them, and a source tarball of the last commit, with their
# checksums, in build/package. The tarball has the same bytes for the same commit.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh
need_packages build package
if git rev-parse HEAD >/dev/null 2>&1; then # the time that files of packages have
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
fi
rm -f build/package/*.deb build/package/*.tar.gz
build_in build/package -DCMAKE_INSTALL_PREFIX=/usr -DCOPSE_TESTS=OFF -DCOPSE_PYTHON=ON "$@"
say "packing"
grep -q '^COPSE_MAINTAINER:STRING=.*\.invalid>' build/package/CMakeCache.txt &&
    say "the packages name no address: -DCOPSE_MAINTAINER='Name <address>' sets it"
(cd build/package && cpack) >build/package/cpack.log 2>&1 || { cat build/package/cpack.log >&2; fail 'cpack'; }
if [ "${SOURCE_DATE_EPOCH-}" ]; then
    name=$(cd build/package && ls copse_*.deb | sed 's/^copse_\([^_]*\)_.*/copse-\1/')
    git -c tar.umask=022 archive --format=tar --prefix="$name/" HEAD | gzip -9n >"build/package/$name.tar.gz"
fi
(cd build/package && sha256sum -- *.deb *.tar.gz >SHA256SUMS && cat SHA256SUMS)
