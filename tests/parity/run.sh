#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares Copse with TensorFlow's tf.distribute: parity.py with the first Python that has TensorFlow, of
# $PARITY_PYTHON, FOLDER/parity-venv and python3. Without one it skips. Only with --install it makes that venv,
# and installs tensorflow-cpu there with pip.
# usage: run.sh [--install] PROGRAM FOLDER [WORD...]
#        PROGRAM: tests/parity of the build in FOLDER; WORD: only the cases whose name has one
set -u
install=
[ "${1-}" = --install ] && { install=1; shift; }
[ $# -ge 2 ] || { sed -n 's/^# usage: //p' "$0" >&2; exit 2; }
program=$1
folder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd) || exit 1
venv=$folder/parity-venv

if [ "$install" ]; then
    python3 -m venv "$venv" || { echo "install the Debian package python3-venv" >&2; exit 1; }
    "$venv/bin/pip" install -q tensorflow-cpu || exit 1
fi
[ -x "$program" ] || { echo "no program $program: build it first" >&2; exit 1; }

for python in ${PARITY_PYTHON:+"$PARITY_PYTHON"} "$venv/bin/python3" python3; do
    if PYTHONDONTWRITEBYTECODE=1 "$python" -c \
        'import importlib.util as u, sys; sys.exit(not u.find_spec("tensorflow"))' 2>/dev/null; then
        PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/parity.py" "$program" "$@"
    fi
done
echo "skipped: no Python here has TensorFlow: set PARITY_PYTHON, or install it with" \
    "tests/parity/run.sh --install $program $folder"
exit 77
