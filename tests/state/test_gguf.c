/* SPDX-License-Identifier: MIT */
/* GGUF files: what is in them comes out, each type of blocks has the bits of the format's package,
   and what breaks a rule is refused with little memory. */
#include <sys/resource.h>

#include "tests/rig/rig.h"

#include "copse/data/gguf.h"
#include "core/base/base.h"
#include "core/base/files.h"
#include "core/state/gguf.h"
#include "tests/rig/data/gguf_file.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static copse_gguf *file;

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

static copse_status open_made(struct gguf_file *f)
{
    copse_gguf_release(&file);
    gguf_bytes(f);
    return copse_gguf_open(ctx, temp_write("made.gguf", f->all.at, f->all.size), &file);
}

/* A file that a rule forbids, which is then forgotten. */
static void assert_refused(struct gguf_file *f, const char *text)
{
    FAILS(COPSE_ERR_FORMAT, open_made(f), text);
    assert_null(file);
    gguf_free(f);
}

static const float six[6] = { 1, -2, 3.5f, 0, 1e-40f, 3e38f };

/* ---- what is in a file ---- */

static void put_every_form(struct gguf_file *f)
{
    static const unsigned char reals[8] = { 0, 0, 0, 0, 0, 0, 0xf0, 0xbf };
    gguf_key(f, "u8", 0), gguf_number(&f->keys, 200, 1);
    gguf_key(f, "i8", 1), gguf_number(&f->keys, 200, 1);
    gguf_key(f, "u16", 2), gguf_number(&f->keys, 65535, 2);
    gguf_key(f, "i16", 3), gguf_number(&f->keys, 65535, 2);
    gguf_key_u32(f, "u32", 4000000000u);
    gguf_key(f, "i32", 5), gguf_number(&f->keys, 0x80000000u, 4);
    gguf_key_f32(f, "f32", 0.1f);
    gguf_key(f, "bool", 7), gguf_number(&f->keys, 1, 1);
    gguf_key_text(f, "text", "gr\xc3\xbc\xc3\x9f");
    gguf_key(f, "u64", 10), gguf_number(&f->keys, UINT64_MAX, 8);
    gguf_key(f, "i64", 11), gguf_number(&f->keys, (uint64_t)INT64_MIN, 8);
    gguf_key(f, "f64", 12), gguf_put(&f->keys, reals, 8);
    gguf_key_list(f, "numbers", 3, 3);
    for (int i = 1; i <= 3; i++)
        gguf_number(&f->keys, (uint64_t)(-i), 2);
    gguf_key_list(f, "texts", 8, 3);
    gguf_text(&f->keys, "one"), gguf_text(&f->keys, ""), gguf_text(&f->keys, "three");
    gguf_key_list(f, "none", 8, 0);
}

static int64_t whole_of(const char *key, uint64_t i)
{
    struct copse_gguf_value v;
    OK(copse_gguf_get(file, key, i, &v));
    return v.whole;
}

static void assert_text(const char *key, uint64_t i, const char *expected)
{
    struct copse_gguf_value v;
    OK(copse_gguf_get(file, key, i, &v));
    assert_int_equal(v.kind, COPSE_GGUF_TEXT);
    assert_int_equal(v.size, strlen(expected));
    assert_memory_equal(v.text, expected, v.size);
}

static void test_keys(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    struct copse_gguf_value v;
    size_t count;
    (void)state;
    put_every_form(&f);
    OK(open_made(&f));
    const struct copse_gguf_key *keys = copse_gguf_keys(file, &count);
    assert_int_equal(count, 15);
    assert_string_equal(keys[0].name, "u8");
    assert_int_equal(whole_of("u8", 0), 200);
    assert_int_equal(whole_of("i8", 0), -56);
    assert_int_equal(whole_of("u16", 0), 65535);
    assert_int_equal(whole_of("i16", 0), -1);
    assert_int_equal(whole_of("u32", 0), 4000000000);
    assert_int_equal(whole_of("i32", 0), INT32_MIN);
    assert_int_equal(whole_of("bool", 0), 1);
    assert_true(whole_of("u64", 0) == INT64_MAX);
    assert_true(whole_of("i64", 0) == INT64_MIN);
    assert_int_equal(whole_of("numbers", 2), -3);
    OK(copse_gguf_get(file, "f32", 0, &v));
    assert_true(v.kind == COPSE_GGUF_REAL && v.real == (double)0.1f);
    OK(copse_gguf_get(file, "f64", 0, &v));
    assert_true(v.real == -1.0);
    OK(copse_gguf_get(file, "u64", 0, &v));
    assert_true(v.real == 18446744073709551616.0);
    assert_text("text", 0, "gr\xc3\xbc\xc3\x9f");
    assert_text("texts", 0, "one");
    assert_text("texts", 1, "");
    assert_text("texts", 2, "three");
    assert_true(keys[14].is_list && keys[14].count == 0);
    FAILS(COPSE_ERR_ARGUMENT, copse_gguf_get(file, "texts", 3, &v), "has 3 values, not 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_gguf_get(file, "no", 0, &v), "has no key \"no\"");
    copse_gguf_release(&file);
    gguf_free(&f);
}

static void test_tensors(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    float values[6];
    size_t count;
    (void)state;
    gguf_matrix(&f, "b", 2, 3, six);
    gguf_matrix(&f, "a", 0, 4, six + 2);
    gguf_entry(&f, "of another type", 10, 1, (const uint64_t[]){ 256 }, 64);
    gguf_pad(&f.data, 32);
    gguf_put(&f.data, (const unsigned char[84]){ 0 }, 84);
    OK(open_made(&f));
    const struct copse_gguf_tensor *t = copse_gguf_tensors(file, &count);
    assert_int_equal(count, 3);
    assert_string_equal(t[0].name, "b");
    assert_true(t[0].rank == 2 && t[0].shape[0] == 2 && t[0].shape[1] == 3);
    assert_ptr_equal(copse_gguf_find(file, "a"), t + 1);
    assert_null(copse_gguf_find(file, "c"));
    OK(copse_gguf_read(file, "b", values, 6));
    assert_memory_equal(values, six, sizeof six);
    OK(copse_gguf_read(file, "a", values, 4));
    assert_memory_equal(values, six + 2, 4 * sizeof *six);
    FAILS(COPSE_ERR_ARGUMENT, copse_gguf_read(file, "a", values, 5), "has 4 elements, not 5");
    FAILS(COPSE_ERR_ARGUMENT, copse_gguf_read(file, "c", values, 5), "has no tensor \"c\"");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_gguf_read(file, "of another type", values, 256),
          "has the type Q2_K, which is not read");
    copse_gguf_release(&file);
    gguf_free(&f);
}

/* ---- blocks ---- */

/* Bits of pseudo-random blocks, as tests/judges/gguf_blocks.py has them from the package `gguf`.
   `halves`: bytes of a block that end a floating-point number; a bit of them is 0, so that all are
   finite. */
static const struct block_case {
    uint32_t type, elements, bytes;
    uint32_t halves[2];
    uint64_t hash;
} block_cases[] = {
    { 0, 1, 4, { 3, 3 }, 0xe7e42f841bf3a3edull },
    { 1, 1, 2, { 1, 1 }, 0x9645d892ce7bd9bdull },
    { 2, 32, 18, { 1, 1 }, 0x34fccccd32643916ull },
    { 3, 32, 20, { 1, 3 }, 0xfde43de05bb7b4d3ull },
    { 6, 32, 22, { 1, 1 }, 0x8d8369c59411f239ull },
    { 7, 32, 24, { 1, 3 }, 0x0d48c71dc5749ebdull },
    { 8, 32, 34, { 1, 1 }, 0x8024a51f43b7e45dull },
    { 12, 256, 144, { 1, 3 }, 0xd6659b3e307d8ad3ull },
    { 13, 256, 176, { 1, 3 }, 0x85584170628c5ba1ull },
    { 14, 256, 210, { 209, 209 }, 0xdf6bd64f1cd9c527ull },
    { 30, 1, 2, { 1, 1 }, 0xc109f25f08e64c4bull },
};

#define BLOCKS 512u

/* A quantised tensor of 4 b->elements columns as words, scales and offsets: its elements have the
   bits of `values`. */
static void assert_packed(const struct block_case *b, const float *values)
{
    static uint32_t words[BLOCKS * 256 / 4];
    static float scales[BLOCKS * 16], offsets[BLOCKS * 16];
    struct copse_gguf_packing p;
    assert_int_equal(copse__gguf_packing(file, "blocks", &p), b->elements > 1);
    if (b->elements == 1)
        return;
    OK(copse__gguf_read_packed(
        file, "blocks",
        &(struct copse_gguf_packed){ words, scales, p.has_offsets ? offsets : NULL }));
    for (size_t i = 0; i < BLOCKS * b->elements; i++) {
        const uint32_t per_word = 32 / p.bits, mask = (1u << p.bits) - 1,
                       stored = words[i / per_word] >> p.bits * (i % per_word) & mask;
        const int number = (int)stored - (p.has_offsets ? 0 : 1 << (p.bits - 1));
        const float product = (float)number * scales[i / p.group];
        const float value = p.has_offsets ? product + offsets[i / p.group] : product;
        /* the product is exact, so that a fused multiply-add gives the same number */
        assert_true((double)product == (double)number * (double)scales[i / p.group]);
        assert_memory_equal(&value, &values[i], sizeof value);
    }
}

static void test_blocks(void **state)
{
    static unsigned char bytes[BLOCKS * 256];
    static float values[BLOCKS * 256];
    (void)state;
    for (size_t c = 0; c < COPSE_COUNT(block_cases); c++) {
        const struct block_case *b = &block_cases[c];
        struct gguf_file f = { .key_count = 0 };
        const uint64_t shape[2] = { BLOCKS / 4, 4 * b->elements };
        uint32_t random = b->type + 1;
        for (size_t i = 0; i < BLOCKS * b->bytes; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[i] = (unsigned char)(random >> 24);
            if (i % b->bytes == b->halves[0] || i % b->bytes == b->halves[1])
                bytes[i] &= 0xbf;
        }
        gguf_tensor(&f, "blocks", b->type, 2, shape, bytes, BLOCKS * b->bytes);
        OK(open_made(&f));
        OK(copse_gguf_read(file, "blocks", values, BLOCKS * b->elements));
        const uint64_t hash =
            copse__hash(COPSE_HASH_START, values, BLOCKS * b->elements * sizeof *values);
        if (hash != b->hash)
            fail_msg("%s: other bits: %016llx", copse_gguf_tensors(file, NULL)->type,
                     (unsigned long long)hash);
        assert_packed(b, values);
        copse_gguf_release(&file);
        gguf_free(&f);
    }
}

/* ---- what is refused ---- */

static void test_refused_heads(void **state)
{
    static const struct {
        size_t at;
        unsigned char byte;
        const char *text;
    } cases[] = {
        { 0, 'g', "does not begin with \"GGUF\"" },
        { 4, 1, "has version 1; 2 and 3 are read" },
        { 4, 4, "has version 4" },
        { 15, 0x80, "and 9223372036854775808 tensors" }, /* 2^63 of them */
        { 23, 0x80, "promises 9223372036854775809 keys" },
        { 10, 1, "promises 1 keys and 65536 tensors" },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        struct gguf_file f = { .key_count = 0 };
        gguf_key_u32(&f, "key", 1);
        gguf_bytes(&f);
        f.all.at[cases[i].at] = cases[i].byte;
        FAILS(COPSE_ERR_FORMAT,
              copse_gguf_open(ctx, temp_write("made.gguf", f.all.at, f.all.size), &file),
              cases[i].text);
        assert_null(file);
        gguf_free(&f);
    }
    FAILS(COPSE_ERR_FORMAT, copse_gguf_open(ctx, temp_write("made.gguf", "GGUF", 4), &file),
          "has only 4 bytes");
    FAILS(COPSE_ERR_IO, copse_gguf_open(ctx, temp_path("absent"), &file), "cannot open");
}

static void test_refused_keys(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    char long_name[1026];
    (void)state;
    memset(long_name, 'n', 1025);
    long_name[1025] = '\0';
    gguf_key_u32(&f, "a", 1), gguf_key_u32(&f, "a", 2);
    assert_refused(&f, "the key \"a\" is there twice");
    gguf_key_u32(&f, "\xff", 1);
    assert_refused(&f, "is not 1 to 1024 bytes of UTF-8");
    gguf_key_u32(&f, long_name, 1);
    assert_refused(&f, "is not 1 to 1024 bytes of UTF-8");
    gguf_key(&f, "b", 7), gguf_number(&f.keys, 2, 1);
    assert_refused(&f, "is neither true nor false");
    gguf_key(&f, "form", 13), gguf_number(&f.keys, 0, 8);
    assert_refused(&f, "the form 13, which the format lacks");
    gguf_key_list(&f, "lists", 9, 1), gguf_number(&f.keys, 0, 16);
    assert_refused(&f, "the form 9, which the format allows, but no model needs");
    gguf_key_list(&f, "many", 8, UINT64_MAX / 8 + 2);
    assert_refused(&f, "texts, more than the file has bytes for");
    gguf_key_list(&f, "many", 10, UINT64_MAX / 8 + 2);
    assert_refused(&f, "values, more than the file has bytes for");
    gguf_key(&f, "text", 8), gguf_number(&f.keys, UINT64_MAX - 3, 8);
    assert_refused(&f, "ends before its description");
    gguf_key_u32(&f, "general.alignment", 24);
    assert_refused(&f, "is not a power of two");
    gguf_key_text(&f, "general.alignment", "32");
    assert_refused(&f, "is not a power of two");
}

static void test_refused_tensors(void **state)
{
    const uint64_t four = 4, zero = 0, huge[2] = { (uint64_t)1 << 63, 2 },
                   wrap[2] = { (uint64_t)1 << 32, (uint64_t)1 << 32 }, seven = 7,
                   axes[5] = { 1, 1, 1, 1, 1 };
    struct gguf_file f = { .key_count = 0 };
    (void)state;
    gguf_matrix(&f, "a", 0, 4, six), gguf_matrix(&f, "a", 0, 4, six);
    assert_refused(&f, "the tensor \"a\" is there twice");
    gguf_matrix(&f, "a", 2, 3, six), gguf_entry(&f, "b", 0, 1, &four, 0);
    assert_refused(&f, "overlap");
    gguf_matrix(&f, "a", 2, 3, six), gguf_entry(&f, "b", 0, 1, &four, 32);
    assert_refused(&f, "ends before the tensor \"b\": is the file complete?");
    gguf_matrix(&f, "a", 2, 3, six), gguf_entry(&f, "b", 0, 1, &four, 8);
    assert_refused(&f, "is not a multiple of 32");
    gguf_entry(&f, "b", 0, 1, &four, UINT64_MAX - 31);
    assert_refused(&f, "ends before the tensor \"b\"");
    gguf_entry(&f, "b", 0, 1, &zero, 0);
    assert_refused(&f, "is empty or larger than the file");
    gguf_entry(&f, "b", 0, 2, huge, 0);
    assert_refused(&f, "is empty or larger than the file");
    gguf_entry(&f, "b", 0, 2, wrap, 0);
    assert_refused(&f, "is empty or larger than the file");
    gguf_entry(&f, "b", 8, 1, &seven, 0);
    assert_refused(&f, "has rows of 7 elements, and Q8_0 has blocks of 32");
    gguf_entry(&f, "b", 4, 1, &four, 0);
    assert_refused(&f, "has the unknown type 4");
    gguf_entry(&f, "b", 0xffffffffu, 1, &four, 0);
    assert_refused(&f, "has the unknown type 4294967295");
    gguf_entry(&f, "b", 0, 5, axes, 0);
    assert_refused(&f, "has 5 axes; it may have 1 to 4");
    gguf_entry(&f, "b", 0, 0, axes, 0);
    assert_refused(&f, "has 0 axes; it may have 1 to 4");
}

/* Wherever a file is cut off, it is refused, and nothing is lost. */
static void test_truncated(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    struct copse_memory_stats before, after;
    (void)state;
    put_every_form(&f);
    gguf_matrix(&f, "a", 2, 3, six);
    gguf_bytes(&f);
    copse_context_memory(ctx, &before);
    for (size_t size = 0; size < f.all.size; size++) {
        const char *path = temp_write("cut.gguf", f.all.at, size);
        assert_int_equal(copse_gguf_open(ctx, path, &file), COPSE_ERR_FORMAT);
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
    gguf_free(&f);
}

/* A file that shrinks after it was opened is an error, no crash. */
static void test_shrinks(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    float values[6];
    (void)state;
    gguf_matrix(&f, "a", 2, 3, six);
    OK(open_made(&f));
    assert_int_equal(truncate(temp_path("made.gguf"), (off_t)f.all.size - 1), 0);
    FAILS(COPSE_ERR_IO, copse_gguf_read(file, "a", values, 6), "it changed meanwhile");
    copse_gguf_release(&file);
    gguf_free(&f);
}

/* Opening a file of 8 GB, nearly all of it holes, takes little memory. */
static void test_large_file(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    const uint64_t shape[2] = { 1 << 16, 1 << 15 };
    struct rusage before, after;
    float *values = NULL;
    (void)state;
    gguf_entry(&f, "large", 0, 2, shape, 0);
    gguf_bytes(&f);
    const char *path = temp_write("large.gguf", f.all.at, f.all.size);
    if (truncate(path, (off_t)(f.all.size + ((uint64_t)8 << 30))) != 0) {
        print_message("skipped: the disk has no files with holes\n");
        gguf_free(&f);
        return;
    }
    getrusage(RUSAGE_SELF, &before);
    OK(copse_gguf_open(ctx, path, &file));
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 8 << 10); /* KiB */
    assert_true(copse_gguf_find(file, "large")->bytes == (uint64_t)8 << 30);
    FAILS(COPSE_ERR_ARGUMENT, copse_gguf_read(file, "large", (values = malloc(4)), 1),
          "has 2147483648 elements, not 1");
    free(values);
    copse_gguf_release(&file);
    OK(copse__file_remove(path));
    gguf_free(&f);
}

/* Lists that no description has room for take no memory, however large the file is. */
static void test_large_list(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    struct rusage before, after;
    (void)state;
    gguf_key_list(&f, "many", 8, (uint64_t)1 << 27);
    gguf_bytes(&f);
    const char *path = temp_write("large.gguf", f.all.at, f.all.size);
    if (truncate(path, (off_t)2 << 30) != 0) {
        print_message("skipped: the disk has no files with holes\n");
        gguf_free(&f);
        return;
    }
    getrusage(RUSAGE_SELF, &before);
    FAILS(COPSE_ERR_FORMAT, copse_gguf_open(ctx, path, &file),
          "has 134217728 texts, more than a description has bytes for");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 8 << 10); /* KiB */
    OK(copse__file_remove(path));
    gguf_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_refused_heads),
        cmocka_unit_test(test_refused_keys), cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_truncated),    cmocka_unit_test(test_shrinks),
        cmocka_unit_test(test_large_file),   cmocka_unit_test(test_large_list),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
