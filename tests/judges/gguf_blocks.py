# SPDX-License-Identifier: MIT
"""gguf_blocks.py [CHECK]: rows of the table in tests/state/test_gguf.c, from the package `gguf`: pseudo-random blocks of
each type and a hash of the numbers that they mean. With CHECK, test_gguf.c: fails where the file lacks one of these rows.
Skipped (77) without the package."""
import sys

try:
    import gguf
    import numpy as np
except ImportError as error:
    print(f"gguf_blocks: skipped: {error}")
    sys.exit(77)

BLOCKS = 512
# bytes of a block that end a floating-point number, twice if there is only one
HALVES = {"F32": (3, 3), "F16": (1, 1), "Q4_0": (1, 1), "Q4_1": (1, 3), "Q5_0": (1, 1), "Q5_1": (1, 3), "Q8_0": (1, 1),
          "Q4_K": (1, 3), "Q5_K": (1, 3), "Q6_K": (209, 209), "BF16": (1, 1)}


def blocks_of(number, size, halves):
    """The same bytes as in test_gguf.c."""
    random, out = number + 1, bytearray(BLOCKS * size)
    for i in range(len(out)):
        random = (random * 1664525 + 1013904223) % 2 ** 32
        out[i] = random >> 24 & (0xbf if i % size in halves else 0xff)
    return np.frombuffer(bytes(out), np.uint8)


def fnv_of(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2 ** 64
    return h


rows = []
for name, halves in HALVES.items():
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    raw = blocks_of(int(kind), size, halves)
    values = raw.view(np.float32) if name == "F32" else gguf.quants.dequantize(raw.reshape(BLOCKS // 4, -1), kind)
    assert values.size == BLOCKS * elements and np.isfinite(values).all()
    h = fnv_of(values.astype("<f4").tobytes())
    rows.append(f"{{ {int(kind)}, {elements}, {size}, {{ {halves[0]}, {halves[1]} }}, 0x{h:016x}ull }},")
if len(sys.argv) < 2:
    print("\n".join("    " + row for row in rows))
else:
    text = open(sys.argv[1], encoding="utf-8").read()
    missing = [row for row in rows if row not in text]
    print(f"gguf_blocks: {len(rows) - len(missing)} of {len(rows)} types as in the package gguf")
    print("\n".join(missing))
    sys.exit(bool(missing))
