# SPDX-License-Identifier: MIT
"""Whether conformance finds a faulty kernel. A case that fails counts only if the kernel without the fault passes it."""
import json
import os
import re
import subprocess
import threading

import process

FACTOR = 10.0  # a case takes too long at this many times the longest case of the kernel without the fault
LEAST = 20.0  # ... and at this many seconds of the processor
MOST_KERNELS = 6  # that a mutant of an included file is tried in
ICD = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
FUNCTIONS = {"unary": "unary.def", "unary_grad": "unary.def", "binary": "binary.def", "binary_grad": "binary.def",
             "compare_i32": "binary.def"}


class Stage:
    """quick:run+grad = tier and modes."""

    def __init__(self, text):
        self.text, (self.tier, modes) = text, text.split(":")
        self.modes = modes.split("+")


class Bench:
    """The command, the device, and what is known of the kernels without faults."""

    def __init__(self, tool, device, sources, folder, cache):
        self.tool, self.sources, self.folder = tool, sources, folder
        self.is_oclgrind = device == "oclgrind"
        self.device = "opencl:0" if self.is_oclgrind else device
        self.right, self.of_modes, self.lock, self.count = {}, {}, threading.Lock(), 0
        self.env = dict(os.environ, XDG_CACHE_HOME=cache,  # faulty kernels stay out of the user's cache
                        COPSE_DISABLE="vulkan" if self.device.startswith("opencl") else "opencl")
        if self.is_oclgrind:
            vendors = os.path.join(folder, "vendors")
            os.makedirs(vendors, exist_ok=True)
            with open(os.path.join(vendors, "oclgrind.icd"), "w", encoding="ascii") as f:
                f.write(ICD + "\n")
            self.env.update(OCL_ICD_VENDORS=vendors + "/", OCLGRIND_DATA_RACES="1", OCLGRIND_NUM_THREADS="1")

    def name(self, ending):
        with self.lock:
            self.count += 1
            return os.path.join(self.folder, f"{self.count}.{ending}")

    def ops(self, kernel, modes):
        """The ops whose cases can use the kernel, where only some can; else none."""
        if modes == ["launch"]:
            return []
        path = next(n for n in self.sources.texts if os.path.basename(n) == FUNCTIONS[kernel])
        compares, others = (re.findall(rf"^(?:{kind})\((\w+)", self.sources.texts[path], re.M)
                            for kind in ("COMPARE", "UNARY|SCALED|BINARY"))
        names = compares if kernel == "compare_i32" else others + (compares if kernel == "binary" else [])
        return ["--ops", ",".join(sorted(set(names) & self.listed(tuple(modes))))]

    def listed(self, modes):
        """The ops that have cases in these modes."""
        if modes not in self.of_modes:
            done = subprocess.run([self.tool, "conformance", "list", *modes, "--device", self.device, "--json"], env=self.env,
                                  stdout=subprocess.PIPE, check=True)
            events = [json.loads(line) for line in done.stdout.split(b"\n") if line.startswith(b"{")]
            self.of_modes[modes] = {e["op"] for e in events if e.get("event") == "plan"}
        return self.of_modes[modes]

    def run(self, stage, kernel, text, limit, case=()):
        path, log = self.name("cl"), self.name("log") if self.is_oclgrind else None
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        modes, rest = (stage.modes, self.ops(kernel, stage.modes)) if not case else ([case[0]], ["--ops", case[1], "--case", case[2]])
        command = [self.tool, "conformance", *modes, "--no-isolation", "--device", self.device, "--tier", stage.tier,
                   "--kernel", path, "--op", kernel, "--json", "--seconds", "0", *rest]
        env = dict(self.env, OCLGRIND_LOG=log) if log else self.env
        try:
            return process.run(command, env, limit, log)
        finally:
            for name in (path, log):
                if name and os.path.exists(name):
                    os.unlink(name)

    def right_one(self, stage, kernel, case=()):
        """The outcome of the kernel without a fault, in one case or in all."""
        key = (stage.text, kernel, case)
        if key not in self.right:
            self.right[key] = self.run(stage, kernel, self.sources.texts[self.sources.of_kernel[kernel]], 1e9, case)
        return self.right[key]

    def try_in(self, stage, kernel, mutant):
        """"found", "survived", "stillborn" or "undecided", and why. Modes of ops take kernels of one op each only: mode
        launch covers the others."""
        if stage.modes != ["launch"] and kernel not in FUNCTIONS:
            return "survived", ""
        text, limit = mutant.text_in(kernel), LEAST
        while True:
            out = self.run(stage, kernel, text, limit)
            if out.how in ("passed", "unused"):
                return "survived", ""
            if out.how == "refused":
                return "stillborn", out.text
            why = f"{out.mode}/{out.op}/{out.case}: {out.text}" if out.case else f"{out.how}: {out.text}"
            if out.how == "error" or (out.how == "crashed" and out.text == "SIGKILL"): # bad arguments, no memory
                return "undecided", why
            if out.how == "crashed" and not self.is_oclgrind:
                return "found", why
            right = self.right_one(stage, kernel, (out.mode, out.op, out.case) if out.how == "failed" else ())
            if right.how != "passed":
                return "undecided", f"{why}; without the fault: {right.how} {right.text}"
            if out.how != "slow" or limit >= FACTOR * right.longest:
                return "found", why
            limit = FACTOR * right.longest


def judge(bench, programs, stage, mutant):
    """As Bench.try_in, in each kernel in turn whose program has the fault; "same": no program has it."""
    is_shared, tried = len(mutant.kernels) > 1, 0
    for kernel in mutant.kernels:
        if tried == MOST_KERNELS or (is_shared and programs.is_same(kernel, mutant)):
            continue
        verdict, why = bench.try_in(stage, kernel, mutant)
        if verdict != "survived":
            return verdict, why
        tried += 1
    is_same = tried == 0 if is_shared else programs.is_same(mutant.kernels[0], mutant)
    return ("same", "the programs are the same") if is_same else ("survived", "")
