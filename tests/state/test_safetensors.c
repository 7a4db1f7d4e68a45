/* SPDX-License-Identifier: MIT */
/* Checkpoints: what was written comes back, and what breaks a rule of the format is refused. */
#include <signal.h>
#include <sys/resource.h>

#include "tests/rig/rig.h"

#include "copse/data/checkpoint.h"
#include "core/base/base.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static copse_checkpoint *checkpoint;

static int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(NULL, &ctx) != COPSE_OK;
}

static int end(void **state)
{
    (void)state;
    copse_checkpoint_release(&checkpoint);
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

static void assert_error(copse_status expected, copse_status got, const char *text)
{
    FAILS(expected, got, text);
    assert_null(checkpoint);
}

/* A file with this header and `size` bytes of data. */
static const char *make(const char *header, size_t size)
{
    static unsigned char bytes[8192];
    size_t n = strlen(header);

    memset(bytes, 0, sizeof bytes);
    bytes[0] = (unsigned char)n;
    bytes[1] = (unsigned char)(n >> 8);
    memcpy(bytes + 8, header, n);
    return temp_write("made.safetensors", bytes, 8 + n + size);
}

static copse_status parse(const char *header, size_t size)
{
    return copse_checkpoint_read(ctx, make(header, size), &checkpoint);
}

static const float weights[6] = { 1, -2, 3.5f, 0, 1e-40f, 3e38f };
static const int32_t step = 12345;
static const uint8_t odd[3] = { 1, 2, 255 };
static const double precise = 0.1;

static const struct copse_named_array arrays[] = {
    { "layer.0/weight \"q\" \n \xc3\xa4", { COPSE_F32, 2, { 2, 3 }, weights } },
    { "odd", { COPSE_U8, 1, { 3 }, odd } },
    { "empty", { COPSE_F32, 2, { 0, 7 }, NULL } },
    { "step", { COPSE_I32, 0, { 0 }, &step } },
    { "a", { COPSE_F64, 1, { 1 }, &precise } },
};
static const struct copse_metadata metadata[] = { { "format", "copse" }, { "tab\there", "" } };

static const char *write_arrays(const char *name)
{
    const char *path = temp_path(name);

    OK(copse_checkpoint_write(ctx, path,
                              &(struct copse_checkpoint_params){ .arrays = arrays,
                                                                 .array_count = COPSE_COUNT(arrays),
                                                                 .metadata = metadata,
                                                                 .metadata_count = 2 }));
    return path;
}

static size_t load(const char *path, unsigned char *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(bytes, 1, room, f) : 0;

    if (f != NULL)
        fclose(f);
    return n;
}

static void test_what_was_written_comes_back(void **state)
{
    size_t count;

    (void)state;
    OK(copse_checkpoint_read(ctx, write_arrays("w"), &checkpoint));
    const struct copse_named_array *got = copse_checkpoint_arrays(checkpoint, &count);
    assert_int_equal(count, COPSE_COUNT(arrays));
    for (size_t i = 0; i < count; i++) {
        const struct copse_array_view *a = &arrays[i].array, *b = &got[i].array;
        size_t bytes = copse_type_size(a->type);
        assert_string_equal(arrays[i].name, got[i].name);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->rank, b->rank);
        for (uint32_t k = 0; k < a->rank; k++) {
            assert_int_equal(a->shape[k], b->shape[k]);
            bytes *= a->shape[k];
        }
        if (bytes > 0)
            assert_memory_equal(a->data, b->data, bytes);
    }
    const struct copse_metadata *m = copse_checkpoint_metadata(checkpoint, &count);
    assert_int_equal(count, 2);
    assert_string_equal(m[0].key, "format");
    assert_string_equal(m[0].value, "copse");
    assert_string_equal(m[1].key, "tab\there");
    assert_string_equal(m[1].value, "");
    assert_int_equal(*(const int32_t *)copse_checkpoint_find(checkpoint, "step")->data, 12345);
    assert_null(copse_checkpoint_find(checkpoint, "other"));
    copse_checkpoint_release(&checkpoint);
}

static void test_file_layout(void **state)
{
    static const char expected[] =
        "{\"__metadata__\":{\"k\":\"v\"},\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[0,24]}}";
    unsigned char bytes[1000];
    const char *path = temp_path("layout");
    const struct copse_named_array x = { "x", { COPSE_F32, 2, { 2, 3 }, weights } };
    const struct copse_metadata kv = { "k", "v" };

    (void)state;
    OK(copse_checkpoint_write(
        ctx, path,
        &(struct copse_checkpoint_params){
            .arrays = &x, .array_count = 1, .metadata = &kv, .metadata_count = 1 }));
    size_t n = load(path, bytes, sizeof bytes);
    assert_int_equal(n, 128 + 24);
    assert_memory_equal(bytes, "\x78\0\0\0\0\0\0\0", 8);
    assert_memory_equal(bytes + 8, expected, sizeof expected - 1);
    for (size_t i = 8 + sizeof expected - 1; i < 128; i++)
        assert_int_equal(bytes[i], ' ');
    assert_memory_equal(bytes + 128, weights, 24);

    OK(copse_checkpoint_write(ctx, path, &(struct copse_checkpoint_params){ 0 }));
    assert_int_equal(load(path, bytes, sizeof bytes), 64);
    OK(copse_checkpoint_read(ctx, path, &checkpoint));
    copse_checkpoint_release(&checkpoint);
}

static void test_rewriting_leaves_one_file(void **state)
{
    size_t before = temp_count();

    (void)state;
    write_arrays("again");
    write_arrays("again");
    assert_int_equal(temp_count(), before + 1);
}

static copse_status write_one(const struct copse_named_array *list, size_t count)
{
    return copse_checkpoint_write(
        ctx, temp_path("refused"),
        &(struct copse_checkpoint_params){ .arrays = list, .array_count = count });
}

static void test_bad_arguments_write_nothing(void **state)
{
    size_t before = temp_count();
    struct copse_named_array two[2] = { arrays[1], arrays[1] };
    static char longer[1026];

    (void)state;
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "\"odd\" is there twice");
    two[1].name = "__metadata__";
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "array 1 has no allowed name");
    two[1].name = "\xff";
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "array 1 has no allowed name");
    memset(longer, 'x', 1025);
    two[1].name = longer;
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "array 1 has no allowed name");
    two[1].name = "b";
    two[1].array.data = NULL;
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "array 1 has no elements");
    two[1].array.rank = 9;
    assert_error(COPSE_ERR_ARGUMENT, write_one(two, 2), "array 1 has no allowed type and shape");
    const struct copse_metadata twice[2] = { { "k", "v" }, { "k", "w" } };
    assert_error(COPSE_ERR_ARGUMENT,
                 copse_checkpoint_write(
                     ctx, temp_path("refused"),
                     &(struct copse_checkpoint_params){ .metadata = twice, .metadata_count = 2 }),
                 "\"k\" is there twice");
    assert_int_equal(
        copse_checkpoint_write(ctx, temp_path("no/folder"), &(struct copse_checkpoint_params){ 0 }),
        COPSE_ERR_IO);
    assert_int_equal(temp_count(), before);
}

#define X "\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}"
#define Y "\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}"

static void test_foreign_files_within_the_rules_are_read(void **state)
{
    static const struct {
        const char *header;
        size_t size;
    } cases[] = {
        { "{}", 0 },
        { "{" X "," Y "}", 3 },
        { "{" Y "," X "}", 3 }, /* not in the order of the data */
        { " \n{ " X " } \t\r\n", 2 },
        { "{\"x\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\"},\"__metadata__\":{}}",
          4 },
        { "{\"\\u00e4\\ud83c\\udf33\":{\"dtype\":\"BF16\",\"shape\":[0,9],\"data_offsets\":[0,0]}}",
          0 },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(parse(cases[i].header, cases[i].size));
        copse_checkpoint_release(&checkpoint);
    }
}

static void test_files_that_break_a_rule_are_refused(void **state)
{
#define Z(fields) "{\"z\":{" fields "}}"
#define D         "\"dtype\":\"U8\""
    static const struct {
        const char *header;
        size_t size;
        const char *error;
    } cases[] = {
        { "", 0, "not one JSON object" },
        { "[]", 0, "not one JSON object" },
        { "{", 0, "not one JSON object" },
        { "{}{}", 0, "not one JSON object" },
        { "{" X ",}", 2, "not one JSON object" },
        { "{" X " " Y "}", 3, "not one JSON object" },
        { "{" X "}", 1, "promises 2 bytes of data, there are 1" },
        { "{" X "}", 3, "promises 2 bytes of data, there are 3" },
        { "{" X "," X "}", 2, "\"x\" is there twice" },
        { "{" X ",\"\\u0078\":{" D ",\"shape\":[1],\"data_offsets\":[2,3]}}", 3,
          "\"x\" is there twice" },
        { "{" Y "}", 3, "leaves a gap" },
        { "{" X ",\"y\":{" D ",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, "overlaps" },
        { "{" X ",\"y\":{" D ",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "overlaps" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "is not text" },
        { "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "\"a\" is there twice" },
        { "{\"__metadata__\":\"a\"}", 0, "no object" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "there twice" },
        { "{\"z\":1}", 0, "is no object" },
        { Z(D ",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1"), 1, "unknown field" },
        { Z(D "," D ",\"shape\":[1],\"data_offsets\":[0,1]"), 1, "field twice" },
        { Z(D ",\"shape\":[1]"), 1, "data_offsets" },
        { Z(D ",\"data_offsets\":[0,1]"), 1, "shape" },
        { Z("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "dtype" },
        { Z("\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, "dtype" },
        { Z(D ",\"shape\":[3],\"data_offsets\":[0,2]"), 2, "do not fit its shape" },
        { Z(D ",\"shape\":[],\"data_offsets\":[0,0]"), 0, "do not fit its shape" },
        { Z(D ",\"shape\":[1],\"data_offsets\":[2,1]"), 1, "data_offsets" },
        { Z(D ",\"shape\":[1],\"data_offsets\":[0,1,1]"), 1, "data_offsets" },
        { Z(D ",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]"), 1, "at most 8 axes" },
        { Z(D ",\"shape\":[\"1\"],\"data_offsets\":[0,1]"), 1, "shape" },
        { Z("\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
          "memory" },
        { Z("\"dtype\":\"F64\",\"shape\":[4294967296,0,4294967296],\"data_offsets\":[0,0]"), 0,
          "memory" },
        { Z("\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]"), 0,
          "forbids" },
        { Z(D ",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, "forbids" },
        { Z(D ",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1, "forbids" },
        { Z(D ",\"shape\":[1e0],\"data_offsets\":[0,1]"), 1, "forbids" },
        { Z(D ",\"shape\":[01],\"data_offsets\":[0,1]"), 1, "forbids" },
        { Z(D ",\"shape\":[[1]],\"data_offsets\":[0,1]"), 1, "forbids" },
        { Z(D ",\"shape\":[true],\"data_offsets\":[0,1]"), 1, "forbids" },
        { "{\"a\\u0000b\":{" D ",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "forbids" },
        { "{\"a\\x\":{" D ",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "forbids" },
        { "{\"a\\ud83c\":{" D ",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not one JSON object" },
        { "{\"a\nb\":{" D ",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "forbids" },
        { "{\"a\xff\":{" D ",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not UTF-8 at byte 11" },
        { "{\"open", 1, "forbids" },
        { "[[[[", 0, "forbids" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        assert_error(COPSE_ERR_FORMAT, parse(cases[i].header, cases[i].size), cases[i].error);
}

static void test_lengths_that_lie_are_refused(void **state)
{
    unsigned char bytes[16] = { 0 };

    (void)state;
    memset(bytes, 0xff, 8);
    assert_error(COPSE_ERR_FORMAT,
                 copse_checkpoint_read(ctx, temp_write("l", bytes, 16), &checkpoint),
                 "a header of");
    memcpy(bytes, "\x09\0\0\0\0\0\0\0{}      ", 16);
    assert_error(COPSE_ERR_FORMAT,
                 copse_checkpoint_read(ctx, temp_write("l", bytes, 16), &checkpoint),
                 "a header of 9");
    bytes[0] = 8;
    OK(copse_checkpoint_read(ctx, temp_write("l", bytes, 16), &checkpoint));
    copse_checkpoint_release(&checkpoint);
    assert_error(COPSE_ERR_IO, copse_checkpoint_read(ctx, temp_path("none"), &checkpoint), "none");
}

static void test_every_truncation_and_every_addition_is_refused(void **state)
{
    unsigned char bytes[1000] = { 0 };
    size_t size = load(write_arrays("t"), bytes, sizeof bytes);
    struct copse_memory_stats before, after;

    (void)state;
    copse_context_memory(ctx, &before);
    assert_in_range(size, 100, 990);
    for (size_t n = 0; n < size + 5; n++)
        if (n != size)
            assert_error(COPSE_ERR_FORMAT,
                         copse_checkpoint_read(ctx, temp_write("t", bytes, n), &checkpoint), "");
    copse_context_memory(ctx, &after);
    assert_int_equal(before.live_blocks, after.live_blocks);
}

static void test_full_disk_leaves_the_old_file(void **state)
{
    static float large[100000];
    const struct copse_named_array list[] = {
        { "large", { COPSE_F32, 1, { 100000 }, large } },
    };
    struct rlimit limit, small;
    const char *path = write_arrays("kept");
    size_t before = temp_count();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 1; room < 400000; room = room * 5) {
        small = limit;
        small.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        copse_status s = copse_checkpoint_write(
            ctx, path, &(struct copse_checkpoint_params){ .arrays = list, .array_count = 1 });
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(s, COPSE_ERR_IO);
        assert_int_equal(temp_count(), before);
        OK(copse_checkpoint_read(ctx, path, &checkpoint));
        assert_non_null(copse_checkpoint_find(checkpoint, "odd"));
        copse_checkpoint_release(&checkpoint);
    }
}

static struct {
    long left;
} hunger = { -1 };

static void *hungry(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (hunger.left == 0)
        return NULL;
    if (hunger.left > 0)
        hunger.left--;
    return realloc(block, size);
}

static void test_every_allocation_may_fail(void **state)
{
    const struct copse_context_params params = { .resize = hungry, .disable = "opencl,vulkan" };
    const char *path = temp_path("hungry");
    size_t files = temp_count() + 1;
    struct copse_memory_stats before, after;
    copse_context *c;
    copse_status s;
    long n = 0;

    (void)state;
    write_arrays("hungry");
    OK(copse_context_create(&params, &c));
    copse_context_memory(c, &before);
    do {
        hunger.left = n++;
        s = copse_checkpoint_write(
            c, path,
            &(struct copse_checkpoint_params){ .arrays = arrays,
                                               .array_count = COPSE_COUNT(arrays),
                                               .metadata = metadata,
                                               .metadata_count = 2 });
        if (s == COPSE_OK)
            s = copse_checkpoint_read(c, path, &checkpoint);
        hunger.left = -1;
        if (s != COPSE_OK && s != COPSE_ERR_NO_MEMORY)
            fail_msg("allocation %ld: %s: %s", n, copse_status_name(s), copse_last_error());
        copse_checkpoint_release(&checkpoint);
        copse_context_memory(c, &after);
        assert_int_equal(before.live_blocks, after.live_blocks);
        assert_int_equal(temp_count(), files);
    } while (s != COPSE_OK);
    assert_in_range(n, 10, 100);
    copse_context_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_comes_back),
        cmocka_unit_test(test_file_layout),
        cmocka_unit_test(test_rewriting_leaves_one_file),
        cmocka_unit_test(test_bad_arguments_write_nothing),
        cmocka_unit_test(test_foreign_files_within_the_rules_are_read),
        cmocka_unit_test(test_files_that_break_a_rule_are_refused),
        cmocka_unit_test(test_lengths_that_lie_are_refused),
        cmocka_unit_test(test_every_truncation_and_every_addition_is_refused),
        cmocka_unit_test(test_full_disk_leaves_the_old_file),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
