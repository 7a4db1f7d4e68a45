# SPDX-License-Identifier: MIT
"""Compiled kernels: a fault that leaves the program of a kernel as it is, is no fault of that kernel."""
import os
import re
import subprocess

# Specialisation constants are unknown to the compiler, so that equal programs are equal for all of their values. The
# bounds of arrays take their values in turn.
CL_SPEC = "#define SPEC(i, NAME) extern __constant int NAME;"
BOUNDS = re.compile(r"SPEC\((\d), (LOG_VECTORS|VECTORS)\)")
BOUND_VALUES = (0, 1, 2)
CL_GROUPS = ((8, 4), (64, 2))
CLANG = ("clang-14", "clang-15", "clang-16", "clang")


def compiled(command, text):
    """The output of a compiler for a text; None if it fails."""
    try:
        done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def find_clang():
    for name in CLANG:
        if compiled([name, "--version"], ""):
            return name
    return None


class Programs:
    """Whether faulty kernels compile to the programs of the kernels without the fault."""

    def __init__(self, sources, is_opencl):
        self.sources, self.is_opencl, self.right, self.known = sources, is_opencl, {}, {}
        self.clang = find_clang() if is_opencl else None

    def cl(self, text):
        """LLVM IR of a kernel, for two group sizes."""
        prelude = re.sub(r"^#define SPEC\(.*$", CL_SPEC, self.sources.texts["prelude.clh"], flags=re.M)
        values = BOUND_VALUES if BOUNDS.search(text) else (0,)
        for value in values:
            bounded = BOUNDS.sub(lambda m, v=value: f"enum {{ {m.group(2)} = {v} }};", text)
            for x, y in CL_GROUPS:
                yield compiled([self.clang, "-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-O2", "-S", "-emit-llvm", "-w",
                                f"-DGROUP_X={x}", f"-DGROUP_Y={y}", "-o", "-", "-"], prelude + bounded)

    def glsl(self, text):
        """Optimized SPIR-V of a kernel."""
        with self.sources.scratch() as folder:
            source, raw = os.path.join(folder, "k.comp"), os.path.join(folder, "k.spv")
            with open(source, "w", encoding="utf-8") as f:
                f.write("#version 450\n" + self.sources.texts["../shaders/prelude.glsl"] + text)
            done = compiled(["glslangValidator", "-V", "--target-env", "vulkan1.1", "-S", "comp", "-o", raw, source], "")
            yield done and compiled(["spirv-opt", "-O", "--strip-debug", raw, "-o", "-"], "")

    def is_same(self, kernel, mutant):
        """Whether the mutant leaves this kernel as it is."""
        key = (kernel, mutant)
        if key not in self.known:
            self.known[key] = self.compare(kernel, mutant)
        return self.known[key]

    def compare(self, kernel, mutant):
        if self.is_opencl and not self.clang:
            return False
        compile_text = self.cl if self.is_opencl else self.glsl
        faulty = self.sources.expand(self.sources.complete(self.sources.of_kernel[kernel], mutant))
        if kernel not in self.right:
            self.right[kernel] = list(compile_text(self.sources.expand(self.sources.texts[self.sources.of_kernel[kernel]])))
        return all(a is not None and a == b for a, b in zip(self.right[kernel], compile_text(faulty)))
