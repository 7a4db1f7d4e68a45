# SPDX-License-Identifier: MIT
"""Prints the tables of core/language/characters.c: ranges of the letters and numbers that Python's Unicode has."""
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


print("/* Unicode", unicodedata.unidata_version, "*/")
for name, category in (("letters", "L"), ("numbers", "N")):
    print(f"static const struct range {name}[] = {{")
    print(" ".join(f"{{ 0x{first:x}, 0x{last:x} }}," for first, last in ranges(category)))
    print("};")
