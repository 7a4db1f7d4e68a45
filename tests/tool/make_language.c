/* SPDX-License-Identifier: MIT */
/* make_language FILE [llama | blocks | qwen2 | qwen3 | gemma]: writes the small language model of
   tests/language as a GGUF file; blocks: llama with quantised matrices.
   make_language PARENT folder: writes the same llama as the folder PARENT/model. */
#include "tests/rig/data/language_folder.h"

static int write_folder(const char *parent)
{
    static struct folder_made made = { .type = COPSE_F32 };
    copse_context *ctx;
    if (copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx))
        return 1;
    snprintf(temp_folder, sizeof temp_folder, "%s", parent);
    fill_all();
    folder_model(&made, &llama);
    const bool is_written = folder_write(&made, ctx, &llama) != NULL;
    copse_context_release(&ctx);
    return !is_written;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[2], "folder") == 0)
        return write_folder(argv[1]);
    struct gguf_file f = { .key_count = 0 };
    const struct kind *k = argc < 3 || strcmp(argv[2], "llama") == 0 ? &llama
                           : strcmp(argv[2], "blocks") == 0          ? &llama_blocks
                           : strcmp(argv[2], "qwen2") == 0           ? &qwen2
                           : strcmp(argv[2], "gemma") == 0           ? &gemma
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
