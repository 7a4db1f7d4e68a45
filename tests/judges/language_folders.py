# SPDX-License-Identifier: MIT
"""language_folders.py: small language models with random weights, saved by transformers with tokenizers of the package
tokenizers, opened by Copse from their folders.

1. The tokens of a set of texts are equal.
2. The mean loss of each of these texts of at least two tokens is within 1e-4 of transformers' in single precision.
3. Of 24 greedy tokens each is the one with transformers' largest output, or within 1e-4 of it.

Models: each architecture, tied and untied heads, heads of their own width, scaled rotary positions, a sliding window, one file
and several, f32, f16 and bf16. COPSE_JUDGE_DEVICE names the device [host:0]. Exit code 0; 1; 77: skipped."""
import json
import os
import random
import sys
import tempfile

try:
    import torch
    import transformers as hf
    hf.utils.logging.disable_progress_bar()
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing})")
    sys.exit(77)

from copse._library import check, ffi, lib, make
from copse.devices import context

MARK, WINDOW, LENGTH, NEAR = "\u2581", 200, 24, 1e-4
TEXTS = ["", " ", "  ", "   a", "a   ", "\n", "\n\n  x\n", "Hello, world!", "it's we're I'll they'd HE'S", "don''t 'til",
         "3.14159 and 2024, 1234567", " 5 5  5\t5", "x1y22z333", "tabs\t\tand\r\nlines\r\n\r\n", "Grüße aus Köln", "日本語のテキスト、三つ",
         "Привет, мир", "مرحبا بالعالم ١٢٣", "🙂👩‍👩‍👧 emoji 🇫🇷!", "½ ² Ⅷ ①", "non\u00a0breaking\u3000spaces \u2003", "<s>",
         "<s>begins", "one</s>two </s> three", " <s> x", "a<|endoftext|>b", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|",
         "a\u2581b \u2581 c", "\u2581a", "def f(x):\n    return x ** 2  # square\n", "a" * 300, "!?" * 50, "CamelCaseAndSNAKE_CASE",
         "e\u0301 a\u030a s\u0307\u0323 \u1e9b\u0323 q\u0307\u0323", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud558\u11ab \uac00\u11a7",
         "\u212b \u2126 \ufb2c \u0958 \uf900 \U0001d15e", "\u0301\u0301 x\u0315\u0300\u05ae\u0301", "1\ufe0f\u20e3 \u2764\ufe0f\u200d",
         "\x01\x02 control \x7f", "To be, or not to be, that is the question: whether the weights are read from a folder."]
LATER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# ---- tokenizers ----

def byte_pairs(text, cuts, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer, t.decoder, t.post_processor = cuts, decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=600, show_progress=False, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def letters(regex, **model):
    split = pre_tokenizers.Split(Regex(regex), "isolated")
    return lambda text: byte_pairs(text, pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), **model)


def qwen(text):
    t = letters(LATER.replace("{1,3}", ""))(text)
    t.normalizer = normalizers.NFC()
    return t


def llama_3(text):
    t = letters(LATER, ignore_merges=True)(text)
    begin = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin])
    return t


def pieces(scheme):
    """Pieces with bytes for what is unknown. scheme: of Metaspace, or "prepend" for the older form, or "gemma"."""
    def made(text):
        spaces = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
        learner = Tokenizer(models.BPE())
        learner.normalizer, learner.pre_tokenizer = spaces, pre_tokenizers.Split(MARK, "merged_with_next")
        learner.train_from_iterator([text], trainers.BpeTrainer(vocab_size=340, show_progress=False))
        learned = json.loads(learner.to_str())["model"]
        vocabulary = {word: i for i, word in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])}
        for word in sorted(learned["vocab"], key=learned["vocab"].get):
            vocabulary.setdefault(word, len(vocabulary))
        t = Tokenizer(models.BPE(vocabulary, [tuple(m) for m in learned["merges"]], unk_token="<unk>", byte_fallback=True,
                                 fuse_unk=True))
        t.add_special_tokens([AddedToken(word, normalized=False) for word in ("<unk>", "<s>", "</s>")])
        if scheme == "prepend":
            t.normalizer = spaces
        elif scheme == "gemma":
            t.normalizer, t.pre_tokenizer = normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous")
        else:
            t.pre_tokenizer = pre_tokenizers.Metaspace(MARK, prepend_scheme=scheme, split=False)
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        return t
    return made


def gpt_2(space):
    return lambda text: byte_pairs(text, pre_tokenizers.ByteLevel(add_prefix_space=space))


def smollm(text):
    return byte_pairs(text, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


# ---- models ----

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2}
LLAMA_3 = {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 64}
SIGHTS = ["sliding_attention", "full_attention"]
CAPPED = {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 2.0,
          "final_logit_softcapping": 3.0}
APART = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
         "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}
CONFIGS = {"Gemma3": hf.Gemma3TextConfig}
MODELS = [("llama, tied", "Llama", smollm, {"tie_word_embeddings": True}, {}),
          ("llama, f16", "Llama", smollm, {}, {"dtype": torch.float16}),
          ("llama, bf16", "Llama", gpt_2(False), {}, {"dtype": torch.bfloat16}),
          ("llama, wide heads", "Llama", pieces("prepend"), {"head_dim": 32}, {}),
          ("llama, llama3", "Llama", llama_3, {"rope_parameters": LLAMA_3}, {}),
          ("llama, linear", "Llama", gpt_2(True), {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}, {}),
          ("mistral, window", "Mistral", pieces("first"), {"sliding_window": 16}, {}),
          ("mistral", "Mistral", pieces("always"), {"sliding_window": None}, {}),
          ("qwen2, files", "Qwen2", qwen, {}, {"shard": "60KB"}),
          ("qwen3", "Qwen3", qwen, {"head_dim": 32, "tie_word_embeddings": True}, {}),
          ("gemma", "Gemma", gpt_2(False), {"head_dim": 32}, {}),
          ("gemma, heads of 256", "Gemma", pieces("gemma"), {"head_dim": 256}, {}),
          ("gemma2", "Gemma2", pieces("gemma"), CAPPED, {}),
          ("gemma2, bf16, heads of 256", "Gemma2", gpt_2(False), {**CAPPED, "head_dim": 256}, {"dtype": torch.bfloat16}),
          ("gemma3", "Gemma3", pieces("gemma"), {"head_dim": 32, "sliding_window": 16, "layer_types": SIGHTS}, {}),
          ("gemma3, linear", "Gemma3", pieces("gemma"), {"head_dim": 256, "sliding_window": 16, "layer_types": SIGHTS,
                                                         "rope_parameters": APART}, {})]


def save(folder, kind, tokenizer, settings, how):
    """The model that was saved, as transformers reads it, in single precision."""
    make_config = CONFIGS.get(kind) or getattr(hf, kind + "Config")
    config = make_config(vocab_size=tokenizer.get_vocab_size(), attn_implementation="eager", **{**SIZES, **settings})
    model = getattr(hf, kind + "ForCausalLM")(config).float()
    for p in model.parameters():
        p.data = torch.randn_like(p) * (0.3 if p.dim() == 1 else 0.1) + (p.data if p.dim() == 1 else 0)
    model = model.to(how.get("dtype", torch.float32))
    model.save_pretrained(folder, **({"max_shard_size": how["shard"]} if "shard" in how else {}))
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return getattr(hf, kind + "ForCausalLM").from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


# ---- Copse ----

def encode(language, text):
    data, count = text.encode(), ffi.new("size_t *")
    size = 3 * len(data) + 2  # NFC makes some texts longer
    room = ffi.new("int32_t[]", size)
    check(lib.copse_language_encode(language, ffi.from_buffer(data or bytearray(1)), len(data), room, size, count))
    return list(room[0:count[0]])


def loss(language, text):
    result, data = ffi.new("struct copse_language_evaluation *"), text.encode()
    check(lib.copse_language_evaluate(language, ffi.from_buffer(data), len(data), WINDOW, result))
    return result.loss


def continuation(language, prompt):
    tokens, data = [], prompt.encode()

    @ffi.callback("copse_token_fn")
    def take(user, token, text, size):
        tokens.append(token)
        return lib.COPSE_OK
    how = ffi.new("struct copse_generate_params *", {"length": LENGTH})
    check(lib.copse_language_generate(language, ffi.from_buffer(data), len(data), how, take, ffi.NULL))
    return tokens


# ---- the comparisons ----

def outputs(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


def reference_loss(model, tokens):
    total, count = 0.0, 0
    for at in range(0, len(tokens), WINDOW):
        part = tokens[at:at + WINDOW]
        if len(part) > 1:
            total += float(torch.nn.functional.cross_entropy(outputs(model, part)[:-1], torch.tensor(part[1:]), reduction="sum"))
            count += len(part) - 1
    return total / count


def differ(name, language, model, tokenizer, texts):
    failed, worst, gaps = 0, 0.0, 0.0
    for text in texts:
        mine, theirs = encode(language, text), tokenizer.encode(text).ids
        if mine != theirs:
            print(f"{name}: tokens of {text[:40]!r}: {mine[:20]}, tokenizers {theirs[:20]}")
            failed += 1
        elif len(mine) > 1:
            worst = max(worst, abs(loss(language, text) - reference_loss(model, mine)))
    for prompt in ("To be", "The 3 weights of a model", "x" * 70):
        before, written = encode(language, prompt), continuation(language, prompt)
        written += [SIZES["eos_token_id"]] if len(written) < LENGTH else []
        rows = outputs(model, before + written)
        for i, token in enumerate(written):
            row = rows[len(before) + i - 1]
            gaps = max(gaps, float(row.max() - row[token]))
    print(f"{name}: {len(texts) - failed} of {len(texts)} texts have the tokens of tokenizers; losses differ by at most {worst:.1e}, "
          f"greedy outputs by {gaps:.1e}")
    return failed > 0 or not (worst < NEAR and gaps < NEAR)


def main():
    with open(os.environ["COPSE_JUDGE_TEXT"], encoding="utf-8") as f:
        held = f.read()[:12000]
    torch.manual_seed(1)
    rng, failed, device = random.Random(1), 0, os.environ.get("COPSE_JUDGE_DEVICE", "host:0").encode()
    texts = TEXTS + [held[:1500]] + ["".join(rng.choice("aeht \n.,'09A\u00e9\u2581<s>") for _ in range(40)) for _ in range(40)]
    marks = "aeo\u00e4\u0300\u0301\u0308\u0323\u0327\u0345\u1100\u1161\u11a8\uac00\u0915\u093c\u3042\u3099"
    texts += ["".join(rng.choice(marks) for _ in range(30)) for _ in range(40)]
    for name, kind, learn, settings, how in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = learn(held)
            model = save(folder, kind, tokenizer, settings, how)
            strategy = make("strategy", lib.copse_one_device_create, context(), device, ffi.NULL)
            language = make("language", lib.copse_language_open, strategy, folder.encode(), ffi.NULL)
            failed += differ(name, language, model, tokenizer, texts)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
