#!/bin/sh
# SPDX-License-Identifier: MIT
# wheel.sh: builds the Python wheel for Windows (after scripts/windows.sh). pip takes it for that system, its DLLs need no other
# files and export all functions that the package declares, and its command trains under wine. Python itself is not run:
# there is no Python for Windows here.
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v wine >/dev/null || { echo 'skipped: wine is not installed (see scripts/packages.txt)'; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$source/tests/tool/expect.sh"
"$source/bindings/python/make_wheel.sh" "$work/wheel" --windows >"$work/log" 2>&1 || {
    code=$?
    tail -n 20 "$work/log"
    exit $code
}
python3 -m pip install -q --no-deps --no-index --platform win_amd64 --only-binary :all: --target "$work/site" \
    "$work"/wheel/copse-*-py3-none-win_amd64.whl >"$work/log" 2>&1 || { cat "$work/log"; echo 'FAILED: pip'; exit 1; }
package=$work/site/copse
for file in libcopse.dll libcopse-conformance.dll copse.exe; do
    x86_64-w64-mingw32-objdump -p "$package/bin/$file" >"$work/$file.txt" || no "$file is not there"
    sed -n 's/.*DLL Name: //p' "$work/$file.txt" |
        grep -viE '^(advapi32|kernel32|msvcrt|shell32|user32|libcopse|libcopse-conformance)\.dll$' && no "$file needs this DLL, too"
done
for licence in cjson libpng1.6 libjpeg-turbo libz-mingw-w64; do
    [ -s "$package/share/doc/copse/licences/$licence" ] || no "no licence of $licence"
done
PYTHONPATH="$work/site" python3 - "$work" <<'END_OF_CHECK' || no 'declared and exported functions'
import re, sys
from pathlib import Path
work = Path(sys.argv[1])
table = (work / "site/copse/_ffi.py").read_text().split("_globals =")[1].split("_struct_unions =")[0]
declared = set(re.findall(r"b'(?:\\x[0-9A-F]{2}){4}(copse_[a-z0-9_]+)'", table))
exported = set()
for name in ("libcopse.dll", "libcopse-conformance.dll"):
    table = (work / f"{name}.txt").read_text().split("[Ordinal/Name Pointer]")[1].split("\n\n")[0]
    exported |= set(re.findall(r"\b(copse_\w+)", table))
assert len(declared) > 300, f"only {len(declared)} functions are declared"
assert declared <= exported, f"declared, but not exported: {sorted(declared - exported)}"
print(f"the DLLs export the {len(declared)} functions that the package declares")
END_OF_CHECK
export WINEPREFIX="$work/wine" WINEDEBUG=-all WINEDLLOVERRIDES='opencl=;vulkan-1='
unset DISPLAY
timeout 300 wine "$package/bin/copse.exe" train --devices host:0 --quiet --no-cache --epochs 2 >"$work/stdout" 2>"$work/log" &&
    grep 'held-out' "$work/stdout" || { cat "$work/stdout" "$work/log"; no 'the command of the wheel'; }
wineserver -k
exit $((failed > 0))
