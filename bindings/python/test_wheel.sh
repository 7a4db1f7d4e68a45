#!/bin/sh
# SPDX-License-Identifier: MIT
# test_wheel.sh [WORK]: builds the wheel, installs it in an empty virtual environment, and there runs the Python examples of
# the pages as they are, then the tests of the package. Nothing of the source tree or of another build is used.
# Exit code 77: the package index cannot be reached.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
rm -rf "$work"
mkdir -p "$work/home" "$work/pages"
work=$(cd "$work" && pwd)
unset PYTHONPATH PYTHONHOME COPSE_LIBRARY COPSE_COMMAND COPSE_MODULES
log=$work/log

# environment NAME PACKAGE...: an empty virtual environment with packages of the index
environment() {
    name=$1
    shift
    { python3 -m venv "$work/$name" && "$work/$name/bin/pip" install -q "$@"; } >"$log" 2>&1 || {
        echo "skipped: $* cannot be installed from the package index: $(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-200)"
        exit 77
    }
}
"$here/make_wheel.sh" "$work/wheel" >"$log" 2>&1 || {
    code=$?
    [ $code = 77 ] && tail -n 1 "$log" || { cat "$log"; echo 'FAILED: the wheel cannot be built'; }
    exit $code
}
environment clean 'numpy>=1.22' 'cffi>=1.15'
"$work/clean/bin/pip" install -q --no-index "$work"/wheel/copse-*.whl >"$log" 2>&1 ||
    { cat "$log"; echo 'FAILED: the wheel cannot be installed'; exit 1; }
echo "installed $(basename "$work"/wheel/copse-*.whl)"
"$work/clean/bin/python" - "$work"/wheel/copse-*.whl <<'END' || { echo 'FAILED: the content of the wheel'; exit 1; }
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
libraries = [n for n in wheel.namelist() if n.startswith("copse/lib/") and not n.endswith("/")]
assert len({wheel.getinfo(n).CRC for n in libraries}) == len(libraries), f"a library is there twice: {libraries}"
assert "manylinux" in sys.argv[1] or sys.platform != "linux", "the wheel has no tag of manylinux"
about = wheel.read(next(n for n in wheel.namelist() if n.endswith("dist-info/METADATA"))).decode()
links = [link for link in re.findall(r"\]\(([^)]*)\)", about) if not link.startswith("http")]
assert not links, f"links that lead nowhere on the page of a package index: {links}"
assert "License-Expression: MIT" in about, about[:500]
END

# The examples, each in an empty folder: what they print, and the file that they save.
export HOME="$work/home" PYTHONDONTWRITEBYTECODE=1
unset XDG_CACHE_HOME
"$work/clean/bin/python" - "$here/../../README.md" "$here/README.md" "$work/pages" <<'END'
import re, sys
from pathlib import Path
for number, page in enumerate(sys.argv[1:-1], 1):
    blocks = re.findall(r"```python\n(.*?)```", Path(page).read_text(), flags=re.S)
    assert blocks, page + " has no Python example"
    for i, block in enumerate(blocks):
        assert len(block.splitlines()) <= 20, f"{page}: example {i + 1} has more than 20 lines"
        folder = Path(sys.argv[-1], f"page{number}-example{i + 1}")
        folder.mkdir()
        (folder / "example.py").write_text(block)
END
for folder in "$work"/pages/*; do
    (cd "$folder" && "$work/clean/bin/python" example.py) >"$log" 2>&1 ||
        { cat "$log"; echo "FAILED: an example of the pages, $(basename "$folder")"; exit 1; }
    sed 's/^/  /' "$log"
    if grep -q '@copse.function' "$folder/example.py"; then # it trains nothing, and prints a loss
        [ "$(cat "$log")" = 2.5 ] || { echo 'FAILED: the example of functions on replicas'; exit 1; }
        continue
    fi
    accuracy=$(grep -oE '[01]\.[0-9]+' "$log" | head -n 1)
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.97) }' || { echo "FAILED: accuracy $accuracy, not 0.97"; exit 1; }
    [ -s "$folder/digits.safetensors" ] || { echo 'FAILED: the example saves no model'; exit 1; }
    echo "example $(basename "$folder"): accuracy $accuracy on held-out digits"
done
# The pages that the command's help names.
pages=$("$work/clean/bin/copse" train --help | sed -n 's/^Pages: //p')
[ -s "$pages/optimizers.md" ] && case $pages in "$work"/*) ;; *) false ;; esac || { echo "FAILED: no pages in '$pages'"; exit 1; }
# Another process predicts with the model, by the command of the package, too.
model=$(grep -l '"network"' "$work"/pages/*/digits.safetensors | head -n 1)
digits=$("$work/clean/bin/python" -c 'import copse; print(copse.DIGITS)')
gzip -dc "$digits" | head -n 5 | cut -d, -f1-64 >"$work/rows.csv"
(cd "$work" && clean/bin/python -m copse predict "$model" rows.csv --devices host) >"$work/predicted" ||
    { echo 'FAILED: python -m copse predict'; exit 1; }
gzip -dc "$digits" | head -n 5 | cut -d, -f65 >"$work/labels"
tail -n +2 "$work/predicted" | cut -d, -f1 | diff - "$work/labels" >/dev/null ||
    { cat "$work/predicted"; echo 'FAILED: the model of the example predicts other digits'; exit 1; }

# The tests of the package. Some need further packages.
for package in mypy matplotlib scikit-learn pandas; do
    "$work/clean/bin/pip" install -q $package >"$log" 2>&1 || echo "skipped: tests that need $package, which cannot be installed"
done
cd "$work"
COPSE_DIGITS=$digits MPLBACKEND=Agg clean/bin/python -m unittest discover -v -s "$here/tests" >"$log" 2>&1 && code=0 || code=1
sed -n "s/.* \.\.\. skipped ['\"]\(.*\)['\"]$/skipped: \1/p" "$log" | sort -u
[ $code = 0 ] || { cat "$log"; exit 1; }
tail -n 4 "$log"
