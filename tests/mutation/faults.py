# SPDX-License-Identifier: MIT
"""Small faults in the texts of kernels: comparisons, operators, constants, parameters, conditions, barriers."""
import hashlib
import os
import re
import tempfile

PAIRS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), (" % ", " / "), (" && ", " || "),
         (" || ", " && "), (" += ", " = "), ("MIN(", "MAX("), ("MAX(", "MIN("), ("min(", "max("), ("fabs(", "("),
         (" >> ", " << "), (" << ", " >> "), (" ^ ", " | "), (" & ", " | ")]
DECLARATION = re.compile(r"\s*(#include|#extension|layout\(|GROUP\(|SPEC\(|PARAMS\(|uint h0|/\*|\*|#pragma|KERNEL\d|#define (float|int|uint|bool"
                         r"|INF|NAN_|AS_|IS_|TO_)|#undef)|.*GROUP_ARRAY")
# The columns of the tables of functions that a kernel computes; the others are the host's.
COLUMNS = {("unary.def", "unary"): (2,), ("unary.def", "unary_grad"): (3,),
           ("unary.def", "unary_wide"): (2,), ("unary.def", "unary_grad_wide"): (3,), ("binary.def", "binary"): (2,),
           ("binary.def", "binary_grad"): (3, 4), ("binary.def", "compare_i32"): (2,)}
PRELUDES = ("prelude.clh", "prelude.glsl")
CL_ONLY = "/* only: opencl */"
INCLUDE = re.compile(r'\s*#include "(.*)"')


class Mutant:
    """One fault: `key` = file without .cl and faulty line, the kernels that have it, and their texts."""

    def __init__(self, source, line, what, text, kernels, sources):
        self.name, self.lines, self.kernels, self.sources = source, (line, text), kernels, sources
        self.key = (key_of(source), " ".join(text.strip("\\ ").split()) or what)
        self.label = f"{line + 1}: {what}"

    def text_in(self, kernel):
        return self.sources.complete(self.sources.of_kernel[kernel], self)


class Sources:
    """The texts below the folder of the kernels; for Vulkan also those of the folder `shaders` beside it."""

    def __init__(self, folder, is_opencl):
        self.texts, self.is_opencl = {}, is_opencl
        endings = (".cl", ".clh", ".def") if is_opencl else (".cl", ".clh", ".def", ".comp", ".glsl")
        for root in (folder,) if is_opencl else (folder, os.path.join(folder, "..", "shaders")):
            for top, _, names in sorted(os.walk(root)):
                for name in sorted(n for n in names if n.endswith(endings)):
                    path = os.path.join(top, name)
                    with open(path, encoding="utf-8") as f:
                        self.texts[os.path.relpath(path, folder)] = f.read()
        self.of_kernel = {os.path.basename(n).rsplit(".", 1)[0]: n for n, text in self.texts.items()
                          if n.endswith((".cl", ".comp")) and (is_opencl or not text.startswith(CL_ONLY))}

    @staticmethod
    def scratch():
        return tempfile.TemporaryDirectory()

    def includes(self, name):
        out = set()
        for line in self.texts[name].split("\n"):
            m = INCLUDE.match(line)
            if m:
                out |= {m.group(1)} | self.includes(m.group(1))
        return out

    def expand(self, text):
        """The text with the files that it includes."""
        return "\n".join(self.expand(self.texts[m.group(1)]) if m else line
                         for line, m in ((line, INCLUDE.match(line)) for line in text.split("\n")))

    def users(self, name):
        return [k for k, path in sorted(self.of_kernel.items()) if path == name or name in self.includes(path)]

    def complete(self, name, mutant):
        """The text with the mutant's fault. Files that have it or include one that has are written out."""
        lines = self.texts[name].split("\n")
        if name == mutant.name:
            lines[mutant.lines[0]] = mutant.lines[1]
        for i, line in enumerate(lines):
            m = INCLUDE.match(line)
            if m and (m.group(1) == mutant.name or mutant.name in self.includes(m.group(1))):
                lines[i] = self.complete(m.group(1), mutant)
        return "\n".join(lines)


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
    """(line number, what, line, place in the line) for every mutation of a text."""
    out, is_comment, is_params = [], False, False
    for number, line in enumerate(text.split("\n")):
        code = line.split("/*")[0] if not is_comment else ""
        starts, ends = line.rfind("/*"), line.rfind("*/")
        is_comment = (is_comment or starts >= 0) and not ends > starts
        is_params = "PARAMS(" in line or (is_params and ")" not in line)
        if not code.strip() or is_params or DECLARATION.match(code):
            continue

        def add(at, old, new):
            out.append((number, f"{old.strip()} -> {new.strip(' ;') or 'nothing'} at {at}", line[:at] + new + line[at + len(old):],
                        at))

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
            add(m.start(), m.group(0), " " * 9 + ";")
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


def columns(text):
    """For each place (line, column) of a table of functions: the column of its row."""
    where = {}
    depth, column, is_row, is_comment, skip = 0, 0, False, False, 0
    for number, line in enumerate(text.split("\n")):
        for at, c in enumerate(line):
            is_comment = (is_comment or line.startswith("/*", at)) and not line.startswith("*/", at - 1)
            if is_comment:
                continue
            depth += (c == "(") - (c == ")")
            if c == "(" and depth == 1:
                column = 0
            elif c == "," and depth == 1:
                column += 1
            elif depth >= 1:
                where[(number, at)] = column
    return where


def of_file(name, sources):
    """All mutants of a file."""
    text, short = sources.texts[name], os.path.basename(name)
    users = sources.users(name)
    places = columns(text) if short.endswith(".def") else {}
    out = []
    for number, what, line, at in mutations(text):
        kernels = users
        if places:
            inside = at + (line[at:at + 1] == " ")
            kernels = [k for k in users if places.get((number, inside)) in COLUMNS.get((short, k), ())]
        if kernels:
            out.append(Mutant(name, number, what, line, kernels, sources))
    return out


def key_of(name):
    """How options and the file of survivors name a file: kernels without their ending."""
    short = os.path.basename(name)
    return short.rsplit(".", 1)[0] if short.endswith((".cl", ".comp")) else short


def pick(sources, only, what, seed, most):
    """`most` mutants of each file, the same ones for the same seed."""
    out = []
    for name in sorted(sources.texts):
        short = os.path.basename(name)
        if short in PRELUDES or (only and key_of(name) not in only) or not sources.users(name):
            continue
        room = most * (2 if short.endswith(".def") else 3 if short == "math.clh" else 1)

        def order(m, kernel=key_of(name)):
            return hashlib.sha256(f"{seed}/{kernel}/{m.lines[0]}/{m.label.split(': ', 1)[1]}".encode()).digest()

        chosen = [m for m in of_file(name, sources) if what in m.label]
        out += sorted(sorted(chosen, key=order)[:room], key=lambda m: (m.lines[0], m.label))
    return out
