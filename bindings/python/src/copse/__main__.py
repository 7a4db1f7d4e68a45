# SPDX-License-Identifier: MIT
"""`python -m copse ...` is the command `copse ...` of this package."""
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


def main() -> None:
    inside = Path(__file__).resolve().parent / "bin" / ("copse.exe" if sys.platform == "win32" else "copse")
    command = os.environ.get("COPSE_COMMAND") or (str(inside) if inside.exists() else shutil.which("copse"))
    if not command:
        sys.exit("copse: the command is not in this package and not in PATH")
    sys.stdout.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and ignored signals stay ignored in the command
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if sys.platform == "win32":  # os.execv starts a second process there, and ends this one at once
        sys.exit(subprocess.call([command, *sys.argv[1:]]))
    os.execv(command, ["copse", *sys.argv[1:]])


if __name__ == "__main__":
    main()
