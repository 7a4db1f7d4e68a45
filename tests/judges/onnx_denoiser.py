# SPDX-License-Identifier: MIT
"""onnx_denoiser.py DENOISER: the file of examples/apps/denoiser in onnxruntime.

The program trains for seconds and denoises a picture by its file. onnxruntime computes the same file: pixels may differ by one
of 65,535 steps, to which the program rounds them. Tiles of the picture are what the tile alone gives. Exit code 0; 1; 77: skipped.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with onnxruntime and numpy in COPSE_ONNX_PYTHON")
    sys.exit(77)

SIDE, BORDER, MOST = 64, 8, 65535


def read_pgm(path):
    with open(path, "rb") as f:
        kind, size, most, pixels = f.read().split(b"\n", 3)
    assert kind == b"P5" and int(most) == MOST, path
    width, height = map(int, size.split())
    return np.frombuffer(pixels, ">u2").reshape(height, width).astype(int)


def write_pgm(path, x):
    with open(path, "wb") as f:
        f.write(b"P5\n%d %d\n%d\n" % (*x.shape[::-1], MOST) + x.astype(">u2").tobytes())


def psnr(x, clean):
    return -10 * np.log10(np.square((x - clean) / MOST).mean())


def main():
    program = sys.argv[1]
    wrong = 0

    def run(*arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        if done.returncode and "writes no ONNX files" in done.stderr:
            print("skipped: this build writes no ONNX files")
            sys.exit(77)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check(what, is_right):
        nonlocal wrong
        wrong += not is_right
        print(f"{'pass' if is_right else 'FAIL'}  {what}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run("model.onnx", "--epochs", "2", "--patches", "64", "--batch", "4")
        run("--make", "clean.pgm", "noisy.pgm", "--seed", "5")
        run("--apply", "model.onnx", "noisy.pgm", "out.pgm")
        clean, noisy, out = map(read_pgm, ("clean.pgm", "noisy.pgm", "out.pgm"))
        gain = psnr(out, clean) - psnr(noisy, clean)
        check(f"a picture of its own: gain {gain:.2f} dB", gain > 4)
        session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
        for at in (0, 192):
            tile = noisy[at:at + SIDE, at:at + SIDE]
            write_pgm("tile.pgm", tile)
            run("--apply", "model.onnx", "tile.pgm", "tile_out.pgm")
            got = read_pgm("tile_out.pgm")
            want = session.run(None, {"x": (tile / MOST).astype(np.float32)[None, :, :, None]})[0][0, :, :, 0]
            want = np.clip(want, 0, 1) * MOST
            check(f"the tile at {at}: largest difference from onnxruntime {abs(got - want).max():.2f} of {MOST}",
                  abs(got - want).max() <= 1 and want.std() > 0.02 * MOST)
            inner = slice(0, SIDE - BORDER) if at == 0 else slice(BORDER, SIDE)
            check(f"the tile at {at} is in the picture", (out[at:at + SIDE, at:at + SIDE][inner, inner] == got[inner, inner]).all())
    print(f"onnxruntime {onnxruntime.__version__}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
