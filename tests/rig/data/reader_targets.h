/* SPDX-License-Identifier: MIT */
/* Readers of files, each with two small files as seeds: for the test of damaged files and for the fuzzer. Whatever comes,
   nothing may crash or leak. */
#ifndef COPSE_READER_TARGETS_H
#define COPSE_READER_TARGETS_H

#include "copse/data.h"
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "core/base/base.h"
#include "core/data/array.h"
#include "core/language/tokenizer_json.h"
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

/* What is refused by its name is damage here. A tokenizer that is read takes the file as a text. */
static copse_status read_tokenizer(const char *path)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct copse_tokenizer t = { .mem = mem, .arena.mem = mem, .count = 8 };
    struct copse_tokens tokens = { .count = 0 };
    size_t size = 0;
    copse_status s = copse__tokenizer_read_json(&t, path);
    unsigned char *text = s == COPSE_OK ? temp_bytes(path, &size) : NULL;
    if (text)
        s = copse__tokenizer_encode(&t, (const char *)text, size, true, &tokens);
    for (size_t i = 0; i < tokens.count; i++)
        assert_true(tokens.at[i] >= 0 && tokens.at[i] < 8);
    free(text);
    copse__free(mem, tokens.at);
    copse__tokenizer_fini(&t);
    return s == COPSE_ERR_UNSUPPORTED || s == COPSE_ERR_ARGUMENT ? COPSE_ERR_FORMAT : s;
}

#define TOKENIZER                                                                               \
    SEED("{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{" \
         "\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"},"   \
         "\"post_processor\":null,\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"          \
         "\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<0x41>\":3},\"merges\":["   \
         "\"a b\"]}}")
#define TOKENIZER_2                                                                              \
    SEED("{\"model\":{\"vocab\":{\"a\":0,\"\\u2581\":1,\"\\u2581a\":7},\"unk_token\":\"a\","     \
         "\"byte_fallback\":true,\"merges\":[[\"\\u2581\",\"a\"]]},\"pre_tokenizer\":{\"type\":" \
         "\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":"     \
         "false},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"              \
         "\"SpecialToken\":{\"id\":\"a\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{"  \
         "\"a\":{\"ids\":[0]}}}}")

static const struct reader_target {
    const char *name;
    copse_status (*read)(const char *path);
    struct {
        const char *bytes;
        size_t size;
    } seeds[2];
} reader_targets[] = {
    { "idx", read_idx, { { IDX }, { IDX_F32 } } },
    { "npy", read_npy, { { NPY }, { NPY_F } } },
    { "csv", read_csv, { { CSV }, { CSV_BIG } } },
    { "text", read_text, { { TEXT }, { SEED("a") } } },
    { "dataset", read_dataset, { { IDX }, { CSV } } },
    { "table", read_table, { { TABLE }, { TABLE_2 } } },
    { "checkpoint", read_checkpoint, { { ST }, { ST_OK } } },
    { "gguf", read_gguf, { { GGUF }, { GGUF_Q4_1 } } },
    { "tokenizer", read_tokenizer, { { TOKENIZER }, { TOKENIZER_2 } } },
};

#endif
