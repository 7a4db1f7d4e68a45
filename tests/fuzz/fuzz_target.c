/* SPDX-License-Identifier: MIT */
/* copse_fuzz: a reader of files with the bytes that libFuzzer makes. COPSE_FUZZ_TARGET names the reader, COPSE_FUZZ_SEEDS a
   folder that gets its seeds. tests/fuzz/fuzz.sh builds and runs it. */
#include "tests/fuzz/fuzz.h"
#include "tests/rig/data/reader_targets.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct fuzz_target *chosen;
static const struct reader_target *reader;

void fuzz_seed(const char *seeds, const char *name, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", seeds, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static const struct fuzz_target *find_target(const struct fuzz_target *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->name ? table : NULL;
}

static const struct reader_target *find_reader(const char *name)
{
    for (size_t i = 0; i < COPSE_COUNT(reader_targets); i++)
        if (strcmp(reader_targets[i].name, name) == 0)
            return &reader_targets[i];
    return NULL;
}

static void print_names(void)
{
    for (size_t i = 0; i < COPSE_COUNT(reader_targets); i++)
        puts(reader_targets[i].name);
    for (const struct fuzz_target *t = fuzz_language_targets; t->name; t++)
        puts(t->name);
    for (const struct fuzz_target *t = fuzz_onnx_targets; t->name; t++)
        puts(t->name);
}

static void begin_reader(const char *seeds)
{
    for (size_t i = 0; i < 2; i++) {
        const char name[] = { 'a', 'b' }, text[2] = { name[i], 0 };
        fuzz_seed(seeds, text, reader->seeds[i].bytes, reader->seeds[i].size);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *name = getenv("COPSE_FUZZ_TARGET"), *seeds = getenv("COPSE_FUZZ_SEEDS");
    if (!name || !seeds) {
        print_names();
        exit(name || seeds ? 1 : 0);
    }
    reader = find_reader(name);
    chosen = find_target(fuzz_language_targets, name);
    if (!chosen)
        chosen = find_target(fuzz_onnx_targets, name);
    if (!reader && !chosen) {
        fprintf(stderr, "copse_fuzz: no target %s\n", name);
        exit(1);
    }
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    if (copse_context_create(&params, &ctx) != COPSE_OK) {
        fprintf(stderr, "copse_fuzz: %s\n", copse_last_error());
        exit(1);
    }
    if (!reader) {
        chosen->begin(ctx, seeds);
        return 0;
    }
    temp_begin();
    atexit(temp_end);
    begin_reader(seeds);
    return 0;
}

static size_t live_blocks(void)
{
    struct copse_memory_stats stats;
    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const size_t before = live_blocks();
    if (reader)
        (void)reader->read(temp_write("input", bytes, size));
    else
        chosen->read(bytes, size);
    if (live_blocks() != before) {
        fprintf(stderr, "copse_fuzz: %zu blocks of memory before, %zu after\n", before,
                live_blocks());
        abort();
    }
    return 0;
}
