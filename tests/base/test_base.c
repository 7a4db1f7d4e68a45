/* SPDX-License-Identifier: MIT */
/* core/base: error text, checked memory, arenas, log, hash, random numbers, platform. */
#include <math.h>

#include "core/base/platform.h"
#include "core/base/random.h"
#include "tests/rig/fake/mem_rig.h"

/* ---- errors ---- */

static void failure_text_has_no_place_in_the_source(void **state)
{
    (void)state;
    const int line = __LINE__ + 1;
    assert_int_equal(copse_fail(COPSE_ERR_SHAPE, "shape: %d x %d", 3, 4), COPSE_ERR_SHAPE);
    char want[64];
    snprintf(want, sizeof want, "test_base.c:%d", line);
    assert_string_equal(copse_last_error(), "shape: 3 x 4");
    assert_string_equal(copse_last_error_place(), want);
    char text[64];
    snprintf(text, sizeof text, "%s", copse_last_error());
    copse__fail_again(text); /* of another thread */
    assert_string_equal(copse_last_error(), "shape: 3 x 4");
    assert_string_equal(copse_last_error_place(), "");
}

static void notes_are_appended_and_keep_the_code(void **state)
{
    (void)state;
    copse_fail(COPSE_ERR_IO, "file: gone");
    assert_int_equal(copse_note(COPSE_ERR_IO, "while reading '%s'", "a"), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "file: gone; while reading 'a'"));
    assert_int_equal(copse_note(COPSE_OK, "while idle"), COPSE_OK);
    assert_null(strstr(copse_last_error(), "idle"));
}

static void failure_text_may_contain_the_last_one(void **state)
{
    (void)state;
    copse_fail(COPSE_ERR_IO, "inner");
    copse_fail(COPSE_ERR_COMM, "outer [%s]", copse_last_error());
    assert_non_null(strstr(copse_last_error(), "outer [inner]"));
}

static void long_failure_text_is_cut(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    copse_fail(COPSE_ERR_COMPILE, "%s", text);
    assert_int_equal(strlen(copse_last_error()), 1023);
    assert_non_null(strstr(copse_last_error_place(), "test_base.c:"));
    copse_note(COPSE_ERR_COMPILE, "%s", text);
    assert_int_equal(strlen(copse_last_error()), 1023);
}

static void every_status_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(copse_status_name(COPSE_OK), "OK");
    assert_string_equal(copse_status_name(COPSE_ERR_INTERNAL), "ERR_INTERNAL");
    assert_string_equal(copse_status_text(COPSE_ERR_END), "no more elements");
    assert_string_equal(copse_status_name((copse_status)999), "unknown status");
    assert_non_null(copse_status_text((copse_status)-1));
}

static void fail_in_thread(void *arg)
{
    copse_fail(COPSE_ERR_IO, "of the other thread");
    *(bool *)arg = strstr(copse_last_error(), "other thread") != NULL;
}

static void failure_text_belongs_to_its_thread(void **state)
{
    (void)state;
    copse_thread thread;
    bool has_run = false;
    copse_fail(COPSE_ERR_IO, "of this thread");
    assert_int_equal(copse__thread_start(&thread, fail_in_thread, &has_run), COPSE_OK);
    copse__thread_join(&thread);
    assert_true(has_run);
    assert_non_null(strstr(copse_last_error(), "of this thread"));
}

/* ---- memory ---- */

static void sizes_are_checked_for_overflow(void **state)
{
    (void)state;
    size_t n = 7;
    assert_true(copse__mul(SIZE_MAX / 2, 2, &n));
    assert_false(copse__mul(SIZE_MAX / 2 + 1, 2, &n));
    assert_true(copse__mul(SIZE_MAX, 0, &n));
    assert_int_equal(n, 0);
    assert_true(copse__add(SIZE_MAX - 1, 1, &n));
    assert_false(copse__add(SIZE_MAX, 1, &n));
    assert_null(copse__alloc(&mem, SIZE_MAX / 4, 8));
    assert_null(copse__alloc_aligned(&mem, SIZE_MAX - 8, 64));
    assert_int_equal(mem.live, 0);
}

static void blocks_are_zeroed_counted_and_never_empty(void **state)
{
    (void)state;
    unsigned char *p = copse__alloc(&mem, 0, 16);
    unsigned char *q = copse__alloc(&mem, 100, 1);
    assert_non_null(p);
    assert_int_equal(p[0], 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(q[i], 0);
    q[99] = 9;
    q = copse__resize(&mem, q, 1000, 1);
    assert_int_equal(q[99], 9);
    assert_int_equal(mem.live, 2);
    copse__free(&mem, p);
    copse__free(&mem, q);
    copse__free(&mem, NULL);
    assert_int_equal(mem.live, 0);
}

static void a_failed_resize_keeps_the_block(void **state)
{
    (void)state;
    char *p = copse__strdup(&mem, "kept");
    refuse = 1;
    assert_null(copse__resize(&mem, p, 100, 1));
    assert_null(copse__alloc(&mem, 1, 1));
    refuse = 0;
    assert_string_equal(p, "kept");
    assert_int_equal(mem.live, 1);
    copse__free(&mem, p);
}

static void aligned_blocks_are_aligned(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        unsigned char *p = copse__alloc_aligned(&mem, 33, alignment);
        assert_int_equal((uintptr_t)p % alignment, 0);
        assert_int_equal(p[32], 0);
        memset(p, 0xff, 33);
        copse__free_aligned(&mem, p);
    }
    copse__free_aligned(&mem, NULL);
    assert_int_equal(mem.live, 0);
}

static void arrays_grow_and_keep_their_elements(void **state)
{
    (void)state;
    struct {
        int *at;
        size_t count, room;
    } vec = { 0 };
    for (int i = 0; i < 1000; i++)
        assert_true(COPSE_PUSH(&mem, &vec, i));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(vec.at[i], i);
    refuse = 1;
    assert_false(COPSE_RESERVE(&mem, &vec, 100000));
    refuse = 0;
    assert_false(COPSE_RESERVE(&mem, &vec, SIZE_MAX / 2));
    assert_int_equal(vec.at[999], 999);
    copse__free(&mem, vec.at);
}

static void arena_blocks_are_zeroed_aligned_and_freed_at_once(void **state)
{
    (void)state;
    struct copse_arena arena = { .mem = &mem };
    for (size_t i = 0; i < 3000; i++) {
        unsigned char *p = copse__arena_alloc(&arena, i % 50, 1);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t j = 0; j < i % 50; j++)
            assert_int_equal(p[j], 0);
        memset(p, 0xff, i % 50);
    }
    unsigned char *large = copse__arena_alloc(&arena, 1, 1 << 20);
    large[(1 << 20) - 1] = 1;
    assert_string_equal(copse__arena_strdup(&arena, "text"), "text");
    assert_null(copse__arena_alloc(&arena, SIZE_MAX - 40, 1));
    assert_null(copse__arena_alloc(&arena, SIZE_MAX / 2, 4));
    copse__arena_fini(&arena);
    assert_int_equal(mem.live, 0);
}

/* ---- log, hash ---- */

static char logged[256];

static void take_line(void *user, copse_log_level level, const char *line)
{
    (void)user;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%d:%s|", (int)level, line);
}

static void log_lines_are_filtered_and_split(void **state)
{
    (void)state;
    const struct copse_logger silent = { .level = COPSE_LOG_TRACE };
    const struct copse_logger l = { take_line, NULL, COPSE_LOG_WARN };
    logged[0] = '\0';
    copse__log(&silent, COPSE_LOG_ERROR, "nowhere");
    copse__log(&l, COPSE_LOG_INFO, "too fine");
    copse__log(&l, COPSE_LOG_WARN, "a %d\n\nb\n", 1);
    copse__log(&l, COPSE_LOG_ERROR, "c");
    assert_string_equal(logged, "2:a 1|2:b|1:c|");
}

static void bytes_are_found_where_they_stand_first(void **state)
{
    static const char in[] = "a\0ab\0ab";
    (void)state;
    assert_ptr_equal(copse__find_bytes(in, sizeof in, "ab", 2), in + 2);
    assert_ptr_equal(copse__find_bytes(in, sizeof in, "b\0a", 3), in + 3);
    assert_ptr_equal(copse__find_bytes(in, sizeof in, "", 0), in);
    assert_null(copse__find_bytes(in, 3, "ab", 2));
    assert_null(copse__find_bytes(in, 1, "ab", 2));
    assert_null(copse__find_bytes(in, sizeof in, "c", 1));
}

static void hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_true(copse__hash(COPSE_HASH_START, "", 0) == 0xcbf29ce484222325ull);
    assert_true(copse__hash(COPSE_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cull);
    assert_true(copse__hash(COPSE_HASH_START, "foobar", 6) == 0x85944171f73967e8ull);
    assert_true(copse__hash(copse__hash(COPSE_HASH_START, "foo", 3), "bar", 3) ==
                0x85944171f73967e8ull);
}

/* ---- random numbers ---- */

/* The known answers that come with the authors' own implementation. */
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        uint32_t out[4];
        copse__philox(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].want, sizeof out);
    }
}

static void a_stream_counts_through_its_blocks(void **state)
{
    (void)state;
    struct copse_stream a, b;
    copse__stream_init(&a, 0x0123456789abcdefull, 5);
    for (uint32_t block = 0; block < 3; block++) {
        uint32_t want[4];
        copse__philox((uint32_t[]){ block, 0, 0, 5 }, (uint32_t[]){ 0x89abcdef, 0x01234567 }, want);
        for (int i = 0; i < 4; i++)
            assert_int_equal(copse__stream_u32(&a), want[i]);
    }
    copse__stream_init(&a, 1, 0);
    copse__stream_init(&b, 1, 1);
    assert_int_not_equal(copse__stream_u32(&a), copse__stream_u32(&b));

    /* A carry goes into the next counter word. */
    copse__stream_init(&a, 1, 0);
    a.counter[0] = UINT32_MAX;
    copse__stream_u32(&a);
    assert_int_equal(a.counter[0], 0);
    assert_int_equal(a.counter[1], 1);
}

static void stream_numbers_have_their_distribution(void **state)
{
    (void)state;
    enum { N = 60000 };
    struct copse_stream s;
    uint32_t count[6] = { 0 };
    double sum = 0, squares = 0, units = 0;

    copse__stream_init(&s, 42, 0);
    for (int i = 0; i < N; i++) {
        const uint32_t below = copse__stream_below(&s, 6);
        assert_in_range(below, 0, 5);
        count[below]++;
        const float unit = copse__stream_unit(&s);
        assert_true(unit >= 0.0f && unit < 1.0f);
        units += unit;
        const double normal = copse__stream_normal(&s);
        assert_true(isfinite(normal));
        sum += normal;
        squares += normal * normal;
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(count[i], N / 6 - 400, N / 6 + 400); /* 4.4 sigma */
    assert_true(fabs(units / N - 0.5) < 0.005);
    assert_true(fabs(sum / N) < 0.02);
    assert_true(fabs(squares / N - 1.0) < 0.03);
    assert_int_equal(copse__stream_below(&s, 1), 0);
}

/* ---- platform ---- */

struct ping {
    copse_mutex lock;
    copse_cond cond;
    int value;
};

static void answer(void *arg)
{
    struct ping *p = arg;
    copse__mutex_lock(&p->lock);
    p->value = 1;
    copse__cond_signal_all(&p->cond);
    copse__mutex_unlock(&p->lock);
}

static void conditions_wake_and_time_out(void **state)
{
    (void)state;
    struct ping p = { .value = 0 };
    copse_thread thread;
    assert_int_equal(copse__mutex_init(&p.lock), COPSE_OK);
    assert_int_equal(copse__cond_init(&p.cond), COPSE_OK);

    copse__mutex_lock(&p.lock);
    const uint64_t start = copse__now_ns();
    while (copse__cond_wait(&p.cond, &p.lock, start + 20000000))
        ;
    assert_true(copse__now_ns() - start >= 20000000);

    assert_int_equal(copse__thread_start(&thread, answer, &p), COPSE_OK);
    while (p.value == 0)
        assert_true(copse__cond_wait(&p.cond, &p.lock, copse__now_ns() + 10000000000ull));
    copse__mutex_unlock(&p.lock);
    copse__thread_join(&thread);
    copse__cond_fini(&p.cond);
    copse__mutex_fini(&p.lock);
}

static void the_clock_advances_by_what_was_slept(void **state)
{
    (void)state;
    const uint64_t start = copse__now_ns();
    copse__sleep_ns(5000000);
    assert_true(copse__now_ns() - start >= 5000000);
    assert_true(copse__cpu_count() >= 1);
}

static void a_missing_library_is_no_crash(void **state)
{
    (void)state;
    assert_null(copse__library_open((const char *const[]){ "libcopse-none.so.9", NULL }));
    copse__library_close(NULL);
    void *math =
        copse__library_open((const char *const[]){ "libcopse-none.so.9", "libm.so.6", NULL });
    if (math) { /* the C library may have another name elsewhere */
        assert_non_null(copse__library_symbol(math, "cos"));
        assert_null(copse__library_symbol(math, "copse_none"));
        copse__library_close(math);
    }
}

static void empty_variables_count_as_unset(void **state)
{
    (void)state;
    setenv("COPSE_TEST_VARIABLE", "", 1);
    assert_null(copse__env("COPSE_TEST_VARIABLE"));
    setenv("COPSE_TEST_VARIABLE", "x", 1);
    assert_string_equal(copse__env("COPSE_TEST_VARIABLE"), "x");
    unsetenv("COPSE_TEST_VARIABLE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_text_has_no_place_in_the_source),
        cmocka_unit_test(notes_are_appended_and_keep_the_code),
        cmocka_unit_test(failure_text_may_contain_the_last_one),
        cmocka_unit_test(long_failure_text_is_cut),
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(failure_text_belongs_to_its_thread),
        cmocka_unit_test(sizes_are_checked_for_overflow),
        cmocka_unit_test(blocks_are_zeroed_counted_and_never_empty),
        cmocka_unit_test(a_failed_resize_keeps_the_block),
        cmocka_unit_test(aligned_blocks_are_aligned),
        cmocka_unit_test(arrays_grow_and_keep_their_elements),
        cmocka_unit_test(arena_blocks_are_zeroed_aligned_and_freed_at_once),
        cmocka_unit_test(log_lines_are_filtered_and_split),
        cmocka_unit_test(bytes_are_found_where_they_stand_first),
        cmocka_unit_test(hash_is_fnv_1a),
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(a_stream_counts_through_its_blocks),
        cmocka_unit_test(stream_numbers_have_their_distribution),
        cmocka_unit_test(conditions_wake_and_time_out),
        cmocka_unit_test(the_clock_advances_by_what_was_slept),
        cmocka_unit_test(a_missing_library_is_no_crash),
        cmocka_unit_test(empty_variables_count_as_unset),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
