/* SPDX-License-Identifier: MIT */
/* Tuning: kept per device, driver and version, never believed when damaged. */
#include "core/base/random.h"
#include "tests/rig/conformance/tuning_rig.h"

static size_t count_in_new_context(const char *device)
{
    copse_context *ctx = open_fake();
    const size_t count = count_of(ctx, device);
    copse_context_release(&ctx);
    return count;
}

/* ---- what is kept ---- */

static void newest_rate_counts(void **state)
{
    (void)state;
    const struct copse_tuning_entry *list;
    size_t count;
    copse_context *ctx = open_fake(), *other = open_fake();
    assert_int_equal(count_of(other, "fake:0"), 0);
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 300);
    set(other, "fake:0", "nn-32-32-128", "matmul", 500); /* as another process would */
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 200);
    assert_int_equal(count_of(ctx, "fake:0"), 3);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 0);
    set(ctx, "fake:0", "nn-32-32-32", "never_there", 0);
    OK(copse_device_tuning(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].variant, "matmul");
    assert_int_equal(list[0].rate, 200);
    assert_string_equal(list[1].size_class, "nn-32-32-128");
    copse_context_release(&ctx);
    copse_context_release(&other);
    assert_int_equal(count_in_new_context("fake:0"), 2);
    assert_int_equal(count_in_new_context("fake:1"), 0);
    driver = "maker 1.1";
    assert_int_equal(count_in_new_context("fake:0"), 0);
    driver = "maker 1.0";
    units = 8;
    assert_int_equal(count_in_new_context("fake:0"), 0);
    units = 4;
    ctx = open_fake();
    OK(copse_device_tuning_clear(ctx, "fake:0"));
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 0);
    assert_int_equal(warnings, 0);
}

static void bad_entries_are_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *family, *size_class, *variant;
        uint64_t rate;
    } bad[] = {
        { "", "a", "b", 1 },           { "a", "", "b", 1 },
        { "a", "b", "", 1 },           { "a b", "a", "b", 1 },
        { "a", "b\n", "c", 1 },        { "a", "b", "C", 1 },
        { "a", "b", "c", UINT64_MAX }, { "a", "b", "c", 1000000000000001ull },
    };
    copse_context *ctx = open_fake();
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        struct copse_tuning_entry e[2] = { make("nn-32-32-32", "matmul", 7) };
        snprintf(e[1].family, sizeof e[1].family, "%s", bad[i].family);
        snprintf(e[1].size_class, sizeof e[1].size_class, "%s", bad[i].size_class);
        snprintf(e[1].variant, sizeof e[1].variant, "%s", bad[i].variant);
        e[1].rate = bad[i].rate;
        assert_int_equal(copse_device_tuning_set(ctx, "fake:0", e, 2), COPSE_ERR_ARGUMENT);
    }
    struct copse_tuning_entry endless = make("a", "b", 1);
    memset(endless.variant, 'x', sizeof endless.variant);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", &endless, 1), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", NULL, 1), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, NULL, &endless, 0), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(NULL, "fake:0", &endless, 0), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:7", &endless, 0), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_device_tuning_clear(ctx, "fake:7"), COPSE_ERR_NO_DEVICE);
    assert_int_equal(count_of(ctx, "fake:0"), 0);

    struct copse_tuning_entry *many = calloc(4097, sizeof *many);
    assert_non_null(many);
    for (int i = 0; i < 4097; i++) {
        char size_class[24];
        snprintf(size_class, sizeof size_class, "class-%d", i);
        many[i] = make(size_class, "matmul", 1);
    }
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", many, 4097), COPSE_ERR_ARGUMENT);
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    OK(copse_device_tuning_set(ctx, "fake:0", many, 4096));
    assert_int_equal(count_of(ctx, "fake:0"), 4096);
    free(many);
    copse_context_release(&ctx);
}

/* ---- the text ---- */

static size_t save(copse_context *ctx, const char *device, char *text, size_t room)
{
    size_t needed;
    OK(copse_device_tuning_save(ctx, device, NULL, 0, &needed));
    assert_true(needed <= room);
    assert_int_equal(copse_device_tuning_save(ctx, device, text, needed - 1, &needed),
                     COPSE_ERR_ARGUMENT);
    OK(copse_device_tuning_save(ctx, device, text, room, &needed));
    assert_int_equal(strlen(text) + 1, needed);
    return needed - 1;
}

static void text_goes_to_another_machine(void **state)
{
    (void)state;
    char text[2048];
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nt-512-32-32", "matmul_wide", 1000000000000000);
    const size_t size = save(ctx, "fake:0", text, sizeof text);
    OK(copse_device_tuning_clear(ctx, "fake:0"));
    set(ctx, "fake:0", "tn-32-32-32", "matmul", 5);
    OK(copse_device_tuning_load(ctx, "fake:0", text, size));
    assert_int_equal(count_of(ctx, "fake:0"), 3);
    assert_int_equal(copse_device_tuning_load(ctx, "fake:1", text, size), COPSE_ERR_FORMAT);
    assert_int_equal(count_of(ctx, "fake:1"), 0);
    assert_int_equal(copse_device_tuning_load(ctx, "fake:0", NULL, 1), COPSE_ERR_ARGUMENT);
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 3);
}

static struct copse_tuning_entry make_shares(int job)
{
    char size_class[24];
    snprintf(size_class, sizeof size_class, "job-%d", job);
    struct copse_tuning_entry e = make(size_class, "replica-0", 17);
    snprintf(e.family, sizeof e.family, COPSE_TUNED_SHARES);
    return e;
}

static bool has_job(copse_context *ctx, const char *device, int job)
{
    const struct copse_tuning_entry want = make_shares(job), *list;
    size_t count;
    OK(copse_device_tuning(ctx, device, &list, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].family, want.family) == 0 &&
            strcmp(list[i].size_class, want.size_class) == 0)
            return true;
    return false;
}

static void newest_shares_are_kept(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    for (int job = 0; job < 256 + 3; job++) {
        const struct copse_tuning_entry e = make_shares(job);
        OK(copse_device_tuning_set(ctx, "fake:0", &e, 1));
    }
    assert_int_equal(count_of(ctx, "fake:0"), 1 + 256);
    assert_false(has_job(ctx, "fake:0", 2));
    assert_true(has_job(ctx, "fake:0", 3));
    assert_true(has_job(ctx, "fake:0", 258));
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 1 + 256);
}

static void shares_stay_on_their_machine(void **state)
{
    (void)state;
    char text[2048];
    copse_context *ctx = open_fake();
    const struct copse_tuning_entry e = make_shares(0);
    OK(copse_device_tuning_set(ctx, "fake:0", &e, 1));
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    const size_t size = save(ctx, "fake:0", text, sizeof text);
    assert_null(strstr(text, COPSE_TUNED_SHARES));
    OK(copse_device_tuning_clear(ctx, "fake:0"));
    OK(copse_device_tuning_load(ctx, "fake:0", text, size));
    assert_int_equal(count_of(ctx, "fake:0"), 1);
    copse_context_release(&ctx);
}

static void damaged_store_is_ignored_with_one_warning(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 10);
    copse_context_release(&ctx);
    assert_int_equal(kept_count, 1);
    const struct kept whole = copy_of_kept(0);
    for (size_t i = 0; i < whole.size; i++) {
        kept[0].bytes[i] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
        kept[0].size = i;
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
    }
    assert_int_equal(warnings, 2 * whole.size);
    free(whole.bytes);

    kept[0].bytes[kept[0].size / 2] ^= 1;
    warnings = 0;
    ctx = open_fake();
    for (int i = 0; i < 3; i++) {
        copse_device *dev;
        OK(copse_device_open(ctx, "fake:0", NULL, &dev));
        copse_device_release(&dev);
    }
    assert_int_equal(warnings, 1);
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100); /* written anew */
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 1);
}

/* The head is right again, so that only the reader of lines stands in the way. */
static size_t with_lines(const struct kept *whole, const char *lines, size_t size, char *out)
{
    const char *body = memchr(whole->bytes, '\n', whole->size);
    const char *end = strstr(body, "\nrate ");
    const size_t own = (size_t)(end - body);
    char *copy = malloc(own + size + 1);
    assert_non_null(copy);
    memcpy(copy, body + 1, own);
    memcpy(copy + own, lines, size);
    const size_t head =
        (size_t)snprintf(out, 128, "copse-tuning 1 %zu %016llx\n", own + size,
                         (unsigned long long)copse__hash(COPSE_HASH_START, copy, own + size));
    memcpy(out + head, copy, own + size);
    free(copy);
    return head + own + size;
}

static void lines_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "rate",
        "rate \n",
        "rate a b c 1",
        "rate a b c\n",
        "rate a b c 0\n",
        "rate a b c 01\n",
        "rate a b c +1\n",
        "rate a b c -1\n",
        "rate a b c 1 \n",
        "rate a b c 1 2\n",
        "rate  a b c 1\n",
        "rate a b c 1.5\n",
        "rate a b c 1e3\n",
        "Rate a b c 1\n",
        "rate A b c 1\n",
        "rate a b c 1000000000000001\n",
        "rate a b c 99999999999999999999\n",
        "block softmax x\n",
        "\n",
        "rate a b c 1\n\n",
        "rate aaaaaaaaaaaaaaaa b c 1\n",
    };
    char text[2048];
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    const struct kept whole = copy_of_kept(0);
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        const size_t size = with_lines(&whole, bad[i], strlen(bad[i]), text);
        if (copse_device_tuning_load(ctx, "fake:0", text, size) != COPSE_ERR_FORMAT)
            fail_msg("'%s' was read", bad[i]);
    }
    const size_t size = with_lines(&whole, "rate a b c 1\n", 13, text);
    OK(copse_device_tuning_load(ctx, "fake:0", text, size));
    assert_int_equal(count_of(ctx, "fake:0"), 2);
    copse_context_release(&ctx);
    free(whole.bytes);
}

/* Random changes of good lines under a right head: read or refused, and what is read is good. */
static void changed_lines_never_do_harm(void **state)
{
    (void)state;
    static const char good[] = "rate matmul nn-32-32-32 matmul 100\n"
                               "rate matmul nn-32-32-32 matmul_wide 2000\n"
                               "rate sum 4096 reduce 77\n";
    char text[2048], lines[256];
    size_t taken = 0;
    struct copse_stream random;
    copse__stream_init(&random, 7, 1);
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    const struct kept whole = copy_of_kept(0);
    for (int turn = 0; turn < 20000; turn++) {
        size_t size = sizeof good - 1;
        memcpy(lines, good, size);
        for (int changes = 1 + turn % 4; changes-- > 0;) {
            const size_t at = (size_t)(copse__stream_unit(&random) * (float)size) % size;
            const float how = copse__stream_unit(&random);
            if (how < 0.2f && size > 1) {
                memmove(lines + at, lines + at + 1, --size - at);
            } else if (how < 0.4f && size + 1 < sizeof lines) {
                memmove(lines + at + 1, lines + at, size++ - at);
            } else {
                lines[at] = (char)(unsigned char)(256.0f * copse__stream_unit(&random));
                lines[at] = how < 0.7f ? "0 \n-z_9"[(unsigned char)lines[at] % 7] : lines[at];
            }
        }
        const size_t length = with_lines(&whole, lines, size, text);
        OK(copse_device_tuning_clear(ctx, "fake:0"));
        const copse_status s = copse_device_tuning_load(ctx, "fake:0", text, length);
        assert_true(s == COPSE_OK || s == COPSE_ERR_FORMAT);
        const struct copse_tuning_entry *list;
        size_t count;
        OK(copse_device_tuning(ctx, "fake:0", &list, &count));
        assert_true(s == COPSE_OK ? count <= 4 : count == 0);
        for (size_t i = 0; i < count; i++) {
            assert_true(list[i].rate > 0 && list[i].rate <= 1000000000000000ull);
            assert_true(list[i].family[0] && list[i].size_class[0] && list[i].variant[0]);
        }
        taken += s == COPSE_OK;
    }
    assert_true(taken > 500 && taken < 19500);
    copse_context_release(&ctx);
    free(whole.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(newest_rate_counts, reset),
        cmocka_unit_test_setup(bad_entries_are_refused_whole, reset),
        cmocka_unit_test_setup(text_goes_to_another_machine, reset),
        cmocka_unit_test_setup(newest_shares_are_kept, reset),
        cmocka_unit_test_setup(shares_stay_on_their_machine, reset),
        cmocka_unit_test_setup(damaged_store_is_ignored_with_one_warning, reset),
        cmocka_unit_test_setup(lines_that_are_none_are_refused, reset),
        cmocka_unit_test_setup(changed_lines_never_do_harm, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
