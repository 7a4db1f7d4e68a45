/* SPDX-License-Identifier: MIT */
/* A safetensors file costs memory for what is read of it: a small multiple of the header, and the
   arrays that are used. */
#include <sys/resource.h>
#include <unistd.h>

#include "tests/rig/rig.h"

#include "copse/data/checkpoint.h"
#include "copse/train/model_file.h"
#include "copse/train/weights.h"
#include "core/base/base.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static copse_checkpoint *file;

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

/* ---- a limit of the process ---- */

#define SPARE ((size_t)4 << 20)

static struct rlimit before;

/* Let the process get so many bytes more; the parser does not use the library's allocator. With a
   sanitizer there is no limit: it maps terabytes. */
static void allow(size_t bytes)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit now = before;
    now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
#else
    (void)bytes;
    getrlimit(RLIMIT_AS, &before);
#endif
}

static void allow_all(void)
{
    setrlimit(RLIMIT_AS, &before);
}

/* ---- headers ---- */

static char *header;
static size_t length;

static void put(const char *text)
{
    const size_t n = strlen(text);
    memcpy(header + length, text, n);
    length += n;
}

static const char *finish(uint64_t data)
{
    const char *path = temp_path("made.safetensors");
    unsigned char digits[8];
    for (int i = 0; i < 8; i++)
        digits[i] = (unsigned char)((uint64_t)length >> (8 * i));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fwrite(digits, 1, 8, f) == 8 && fwrite(header, 1, length, f) == length);
    fflush(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)(8 + length + data)), 0); /* holes: no disk */
    fclose(f);
    return path;
}

#define HEADER ((size_t)8 << 20)

static void expect_header(const char *what, copse_status expected, const char *text)
{
    const char *path = finish(0);
    copse_checkpoint *got = NULL;
    allow(16 * length + SPARE);
    const copse_status s = copse_checkpoint_open(ctx, path, &got);
    allow_all();
    if (s != expected || (s != COPSE_OK && !strstr(copse_last_error(), text)))
        fail_msg("%s, %zu bytes: %s: %s", what, length, copse_status_name(s), copse_last_error());
    copse_checkpoint_release(&got);
    length = 0;
}

static void test_a_header_costs_a_small_multiple_of_its_bytes(void **state)
{
    char text[100];
    (void)state;
    header = malloc(HEADER + 200);
    assert_non_null(header);
    put("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[0");
    while (length < HEADER)
        put(",0");
    put("]}}");
    expect_header("a long shape", COPSE_ERR_FORMAT,
                  "the array \"a\" has more than a type, a shape");
    put("{\"a\":[[]");
    while (length < HEADER)
        put(",[]");
    put("]}");
    expect_header("empty arrays", COPSE_ERR_FORMAT, "the array \"a\" has more than");
    put("{\"a\":{}");
    for (unsigned i = 0; length < HEADER; i++) {
        snprintf(text, sizeof text, ",\"%x\":{}", i + 16);
        put(text);
    }
    put("}");
    expect_header("empty objects", COPSE_ERR_FORMAT, "has no known dtype");
    for (unsigned i = 0; i < 100000; i++) {
        snprintf(text, sizeof text,
                 "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{",
                 i);
        put(text);
    }
    put("}");
    expect_header("small arrays", COPSE_OK, "");
    put("{\"__metadata__\":{\"a\":\"\"");
    for (unsigned i = 16; length < HEADER; i++) {
        snprintf(text, sizeof text, ",\"%x\":\"%x\"", i, i);
        put(text);
    }
    put("}}");
    expect_header("small lines", COPSE_OK, "");
    free(header);
}

/* ---- arrays ---- */

/* "w" [2] = { 1, 2 }, then 5 GB that are holes; "v" [2] = { 0, 0 } after them. */
static const char *large(void)
{
    static char room[500];
    header = room;
    length = 0;
    put("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"large\":{\"dtype\":\"F32\",\"shape\":[1342177280],\"data_offsets\":[8,5368709128]},"
        "\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[5368709128,5368709136]}}");
    const char *path = finish(5368709136);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 8 + (long)length, SEEK_SET), 0);
    assert_int_equal(fwrite((const float[]){ 1, 2 }, 4, 2, f), 2);
    fclose(f);
    return path;
}

static void test_arrays_are_read_when_they_are_used(void **state)
{
    const char *path = large();
    size_t count;
    (void)state;
    allow(SPARE);
    OK(copse_checkpoint_open(ctx, path, &file));
    assert_int_equal(copse_checkpoint_arrays(file, &count)[1].array.shape[0], 1342177280);
    assert_int_equal(count, 3);
    const struct copse_array_view *w = copse_checkpoint_find(file, "w"),
                                  *v = copse_checkpoint_find(file, "v");
    assert_null(w->data);
    OK(copse_checkpoint_fetch(file, "v"));
    assert_true(((const float *)v->data)[1] == 0);
    OK(copse_checkpoint_fetch(file, "w"));
    const float *data = w->data;
    assert_true(data[0] == 1 && data[1] == 2);
    OK(copse_checkpoint_fetch(file, "w"));
    assert_ptr_equal(data, w->data);
    FAILS(COPSE_ERR_ARGUMENT, copse_checkpoint_fetch(file, "x"),
          "made.safetensors has no array 'x'");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    FAILS(COPSE_ERR_NO_MEMORY, copse_checkpoint_fetch(file, "large"), "for 'large' of");
    assert_null(copse_checkpoint_find(file, "large")->data);
#endif
    allow_all();
    copse_checkpoint_release(&file);
}

static void test_a_file_that_became_shorter(void **state)
{
    const char *path = large();
    (void)state;
    OK(copse_checkpoint_open(ctx, path, &file));
    assert_int_equal(truncate(path, 300), 0);
    FAILS(COPSE_ERR_IO, copse_checkpoint_fetch(file, "v"), "it changed meanwhile");
    assert_null(copse_checkpoint_find(file, "v")->data);
    copse_checkpoint_release(&file);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *product = copse_mul(g, rig_x(in), copse_variable_tensor(user));
    return copse_mean(g, product, NULL, 0, false);
}

/* As `copse train --init`. */
static void test_a_trainer_reads_what_its_variables_take(void **state)
{
    const char *path = large();
    copse_strategy *st;
    copse_variable *w, *own;
    copse_trainer *t;
    struct copse_load_report report;
    float got[2];
    (void)state;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(2) }, &w));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "large", .shape = COPSE_SHAPE(3) }, &own));
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = loss, .user = w }, &t));
    allow(SPARE);
    FAILS(COPSE_ERR_SHAPE, copse_trainer_load(t, path, NULL, NULL), "large");
    allow_all();
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(2) }, &w));
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = loss, .user = w }, &t));
    allow(SPARE);
    OK(copse_trainer_load(t, path, NULL, &report));
    allow_all();
    assert_int_equal(report.matched_count, 1);
    assert_int_equal(report.unused_count, 2);
    OK(copse_variable_read(w, 0, got));
    assert_true(got[0] == 1 && got[1] == 2);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_costs_a_small_multiple_of_its_bytes),
        cmocka_unit_test(test_arrays_are_read_when_they_are_used),
        cmocka_unit_test(test_a_file_that_became_shorter),
        cmocka_unit_test(test_a_trainer_reads_what_its_variables_take),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
