#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation gate of the conformance tests.

Makes small faults in the kernels and in the files that they include, one at a time, and runs `copse conformance` with
each faulty kernel in the place of the library's: first mode launch, then the modes of --then for mutants that survive it,
each in every tier of --tiers in turn. A mutant that no case finds is a survivor. The mutants are the same for the same
seed. A survivor must have an entry in the file of explained survivors: file @ faulty line @ reason; reasons that begin
with "equivalent" say that no result can change."""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import faults

FAILED = ("FAIL", "CRASH", "TIMEOUT", "MISTRUSTED", "DEVICE_LOST")


def tiers_of(a):
    return [t for t in a.tiers.split(",") if t]


def run(a, modes, tier, kernel, path):
    """"killed", "survived", "stillborn" and the first failed case."""
    command = [a.tool, "conformance", *modes, "--device", a.device, "--tier", tier, "--kernel", path, "--op", kernel,
               "--json", "--seconds", "0", "--deadline", f"{a.deadline:g}"]
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
        began = time.monotonic()
        try:
            for line in child.stdout:
                event = json.loads(line) if line.startswith("{") else {}
                if event.get("verdict") in FAILED:
                    if "build" in event.get("text", "") or "compil" in event.get("text", ""):
                        return "stillborn", event["text"]
                    return "killed", f"{event.get('mode')}/{event.get('op')}/{event.get('name')}: {event['verdict']}"
                if time.monotonic() - began > a.limit:
                    return "survived", f"not finished after {a.limit:g} s"
            if child.wait() == 0:
                return "survived", ""
            errors.seek(0)
            text = errors.read()
            return ("survived" if "none of the cases uses" in text else "stillborn"), text[:200]
        finally:
            child.terminate()  # the command ends its own children


def judge(a, folder, known, mutant):
    """The mutant, its verdict, the tier that found it, and by which case."""
    kernels = mutant.kernels[:a.most_kernels]
    stages = [(tier, modes) for tier in tiers_of(a) for modes in (a.modes, a.then) if modes]
    path, why = os.path.join(folder, f"{mutant.number}.cl"), ""
    with open(path, "w", encoding="utf-8") as f:
        f.write(mutant.text_in(kernels[0]))
    for tier, modes in stages:
        if known.get(mutant.key) and (tier, modes) != stages[0]:
            break  # later stages are long, and the entry says that they find nothing
        for kernel in kernels:
            with open(path, "w", encoding="utf-8") as f:
                f.write(mutant.text_in(kernel))
            verdict, why = run(a, modes.split(","), tier, kernel, path)
            if verdict == "stillborn":
                return mutant, verdict, "", why
            if verdict == "killed":
                return mutant, verdict, tier, why
    return mutant, "survived", "", why


def explained(path):
    known = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            parts = [p.strip() for p in line.split("@")]
            if len(parts) == 3 and not line.startswith("#"):
                known[(parts[0], parts[1])] = parts[2]
    return known


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def report(a, known, results):
    """Print the scores; True if they are high enough."""
    alive = [r for r in results if r[1] != "stillborn"]
    survivors = [r for r in results if r[1] == "survived"]
    equivalent = [r for r in survivors if known.get(r[0].key, "").startswith("equivalent")]
    unexplained = [r for r in survivors if r[0].key not in known]
    print(f"{len(alive)} mutants on {a.device}, seed {a.seed}; {len(results) - len(alive)} more do not compile; "
          f"{len(survivors)} survive, {len(equivalent)} of them are equivalent, {len(unexplained)} are not explained")
    is_enough, found = not (a.strict and unexplained), 0
    least = [float(x) for x in a.least.split(",")] if a.least else []
    for i, tier in enumerate(tiers_of(a)):
        found += sum(r[2] == tier for r in alive)
        score = percent(found, len(alive) - len(equivalent))
        print(f"tier {tier}: {found} found, {percent(found, len(alive)):.1f} % of all, {score:.1f} % of those that are not "
              f"equivalent")
        is_enough = is_enough and (i >= len(least) or score >= least[i])
    return is_enough


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", help="the command copse")
    p.add_argument("--kernels", default="kernels", help="folder of the kernels' sources")
    p.add_argument("--device", default="opencl:0")
    p.add_argument("--tiers", default="quick", help="tiers in turn, separated by commas")
    p.add_argument("--modes", default="launch", help="modes, separated by commas")
    p.add_argument("--then", default="", help="modes for mutants that survive these")
    p.add_argument("--strict", action="store_true", help="exit code 1 for a survivor that is not explained")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--per-kernel", type=int, default=8, help="mutants of each kernel and each file that kernels include")
    p.add_argument("--most-kernels", type=int, default=3, help="kernels that a mutant of an included file is tried in")
    p.add_argument("--only", default="", help="kernels or included files, separated by commas")
    p.add_argument("--what", default="", help="only mutants with this text in their description: BARRIER")
    p.add_argument("--least", default="", help="score in percent of each tier below which the exit code is 1")
    p.add_argument("--survivors", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "survivors.txt"))
    p.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    p.add_argument("--list", action="store_true", help="print the mutants, run none")
    p.add_argument("--limit", type=float, default=600.0, help="seconds for a run of a mutant")
    p.add_argument("--deadline", type=float, default=120.0, help="seconds for a case; a busy machine is no fault")
    a = p.parse_args()
    known = explained(a.survivors)
    mutants = faults.pick(a.kernels, a.only.split(",") if a.only else None, a.what, a.seed, a.per_kernel,
                          a.device.startswith("opencl"))
    if a.list:
        for m in mutants:
            print(f"{m.key[0]} @ {m.key[1]} @ line {m.label}, in {', '.join(m.kernels[:a.most_kernels])}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("COPSE_MUTATION_CACHE", folder)
        os.environ["XDG_CACHE_HOME"] = os.environ["COPSE_MUTATION_CACHE"]  # faulty kernels stay out of the user's cache
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            results = []
            for mutant, verdict, found_by, why in pool.map(lambda m: judge(a, folder, known, m), mutants):
                results.append((mutant, verdict, found_by, why))
                reason = known.get(mutant.key, "NOT EXPLAINED") if verdict == "survived" else f"{found_by} {why}".strip()
                print(f"{verdict}: {mutant.key[0]} @ {mutant.key[1]} @ {reason} (line {mutant.label})", flush=True)
    return 0 if report(a, known, results) else 1


if __name__ == "__main__":
    sys.exit(main())
