# SPDX-License-Identifier: MIT
"""language_reference.py: SmolLM2-135M-Instruct in transformers, in single precision on the weights that the package gguf
dequantises, for the judges of language models."""
import sys

try:
    import gguf
    import numpy as np
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError as missing:
    print(f"skipped: {sys.executable} lacks a package ({missing}): name a Python with torch, transformers, tokenizers, gguf, numpy "
          "and cffi in COPSE_LANGUAGE_PYTHON")
    sys.exit(77)


def reference(path):
    """transformers' model with the file's weights, and tokenizers' tokenizer with the file's vocabulary."""
    r = gguf.GGUFReader(path)

    def key(name):
        return r.fields[name].contents()
    heads, kv_heads = key("llama.attention.head_count"), key("llama.attention.head_count_kv")
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=key("llama.vocab_size"), hidden_size=key("llama.embedding_length"),
        intermediate_size=key("llama.feed_forward_length"), num_hidden_layers=key("llama.block_count"), num_attention_heads=heads,
        num_key_value_heads=kv_heads, rms_norm_eps=key("llama.attention.layer_norm_rms_epsilon"),
        max_position_embeddings=key("llama.context_length"), tie_word_embeddings=True, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": key("llama.rope.freq_base")})).float().eval()
    parts = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    weights = {}
    for t in r.tensors:
        w, name = gguf.quants.dequantize(t.data, t.tensor_type), t.name.split(".")
        if name[0] == "blk":
            n = {"attn_q": heads, "attn_k": kv_heads}.get(name[2])
            if n:  # interleaved rotary pairs
                w = w.reshape(n, w.shape[0] // n // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
            name = f"model.layers.{name[1]}.{parts[name[2]]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[name[0]]
        weights[name] = torch.from_numpy(np.array(w, np.float32))
    state = model.load_state_dict(weights, strict=False)
    assert set(state.missing_keys) <= {"lm_head.weight"} and not state.unexpected_keys, state
    model.tie_weights()
    tokens, kinds = key("tokenizer.ggml.tokens"), key("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ", 1)) for m in key("tokenizer.ggml.merges")]
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, merges, unk_token=tokens[0]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x, kind in zip(tokens, kinds) if kind == 3])
    return model, t
