/* SPDX-License-Identifier: MIT */
/* Every reader of files against damaged files: seeds, each changed in thousands of ways that are
   the same in every run. With -DCOPSE_FUZZ=<row of TARGETS> and clang's -fsanitize=fuzzer it is a
   fuzz target of that reader instead. Whatever comes, nothing may crash or leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "copse/data.h"
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "core/base/base.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static const struct copse_read_params small = { .max_bytes = 1 << 22 };

static copse_status read_idx(const char *path)
{
    copse_array *a;
    copse_status s = copse_read_idx(ctx, path, &small, &a);
    copse_array_release(&a);
    return s;
}

static copse_status read_npy(const char *path)
{
    copse_array *a;
    copse_status s = copse_read_npy(ctx, path, &small, &a);
    copse_array_release(&a);
    return s;
}

static copse_status read_csv(const char *path)
{
    copse_array *a, *b;
    const struct copse_csv_params params = { .max_bytes = small.max_bytes };
    copse_status s = copse_read_csv(ctx, path, &params, &a, &b);
    copse_array_release(&a);
    copse_array_release(&b);
    return s;
}

static copse_status read_text(const char *path)
{
    copse_array *a;
    copse_status s = copse_read_text(ctx, path, &small, &a);
    copse_array_release(&a);
    return s;
}

static copse_status read_dataset(const char *path)
{
    copse_dataset *a;
    const struct copse_dataset_params params = { .max_bytes = small.max_bytes };
    copse_status s = copse_dataset_open(ctx, path, &params, &a);
    copse_dataset_release(&a);
    return s;
}

/* Whatever is read is read again, to the same numbers, by the schema that it made. */
static copse_status read_table(const char *path)
{
    copse_dataset *a, *b = NULL;
    copse_schema *schema = NULL;
    struct copse_dataset_info first, second;
    struct copse_dataset_params params = { .max_bytes = small.max_bytes,
                                           .missing = COPSE_MISSING_MEAN };
    const copse_status s = copse_dataset_open(ctx, path, &params, &a);
    if (s != COPSE_OK)
        return s;
    if (copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(a)), &schema) != COPSE_OK)
        fail_msg("%s: %s", copse_schema_text(copse_dataset_schema(a)), copse_last_error());
    const char *text = copse_schema_text(schema);
    params.schema = schema;
    params.csv.header = strstr(text, "\"header\":true")    ? COPSE_CSV_HEADER_YES
                        : strstr(text, "\"header\":false") ? COPSE_CSV_HEADER_NO
                                                           : COPSE_CSV_HEADER_AUTO;
    if (copse_dataset_open(ctx, path, &params, &b) != COPSE_OK)
        fail_msg("%s: %s", text, copse_last_error());
    copse_dataset_describe(a, &first);
    copse_dataset_describe(b, &second);
    if (first.rows != second.rows || first.row_size != second.row_size)
        fail_msg("%s: other rows", text);
    for (uint32_t i = 0; i < first.rows; i++) {
        float x[2][600];
        if (copse_dataset_gather(a, "x", &i, 1, x[0]) != COPSE_OK ||
            copse_dataset_gather(b, "x", &i, 1, x[1]) != COPSE_OK ||
            memcmp(x[0], x[1], first.row_size * sizeof **x) != 0)
            fail_msg("%s: row %u is read otherwise", text, i);
    }
    copse_dataset_release(&a);
    copse_dataset_release(&b);
    copse_schema_release(&schema);
    return s;
}

static copse_status read_checkpoint(const char *path)
{
    copse_checkpoint *a;
    copse_status s = copse_checkpoint_read(ctx, path, &a);
    copse_checkpoint_release(&a);
    return s;
}

/* What was described can be read. */
static copse_status read_gguf(const char *path)
{
    static float values[4096];
    copse_gguf *f;
    struct copse_gguf_value v;
    size_t keys, tensors;
    const copse_status s = copse_gguf_open(ctx, path, &f);
    const struct copse_gguf_key *key = copse_gguf_keys(f, &keys);
    const struct copse_gguf_tensor *t = copse_gguf_tensors(f, &tensors);
    for (size_t i = 0; i < keys; i++)
        for (uint64_t k = 0; k < key[i].count; k++)
            if (copse_gguf_get(f, key[i].name, k, &v) != COPSE_OK)
                fail_msg("%s: %s", key[i].name, copse_last_error());
    for (size_t i = 0; i < tensors; i++)
        if (t[i].is_readable && t[i].elements <= COPSE_COUNT(values) &&
            copse_gguf_read(f, t[i].name, values, (size_t)t[i].elements) != COPSE_OK)
            fail_msg("%s: %s", t[i].name, copse_last_error());
    copse_gguf_release(&f);
    return s;
}

#define SEED(text) text, sizeof text - 1
#define IDX        SEED("\0\0\x08\2\0\0\0\2\0\0\0\3abcdef")
#define IDX_F32    SEED("\0\0\x0d\1\0\0\0\1\x3f\x80\0\0")
#define NPY \
    SEED("\x93NUMPY\1\0\x3b\0{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }abcd")
#define NPY_F \
    SEED("\x93NUMPY\2\0\x3a\0\0\0{'descr': '>i2', 'fortran_order': True, 'shape': (1, 2), }abcd")
#define CSV     SEED("a,\"b\",c\n1,2.5e-3,0\r\n\"-4\", .5 ,2\n")
#define CSV_BIG SEED("1e38,1,1\n123456789012345678901234567890e-30,0,2\n")
#define TABLE   SEED("name,age,\"k,d\"\r\nann,3,x\nbob,?,y\n\"ann\",4.5,x\nbob,-1e2,y\n")
#define TABLE_2 SEED("u|v|1\nu|w|2\nu|v|2.5\nu||3\n")
#define TEXT    SEED("gr\xc3\xbc\xc3\x9f Gott\n")
#define ST                                                                                        \
    SEED("\x8b\0\0\0\0\0\0\0{\"__metadata__\":{\"k\":\"v\\u00e4\"},\"x\":{\"dtype\":\"F32\","     \
         "\"shape\":[1,1],"                                                                       \
         "\"data_offsets\":[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}" \
         "abcd")
#define ST_OK                                                                                \
    SEED("\x50\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}" \
         ",\"__metadata__\":{\"a\":\"\"}}  abcd")

#define GGUF_HEAD "GGUF\3\0\0\0\1\0\0\0\0\0\0\0"
#define GGUF_ONE  "\1\0\0\0\0\0\0\0"
#define GGUF_ZERO "\0\0\0\0\0\0\0\0"
#define GGUF                                                                                   \
    SEED(GGUF_HEAD "\2\0\0\0\0\0\0\0" GGUF_ONE "a\4\0\0\0\1\0\0\0" GGUF_ONE                    \
                   "b\x09\0\0\0\x08\0\0\0" GGUF_ONE GGUF_ONE "c" GGUF_ONE "t\1\0\0\0" GGUF_ONE \
                   "\0\0\0\0" GGUF_ZERO GGUF_ZERO GGUF_ZERO "\0\0\0\0\0\0\x80\x3f")
/* 32 numbers of Q4_1 */
#define GGUF_Q4_1                                                                     \
    SEED(GGUF_HEAD GGUF_ZERO GGUF_ONE "t\1\0\0\0\x20\0\0\0\0\0\0\0\3\0\0\0" GGUF_ZERO \
                                      "\0\0\0\0\0\0\0"                                \
                                      "0123456789abcdefghij")

static const struct target {
    const char *name;
    copse_status (*read)(const char *path);
    struct {
        const char *bytes;
        size_t size;
    } seeds[2];
} targets[] = {
    { "idx", read_idx, { { IDX }, { IDX_F32 } } },
    { "npy", read_npy, { { NPY }, { NPY_F } } },
    { "csv", read_csv, { { CSV }, { CSV_BIG } } },
    { "text", read_text, { { TEXT }, { SEED("a") } } },
    { "dataset", read_dataset, { { IDX }, { CSV } } },
    { "table", read_table, { { TABLE }, { TABLE_2 } } },
    { "checkpoint", read_checkpoint, { { ST }, { ST_OK } } },
    { "gguf", read_gguf, { { GGUF }, { GGUF_Q4_1 } } },
};

#if defined(COPSE_FUZZ)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    temp_begin();
    atexit(temp_end);
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    (void)targets[COPSE_FUZZ].read(temp_write("input", bytes, size));
    return 0;
}

#else

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* One to four changes: a byte, a bit, a byte taken out or put in, the end cut off. */
static size_t change(unsigned char *bytes, size_t size, size_t room, uint32_t *random)
{
    static const unsigned char liked[] = { 0,   0xff, 0x7f, 0x80, '0', '9', '"', '\\', ',', '\n',
                                           '[', ']',  '{',  '}',  '-', 'e', '.', '\'', '(', ')' };

    for (uint32_t n = next_random(random) % 4 + 1; n > 0; n--) {
        uint32_t kind = next_random(random) % 8;
        size_t at = size > 0 ? next_random(random) % size : 0;
        unsigned char byte = liked[next_random(random) % COPSE_COUNT(liked)];
        if (kind == 0) {
            size = at;
        } else if (kind == 1 && size > 0) {
            memmove(bytes + at, bytes + at + 1, size - at - 1);
            size--;
        } else if (kind < 4 && size < room) {
            memmove(bytes + at + 1, bytes + at, size - at);
            bytes[at] = byte;
            size++;
        } else if (size > 0) {
            bytes[at] =
                kind < 6 ? byte : (unsigned char)(bytes[at] ^ 1u << next_random(random) % 8);
        }
    }
    return size;
}

static size_t live_blocks(void)
{
    struct copse_memory_stats stats;

    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

static void replay(const struct target *t)
{
    unsigned char bytes[1024], packed[1024];
    uint32_t random = 2463534242u;
    size_t before = live_blocks();

    for (int i = 0; i < 4000; i++) {
        size_t size = t->seeds[i % 2].size, gzip = (size_t)(i / 2 % 3);
        memcpy(bytes, t->seeds[i % 2].bytes, size);
        if (gzip != 1 && i >= 2)
            size = change(bytes, size, 600, &random);
        if (gzip > 0) {
            size = temp_deflate(bytes, size, packed, sizeof packed);
            memcpy(bytes, packed, size);
        }
        if (gzip == 1 && i >= 2) /* damage outside, else inside of gzip */
            size = change(bytes, size, 600, &random);
        copse_status s = t->read(temp_write("input", bytes, size));
        if (i < 2 && s != COPSE_OK)
            fail_msg("%s, seed %d: %s", t->name, i, copse_last_error());
        if (s != COPSE_OK && s != COPSE_ERR_FORMAT && s != COPSE_ERR_SHAPE)
            fail_msg("%s, change %d: %s: %s", t->name, i, copse_status_name(s), copse_last_error());
        if (live_blocks() != before)
            fail_msg("%s, change %d leaks", t->name, i);
    }
}

static void test_damaged_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(targets); i++)
        replay(&targets[i]);
}

static int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) != COPSE_OK;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_damaged_files) };

    return cmocka_run_group_tests(tests, begin, end);
}

#endif
