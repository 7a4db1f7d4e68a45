/* SPDX-License-Identifier: MIT */
/* core/base: error text, checked memory, arenas, log, hash, random numbers, platform. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/platform.h"
#include "core/base/random.h"

static int refuse; /* the allocator fails while this is set */

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return refuse ? NULL : realloc(block, size);
}

static struct copse_mem mem = { .resize = resize };

/* ---- errors ---- */

static void failure_text_names_file_and_line(void **state)
{
    (void)state;
    const int line = __LINE__ + 1;
    assert_int_equal(copse_fail(COPSE_ERR_SHAPE, "shape: %d x %d", 3, 4), COPSE_ERR_SHAPE);
    char want[64];
    snprintf(want, sizeof want, "shape: 3 x 4 (test_base.c:%d)", line);
    assert_string_equal(copse_last_error(), want);
}

static void notes_are_appended_and_keep_the_code(void **state)
{
    (void)state;
    copse_fail(COPSE_ERR_IO, "file: gone");
    assert_int_equal(copse_note(COPSE_ERR_IO, "while reading '%s'", "a"), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "); while reading 'a'"));
    assert_int_equal(copse_note(COPSE_OK, "while idle"), COPSE_OK);
    assert_null(strstr(copse_last_error(), "idle"));
}

static void failure_text_may_contain_the_last_one(void **state)
{
    (void)state;
    copse_fail(COPSE_ERR_IO, "inner");
    copse_fail(COPSE_ERR_COMM, "outer [%s]", copse_last_error());
    assert_non_null(strstr(copse_last_error(), "outer [inner (test_base.c:"));
}

static void long_failure_text_is_cut_but_keeps_its_place(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    copse_fail(COPSE_ERR_COMPILE, "%s", text);
    assert_int_equal(strlen(copse_last_error()), 1023);
    assert_non_null(strstr(copse_last_error(), "x (test_base.c:"));
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

static char folder[] = "/tmp/copse-test-XXXXXX";
static char target[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(target, sizeof target, "%s/file", folder);
    return 0;
}

/* Fails when a test left anything but the target behind. */
static int remove_folder(void **state)
{
    (void)state;
    unlink(target);
    return rmdir(folder);
}

static void expect_content(const char *want)
{
    char text[64] = "";
    FILE *f = fopen(target, "rb");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(want));
    assert_string_equal(text, want);
}

static void write_target(const char *text)
{
    struct copse_atomic_file f;
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    fputs(text, f.stream);
    assert_int_equal(copse__atomic_commit(&f), COPSE_OK);
}

static void a_committed_file_replaces_the_old_one_at_once(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    uint64_t size = 0;

    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    fputs("newer", f.stream);
    fflush(f.stream);
    expect_content("old");
    assert_int_equal(copse__atomic_commit(&f), COPSE_OK);
    expect_content("newer");
    copse__atomic_abort(&f); /* fine after commit */
    expect_content("newer");
    assert_int_equal(copse__file_size(target, &size), COPSE_OK);
    assert_int_equal(size, 5);
    assert_true(copse__is_directory(folder));
    assert_false(copse__is_directory(target));
    assert_int_equal(mem.live, 0);
}

static void an_aborted_file_leaves_nothing(void **state)
{
    (void)state;
    struct copse_atomic_file f, g;
    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    assert_int_equal(copse__atomic_open(&g, &mem, target), COPSE_OK);
    assert_string_not_equal(f.temp, g.temp);
    fputs("half", f.stream);
    copse__atomic_abort(&f);
    copse__atomic_abort(&g);
    copse__atomic_abort(&g);
    expect_content("old");
    assert_int_equal(mem.live, 0);
}

static void a_stale_temporary_file_is_no_obstacle(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    char stale[128];
    unsigned number;

    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    assert_int_equal(sscanf(strrchr(f.temp, '-'), "-%x", &number), 1);
    copse__atomic_abort(&f);
    snprintf(stale, sizeof stale, "%s.tmp%x-%x", target, copse__process_id(), number + 1);
    FILE *s = fopen(stale, "wb");
    assert_non_null(s);
    fclose(s);
    write_target("text");
    expect_content("text");
    assert_int_equal(unlink(stale), 0); /* it was somebody else's: not touched */
}

static void a_target_that_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    struct stat info;
    assert_int_equal(mkfifo(target, 0600), 0);
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "not a regular file"));
    copse__atomic_abort(&f);
    assert_int_equal(lstat(target, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(copse__atomic_open(&f, &mem, folder), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "not a regular file"));
    assert_int_equal(mem.live, 0);
}

static void symbolic_links_are_followed_and_stay(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    struct stat info;
    char link[64], path[64];
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(path, sizeof path, "%s", target);
    write_target("old");
    assert_int_equal(symlink("file", link), 0);
    snprintf(target, sizeof target, "%s", link);
    write_target("new"); /* through the link */
    snprintf(target, sizeof target, "%s", path);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content("new");

    assert_int_equal(unlink(target), 0);
    assert_int_equal(copse__atomic_open(&f, &mem, link), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "symbolic link"));
    assert_int_equal(mem.live, 0);
    assert_int_equal(unlink(link), 0);
}

static void file_failures_name_the_path(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    uint64_t size;
    snprintf(target, sizeof target, "%s/none/file", folder);
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "/none/file"));
    copse__atomic_abort(&f);
    assert_int_equal(copse__file_size(target, &size), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "/none/file"));
    assert_int_equal(copse__file_size(folder, &size), COPSE_ERR_IO);
    assert_int_equal(mem.live, 0);

    snprintf(target, sizeof target, "%s/file", folder);
    write_target("x");
    refuse = 1;
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_NO_MEMORY);
    refuse = 0;
    copse__atomic_abort(&f);
    expect_content("x");
}

static void a_full_disk_is_an_error_and_leaves_the_old_file(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    FILE *full = fopen("/dev/full", "wb");
    if (!full) {
        copse__atomic_abort(&f);
        print_message("skipped: there is no /dev/full\n");
        skip();
    }
    fclose(f.stream);
    f.stream = full;
    fputs("new", f.stream);
    assert_int_equal(copse__atomic_commit(&f), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "cannot write"));
    expect_content("old");
    assert_int_equal(mem.live, 0);
}

int main(void)
{
#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_text_names_file_and_line),
        cmocka_unit_test(notes_are_appended_and_keep_the_code),
        cmocka_unit_test(failure_text_may_contain_the_last_one),
        cmocka_unit_test(long_failure_text_is_cut_but_keeps_its_place),
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(failure_text_belongs_to_its_thread),
        cmocka_unit_test(sizes_are_checked_for_overflow),
        cmocka_unit_test(blocks_are_zeroed_counted_and_never_empty),
        cmocka_unit_test(a_failed_resize_keeps_the_block),
        cmocka_unit_test(aligned_blocks_are_aligned),
        cmocka_unit_test(arrays_grow_and_keep_their_elements),
        cmocka_unit_test(arena_blocks_are_zeroed_aligned_and_freed_at_once),
        cmocka_unit_test(log_lines_are_filtered_and_split),
        cmocka_unit_test(hash_is_fnv_1a),
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(a_stream_counts_through_its_blocks),
        cmocka_unit_test(stream_numbers_have_their_distribution),
        cmocka_unit_test(conditions_wake_and_time_out),
        cmocka_unit_test(the_clock_advances_by_what_was_slept),
        cmocka_unit_test(a_missing_library_is_no_crash),
        cmocka_unit_test(empty_variables_count_as_unset),
        FILE_TEST(a_committed_file_replaces_the_old_one_at_once),
        FILE_TEST(an_aborted_file_leaves_nothing),
        FILE_TEST(a_stale_temporary_file_is_no_obstacle),
        FILE_TEST(a_target_that_is_no_regular_file_is_refused),
        FILE_TEST(symbolic_links_are_followed_and_stay),
        FILE_TEST(file_failures_name_the_path),
        FILE_TEST(a_full_disk_is_an_error_and_leaves_the_old_file),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
