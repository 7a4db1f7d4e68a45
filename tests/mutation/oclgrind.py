# SPDX-License-Identifier: MIT
"""Mutants under oclgrind, which finds races, barriers that not all invocations reach, and accesses out of bounds."""
import os

ICD = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"


def is_asked(a):
    return a.oclgrind != ""


def is_installed():
    return os.path.exists(ICD)


def environment(folder, log):
    vendors = os.path.join(folder, "vendors")
    os.makedirs(vendors, exist_ok=True)
    with open(os.path.join(vendors, "oclgrind.icd"), "w", encoding="utf-8") as f:
        f.write(ICD + "\n")
    return {**os.environ, "OCL_ICD_VENDORS": vendors + "/", "COPSE_DISABLE": "vulkan", "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_CHECK_API": "1", "OCLGRIND_NUM_THREADS": "1", "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_LOG": log,
            "XDG_CACHE_HOME": os.path.join(folder, "oclgrind")}


def finds(a, folder, kernel, path, cases, run):
    """The first line of oclgrind's report or the failed case; "" = none."""
    for case in cases:
        log = path + ".log"
        if os.path.exists(log):
            os.remove(log)
        verdict, why = run(a, ["launch"], "standard", kernel, path, ["--case", case, "--no-isolation"],
                           environment(folder, log))
        if verdict == "killed":
            return why
        if os.path.exists(log) and os.path.getsize(log) > 0:
            with open(log, encoding="utf-8", errors="replace") as f:
                return f"launch/{kernel}/{case}: " + f.read().strip().split("\n")[0]
    return ""
