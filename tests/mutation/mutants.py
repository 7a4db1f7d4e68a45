#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation gate of the conformance tests.

Makes small faults in the kernels, one at a time, and runs `copse conformance` with each faulty kernel in the place of
the library's. A fault that no case finds is a survivor. The mutants are the same for the same seed. A survivor must have
an entry in the file of explained survivors: kernel @ faulty line @ reason."""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

PAIRS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), (" % ", " / "), (" && ", " || "),
         (" || ", " && "), (" += ", " = "), ("MIN(", "MAX("), ("MAX(", "MIN("), ("min(", "max("), ("fabs(", "("),
         (" >> ", " << "), (" << ", " >> "), (" ^ ", " | "), (" & ", " | ")]
DECLARATION = re.compile(r"\s*(#include|GROUP\(|SPEC\(|PARAMS\(|uint h0|/\*|\*|#pragma|KERNEL\d)|.*GROUP_ARRAY")


def first_argument(code, start):
    depth = 0
    for i in range(start, len(code)):
        if code[i] == "," and depth == 0:
            return code[start:i]
        depth += (code[i] == "(") - (code[i] == ")")
        if depth < 0:
            break
    return ""


def mutations(text):
    """(line number, what, line) for every mutation of a kernel's body."""
    out, is_comment, is_params = [], False, False
    for number, line in enumerate(text.split("\n")):
        code = line.split("/*")[0] if not is_comment else ""
        starts, ends = line.rfind("/*"), line.rfind("*/")
        is_comment = (is_comment or starts >= 0) and not ends > starts
        is_params = "PARAMS(" in line or (is_params and ")" not in line)
        if not code.strip() or is_params or DECLARATION.match(code):
            continue

        def add(at, old, new):
            out.append((number, f"{old.strip()} -> {new.strip() or 'nothing'} at {at}", line[:at] + new + line[at + len(old):]))

        for old, new in PAIRS:
            for m in re.finditer(re.escape(old), code):
                if not (old.endswith("(") and m.start() and (code[m.start() - 1].isalnum() or code[m.start() - 1] == "_")):
                    add(m.start(), old, new)
        for m in re.finditer(r"(?<![\w.])(\d+)u?(?![\w.])", code):
            if "unroll" not in code:
                add(m.start(), m.group(0), f"{int(m.group(1)) + 1}" + ("u" if m.group(0).endswith("u") else ""))
        for m in re.finditer(r"(?<![\w.])(\d+\.\d*(?:e-?\d+)?)f", code):
            add(m.start(), m.group(0), "1.0f" if float(m.group(1)) == 0.0 else "0.0f")
        for m in re.finditer(r"BARRIER\(\);", code):
            add(m.start(), m.group(0), " " * 10)
        for m in re.finditer(r"\bNAN_", code):
            add(m.start(), m.group(0), "0.0f")
        for m in re.finditer(r"-?\bINF\b", code):
            add(m.start(), m.group(0), "1.0f")
        for m in re.finditer(r"IS_NAN\(", code):
            add(m.start(), m.group(0), "0.0f != (")
        for m in re.finditer(r"\bp\.\w+", code):
            add(m.start(), m.group(0), f"({m.group(0)} + 1)")
        for m in re.finditer(r"SELECT\(", code):
            condition = first_argument(code, m.end())
            if condition:
                add(m.end(), condition, f"!({condition})")
    return out


def pick(all_of_them, kernel, seed, most):
    def order(m):
        return hashlib.sha256(f"{seed}/{kernel}/{m[0]}/{m[1]}".encode()).digest()
    return sorted(sorted(all_of_them, key=order)[:most], key=lambda m: (m[0], m[1]))


def run(tool, device, modes, tier, kernel, path, limit):
    """"killed", "survived", "stillborn" and the first failed case."""
    command = [tool, "conformance", *modes, "--device", device, "--tier", tier, "--kernel", path, "--op", kernel, "--json",
               "--seconds", "0", "--deadline", "20"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began, first = time.monotonic(), ""
    try:
        for line in child.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("verdict") in ("FAIL", "CRASH", "TIMEOUT", "MISTRUSTED", "DEVICE_LOST"):
                if "build" in event.get("text", "") or "compil" in event.get("text", ""):
                    return "stillborn", event["text"]
                first = f"{event.get('mode')}/{event.get('op')}/{event.get('name')}: {event['verdict']}"
                return "killed", first
            if time.monotonic() - began > limit:
                return "survived", f"not finished after {limit} s"
        code = child.wait()
        return ("survived", "") if code == 0 else ("stillborn", child.stderr.read()[:200])
    finally:
        child.terminate()  # the command ends its own children
        child.stdout.close()
        child.stderr.close()
        child.wait()


def explained(path):
    known = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            parts = [p.strip() for p in line.split("@")]
            if len(parts) == 3 and not line.startswith("#"):
                known[(parts[0], parts[1])] = parts[2]
    return known


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", help="the command copse")
    p.add_argument("--kernels", default="kernels", help="folder of the kernels' sources")
    p.add_argument("--device", default="opencl:0")
    p.add_argument("--tier", default="quick")
    p.add_argument("--modes", default="launch", help="modes, separated by commas")
    p.add_argument("--then", default="", help="modes for mutants that survive these")
    p.add_argument("--strict", action="store_true", help="exit code 1 for a survivor that is not explained")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--per-kernel", type=int, default=8, help="mutants of each kernel")
    p.add_argument("--only", default="", help="kernels, separated by commas")
    p.add_argument("--least", type=float, default=0.0, help="score in percent below which the exit code is 1")
    p.add_argument("--survivors", default=os.path.join(os.path.dirname(__file__), "survivors.txt"))
    p.add_argument("--list", action="store_true", help="print the mutants, run none")
    p.add_argument("--limit", type=float, default=120.0, help="seconds for a mutant")
    a = p.parse_args()
    known = explained(a.survivors)
    score, unexplained = {"killed": 0, "survived": 0, "stillborn": 0}, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("COPSE_MUTATION_CACHE", folder)
        os.environ["XDG_CACHE_HOME"] = os.environ["COPSE_MUTATION_CACHE"]  # faulty kernels stay out of the user's cache
        for top, _, names in sorted(os.walk(a.kernels)):
            for name in sorted(names):
                kernel, ending = os.path.splitext(name)
                if ending != ".cl" or (a.only and kernel not in a.only.split(",")):
                    continue
                with open(os.path.join(top, name), encoding="utf-8") as f:
                    text = f.read()
                if text.startswith("/* only: opencl */") and not a.device.startswith("opencl"):
                    continue
                mine = {"killed": 0, "survived": 0, "stillborn": 0}
                for number, what, line in pick(mutations(text), kernel, a.seed, a.per_kernel):
                    label = f"{number + 1}: {what}"
                    if a.list:
                        print(f"{kernel} @ {line.strip()} @ line {label}")
                        continue
                    lines = text.split("\n")
                    lines[number] = line
                    path = os.path.join(folder, name)
                    with open(path, "w", encoding="utf-8") as f:
                        f.write("\n".join(lines))
                    verdict, why = run(a.tool, a.device, a.modes.split(","), a.tier, kernel, path, a.limit)
                    if verdict == "survived" and a.then and not known.get((kernel, line.strip())):
                        later, why = run(a.tool, a.device, a.then.split(","), a.tier, kernel, path, a.limit)
                        verdict = "killed" if later == "killed" else verdict  # no case may use the kernel there
                    mine[verdict] += 1
                    if verdict == "survived":
                        reason = known.get((kernel, line.strip()), "")
                        print(f"survivor: {kernel} @ {line.strip()} @ {reason or 'NOT EXPLAINED'} (line {label}) {why}",
                              flush=True)
                        if not reason:
                            unexplained.append((kernel, label))
                if not a.list:
                    print(f"{kernel:20} {mine['killed']} killed, {mine['survived']} survived, {mine['stillborn']} do not compile",
                          flush=True)
                for key in score:
                    score[key] += mine[key]
    if a.list:
        return 0
    count = score["killed"] + score["survived"]
    percent = 100.0 * score["killed"] / count if count else 0.0
    print(f"{count} mutants, {score['killed']} killed, {score['survived']} survived ({len(unexplained)} not explained), "
          f"{score['stillborn']} do not compile: score {percent:.1f} % in tier {a.tier} on {a.device}, seed {a.seed}")
    return 1 if percent < a.least or (a.strict and unexplained) else 0


if __name__ == "__main__":
    sys.exit(main())
