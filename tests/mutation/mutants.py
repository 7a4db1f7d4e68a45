#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation gate of the conformance tests.

Makes small faults in the kernels and in the files that they include, one at a time, and runs `copse conformance` with
each faulty kernel in the place of the library's, in each stage (tier and modes) of --stages in turn until one finds it. A
mutant that no stage finds is a survivor. Mutants that compile to the program of the kernel without the fault do not count.
The mutants are the same for the same seed. With --results FILE, verdicts are kept in lines of JSON: a later run with the
same file goes on where this one ended. A survivor must have an entry in the file of explained survivors: file @ faulty
line @ reason; reasons that begin with "equivalent" say that no result can change."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import sys
import tempfile
import threading
import time

import faults
import judge
import programs


class Results:
    """Verdicts by device, stage and faulty text, in lines of JSON."""

    def __init__(self, path, device):
        self.path, self.device, self.rows, self.lock = path, device, {}, threading.Lock()
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    row = json.loads(line)
                    self.rows[row["key"]] = row

    def key(self, stage, mutant):
        text = "\0".join([self.device, stage] + [k + mutant.text_in(k) for k in mutant.kernels])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def put(self, key, stage, mutant, verdict, why):
        row = {"key": key, "device": self.device, "stage": stage, "verdict": verdict, "file": mutant.key[0],
               "line": mutant.key[1], "what": mutant.label, "why": why}
        with self.lock:
            self.rows[key] = row
            if self.path:
                with open(self.path, "a", encoding="utf-8") as f:
                    f.write(json.dumps(row) + "\n")
        return row


class Gate:
    def __init__(self, a, folder):
        is_opencl = not a.device.startswith("vulkan")
        self.sources = faults.Sources(a.kernels, is_opencl)
        self.mutants = faults.pick(self.sources, a.only.split(",") if a.only else None, a.what, a.seed, a.per_kernel)
        self.stages = [judge.Stage(s) for s in a.stages.split(",")]
        self.known, self.results = explained(a.survivors), Results(a.results, a.device)
        self.programs = programs.Programs(self.sources, is_opencl)
        self.again = set(filter(None, a.again.split(",")))
        self.end = time.monotonic() + a.seconds if a.seconds else float("inf")
        cache = os.environ.get("COPSE_MUTATION_CACHE") or folder
        self.bench = judge.Bench(a.tool, a.device, self.sources, folder, cache)

    def take(self, mutant):
        """The verdict on a mutant, the tier that found it, and why."""
        verdict, why = "survived", ""
        for stage in self.stages:
            key = self.results.key(stage.text, mutant)
            row = self.results.rows.get(key)
            if not row or row["verdict"] in self.again:
                if time.monotonic() > self.end:
                    return mutant, "left", "", ""
                row = self.results.put(key, stage.text, mutant, *judge.judge(self.bench, self.programs, stage, mutant))
            verdict, why = row["verdict"], row["why"]
            if verdict != "survived":
                return mutant, verdict, stage.tier if verdict == "found" else "", why
            if self.known.get(mutant.key, "").startswith("equivalent"):
                break  # later stages are long, and the entry says that they find nothing
        return mutant, verdict, "", why

    def tiers(self):
        return list(dict.fromkeys(s.tier for s in self.stages))


def explained(path):
    known = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            parts = [" ".join(p.split()) for p in line.split(" @ ")]
            if len(parts) == 3 and not line.startswith("#"):
                known[(parts[0], parts[1])] = parts[2]
    return known


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def report(a, gate, results):
    """Print the scores; True if they are high enough."""
    of = {v: [r for r in results if r[1] == v] for v in ("found", "survived", "stillborn", "same", "undecided", "left")}
    equivalent = [r for r in of["survived"] if gate.known.get(r[0].key, "").startswith("equivalent")]
    unexplained = [r for r in of["survived"] if r[0].key not in gate.known]
    whole = len(of["found"]) + len(of["survived"]) - len(equivalent)
    print(f"{whole} mutants on {a.device}, seed {a.seed}. Not counted: {len(of['stillborn'])} do not compile, "
          f"{len(of['same'])} compile to the same program, {len(equivalent)} are equivalent, {len(of['undecided'])} are "
          f"undecided, {len(of['left'])} were not reached")
    print(f"{len(of['survived'])} survive, {len(unexplained)} of them are not explained")
    is_enough, found = not (a.strict and (unexplained or of["left"] or of["undecided"])), 0
    least = [float(x) for x in a.least.split(",")] if a.least else []
    for i, tier in enumerate(gate.tiers()):
        found += sum(r[2] == tier for r in of["found"])
        score = percent(found, whole)
        print(f"tier {tier}: {found} of {whole} found, {score:.1f} %")
        is_enough = is_enough and (i >= len(least) or score >= least[i])
    return is_enough


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", help="the command copse")
    p.add_argument("--kernels", default="kernels", help="folder of the kernels' sources")
    p.add_argument("--device", default="opencl:0", help="opencl:0, vulkan:0, or oclgrind")
    p.add_argument("--stages", default="quick:launch", help="tiers and modes in turn: quick:launch,quick:run+grad")
    p.add_argument("--strict", action="store_true", help="exit code 1 for a survivor that is not explained")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--per-kernel", type=int, default=8, help="mutants of each kernel and each file that kernels include")
    p.add_argument("--only", default="", help="kernels or included files, separated by commas")
    p.add_argument("--what", default="", help="only mutants with this text in their description: BARRIER")
    p.add_argument("--least", default="", help="score in percent of each tier below which the exit code is 1")
    p.add_argument("--survivors", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "survivors.txt"))
    p.add_argument("--results", default="", help="file of the verdicts")
    p.add_argument("--again", default="", help="verdicts of the file that are not used: survived,undecided")
    p.add_argument("--seconds", type=float, default=0.0, help="begin no run after this time [0: no limit]")
    p.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    p.add_argument("--list", action="store_true", help="print the mutants, run none")
    return p.parse_args()


def main():
    a = options()
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(a, folder)
        if a.list:
            for m in gate.mutants:
                print(f"{m.key[0]} @ {m.key[1]} @ line {m.label}, in {', '.join(m.kernels)}")
            return 0
        results = []
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for r in pool.map(gate.take, gate.mutants):
                mutant, verdict, tier, why = r
                results.append(r)
                reason = gate.known.get(mutant.key, "NOT EXPLAINED") if verdict == "survived" else f"{tier} {why}".strip()
                if verdict != "left":
                    print(f"{verdict}: {mutant.key[0]} @ {mutant.key[1]} @ {reason} (line {mutant.label})", flush=True)
        return 0 if report(a, gate, results) else 1


if __name__ == "__main__":
    sys.exit(main())
