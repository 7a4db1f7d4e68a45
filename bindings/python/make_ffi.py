# SPDX-License-Identifier: MIT
"""Makes copse/_ffi.py from the public headers: their declarations in the form that cffi loads without a C compiler.

usage: make_ffi.py COMPILER OUTPUT INCLUDE...
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cffi import FFI

# Headers of devices that the application lends: they need the headers of OpenCL and Vulkan.
LEFT_OUT = ["copse/device/opencl.h", "copse/device/vulkan.h"]
# Types of the standard headers that cffi knows itself.
STANDARD = ["stdbool.h", "stddef.h", "stdint.h", "stdio.h", "float.h", "limits.h"]


def declarations(compiler: str, folders: list[Path]) -> str:
    """The text of the headers after the preprocessor, without the standard headers."""
    with tempfile.TemporaryDirectory() as empty:
        for name in STANDARD:
            Path(empty, name).touch()
        found = sorted({h.relative_to(f).as_posix() for f in folders for h in f.glob("copse/**/*.h")} - set(LEFT_OUT))
        source = "".join(f'#include "{h}"\n' for h in found)
        text = subprocess.run(
            [compiler, "-E", "-P", "-nostdinc", f"-I{empty}", *(f"-I{f}" for f in folders),
             "-D__attribute__(x)=", "-DUINT32_MAX=4294967295u", "-x", "c", "-"],
            input=source, capture_output=True, text=True, check=True).stdout
    # Functions with a body are of no use without a compiler.
    return re.sub(r"static\s+inline[^;{]*\{.*?\n\}", "", text, flags=re.S)


def constants(folders: list[Path]) -> dict[str, int]:
    """Whole numbers that the headers define."""
    found = {}
    for path in sorted(p for f in folders for p in f.glob("copse/**/*.h")):
        for name, value in re.findall(r"^#define (COPSE_[A-Z_]+) +(\d+|UINT32_MAX|UINT64_MAX)\s*$", path.read_text(),
                                      flags=re.M):
            found[name] = {"UINT32_MAX": 2**32 - 1, "UINT64_MAX": 2**64 - 1}.get(value) or int(value)
    return found


def main() -> None:
    compiler, output, folders = sys.argv[1], Path(sys.argv[2]), [Path(a) for a in sys.argv[3:]]
    text = declarations(compiler, folders)
    numbers = constants(folders)
    text += "".join(f"\n#define {k} {v}" for k, v in numbers.items())
    ffi = FFI()
    ffi.set_source("copse._ffi", None)
    ffi.cdef(text)
    ffi.emit_python_code(str(output))
    with output.open("a") as file: # of the library that these declarations are for
        file.write(f'SOVERSION = "{numbers["COPSE_VERSION_MAJOR"]}.{numbers["COPSE_VERSION_MINOR"]}"\n')


if __name__ == "__main__":
    main()
