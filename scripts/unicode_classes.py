# SPDX-License-Identifier: MIT
"""Prints tables of the Unicode that Python has: ranges of letters and numbers, of core/language/unicode.c; with "forms"
all of core/language/unicode_forms.c, by which texts get the form NFC."""
import sys
import unicodedata


def ranges(category):
    """First and last code points of each range."""
    found, first = [], None
    for c in range(0x110001):
        is_in = c < 0x110000 and unicodedata.category(chr(c))[0] == category
        if is_in and first is None:
            first = c
        if not is_in and first is not None:
            found.append((first, c - 1))
            first = None
    return found


def rows(texts):
    """In lines of at most 120 columns."""
    line = "   "
    for text in texts:
        if len(line) + len(text) > 118:
            print(line)
            line = "   "
        line += " " + text
    print(line)


def marks():
    """Ranges of characters with a combining class."""
    found = []
    for c in range(0x110000):
        k = unicodedata.combining(chr(c))
        if k and found and found[-1][1] == c - 1 and found[-1][2] == k:
            found[-1][1] = c
        elif k:
            found.append([c, c, k])
    return found


def forms():
    parts = {c: [int(x, 16) for x in unicodedata.decomposition(chr(c)).split()] for c in range(0x110000)
             if unicodedata.decomposition(chr(c))[:1] not in ("", "<") and not 0xac00 <= c <= 0xd7a3}
    pairs = [(c, *x) for c, x in parts.items() if len(x) == 2]
    joined = sorted((second, first, i) for i, (c, first, second) in enumerate(pairs)
                    if unicodedata.normalize("NFC", chr(c)) == chr(c))
    print(f"""/* SPDX-License-Identifier: MIT */
/* Parts of characters of Unicode {unicodedata.unidata_version}, and the order of marks. scripts/unicode_classes.py forms
   prints this file. */
#include "core/language/unicode_forms.h"

/* clang-format off */
const struct copse_form copse__forms[COPSE_FORMS] = {{""")
    rows(f"{{ 0x{c:x}, 0x{x[0]:x}, 0x{x[1] if len(x) == 2 else 0:x} }}," for c, x in parts.items())
    places = {c: i for i, c in enumerate(parts)}
    print("};\n\nconst uint16_t copse__joined[COPSE_JOINED] = {")
    rows(f"{places[pairs[i][0]]}," for _, _, i in joined)
    print("};\n\nconst struct copse_mark copse__marks[COPSE_MARKS] = {")
    rows(f"{{ 0x{first:x}, 0x{last:x}, {k} }}," for first, last, k in marks())
    print("};\n/* clang-format on */")
    print(f"forms {len(parts)}, joined {len(joined)}, marks {len(marks())}", file=sys.stderr)


def classes():
    print("/* Unicode", unicodedata.unidata_version, "*/")
    for name, category in (("letters", "L"), ("numbers", "N")):
        print(f"static const struct range {name}[] = {{")
        print(" ".join(f"{{ 0x{first:x}, 0x{last:x} }}," for first, last in ranges(category)))
        print("};")


forms() if sys.argv[1:] == ["forms"] else classes()
