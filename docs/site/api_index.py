# SPDX-License-Identifier: MIT
"""Writes the index of the C API as a Markdown page: every header with its first sentences, every function, type and
constant with its first sentence and a link to the header.

usage: api_index.py INCLUDE-FOLDER
"""
import re
import sys
from pathlib import Path

GROUPS = [
    ("Everyday headers", "copse", "`#include <copse/copse.h>` includes them all."),
    ("Convolutions, pooling, losses", "copse/ops", ""),
    ("Layers, loops and files", "copse/loop", ""),
    ("Data", "copse/data", ""),
    ("Devices", "copse/device", ""),
    ("Distributed training", "copse/distribute", ""),
    ("Compatibility", "copse/compat", ""),
]
COMMENT = re.compile(r"/\*\*(.*?)\*/", re.S)


def plain(comment: str) -> str:
    """A documentation comment as one paragraph, up to its first tag."""
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.strip("<* \n").splitlines()]
    text = re.split(r"@(?:param|retval|file)\b", "\n".join(lines))[0]
    return re.sub(r"\s+", " ", text).strip()


def first_sentence(text: str) -> str:
    found = re.match(r".+?\.(?=\s|$)", text)
    sentence = found.group(0) if found else text
    return sentence.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def entries(source: str) -> list[tuple[str, str, str]]:
    """(kind, name, description) of each declaration; the description is the comment right before it, or ""."""
    found, description = [], ""
    pattern = re.compile(
        r"/\*\*(?P<comment>.*?)\*/"
        r"|^COPSE_API[^;]*?\b(?P<function>copse_\w+)\s*\("
        r"|^typedef (?:struct|enum) \w+ \{.*?^\} (?P<alias>copse_\w+);"
        r"|^typedef struct \w+ (?P<handle>copse_\w+);"
        r"|^typedef [^;{]*?\b(?P<callback>copse_\w+_fn)\s*\("
        r"|^struct (?P<struct>copse_\w+) \{.*?^\};"
        r"|^#define (?P<macro>COPSE_[A-Z]\w*)",
        re.S | re.M)
    for m in pattern.finditer(source):
        if m.group("comment") is not None:
            if not m.group("comment").startswith("<"):
                description = first_sentence(plain(m.group("comment")))
            continue
        kind = next(k for k, v in m.groupdict().items() if v)
        name = m.group(kind)
        if kind == "macro" and (name.startswith("COPSE_PUBLIC") or name.endswith("_ENUM")):
            continue
        if not description and name.endswith("_retain"):
            description = "Adds a reference."
        elif not description and name.endswith("_release"):
            description = "Drops a reference."
        found.append((kind, name, description))
        description = ""
    return found


def main() -> None:
    include = Path(sys.argv[1])
    out = ["# API index", "",
           "Every function, type and constant of the public headers, with its first sentence. The headers have the rest: "
           "shapes, element types, errors, lifetime and threads. "
           "[copse/status.h](../include/copse/status.h) has the rules that hold everywhere.", ""]
    for title, folder, text in GROUPS:
        paths = sorted((include / folder).glob("*.h"))
        if not paths:
            continue
        out += [f"## {title}", ""] + ([text, ""] if text else [])
        for path in paths:
            name = path.relative_to(include).as_posix()
            source = path.read_text()
            file_comment = re.search(r"/\*\* @file\n(.*?)\*/", source, re.S)
            listed = entries(source[file_comment.end():] if file_comment else source)
            if not listed:
                continue
            about = re.sub(r"\s*\n\s*\* ?", " ", file_comment.group(1)).strip(" *") if file_comment else ""
            out += [f"### [{name}](../include/{name})", "", first_sentence(about), "", "| name | what it is |", "|---|---|"]
            for kind, entry, description in listed:
                shown = {"function": f"`{entry}()`", "struct": f"`struct {entry}`"}.get(kind, f"`{entry}`")
                out.append(f"| {shown} | {description} |")
            out.append("")
    print("\n".join(out))


if __name__ == "__main__":
    main()
