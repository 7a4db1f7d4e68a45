/* SPDX-License-Identifier: MIT */
/* make_language FILE [llama | blocks | qwen2 | qwen3]: writes the small language model of
   tests/language as a GGUF file; blocks: llama with quantised matrices. */
#include "tests/rig/data/language_file.h"

int main(int argc, char **argv)
{
    struct gguf_file f = { .key_count = 0 };
    const struct kind *k = argc < 3 || strcmp(argv[2], "llama") == 0 ? &llama
                           : strcmp(argv[2], "blocks") == 0          ? &llama_blocks
                           : strcmp(argv[2], "qwen2") == 0           ? &qwen2
                                                                     : &qwen3;
    fill_all();
    if (k->is_quantised)
        quantise_all();
    put_model(&f, k);
    gguf_bytes(&f);
    FILE *to = argc > 1 ? fopen(argv[1], "wb") : NULL;
    const bool is_written = to && fwrite(f.all.at, 1, f.all.size, to) == f.all.size;
    if (to)
        fclose(to);
    gguf_free(&f);
    return !is_written;
}
