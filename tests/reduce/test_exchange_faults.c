/* SPDX-License-Identifier: MIT */
/* The exchange with faults, other limits and other arithmetic, on the fake backend. */
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/value/exchange_rig.h"

static const char *const fakes[] = { "fake:0", "fake:1", "fake:2", "fake:3" };

static copse_context *fake_context(uint32_t devices)
{
    copse_context *ctx;
    copse_fake.device_count = devices;
    /* Self-tests would refuse what is made wrong here, and be counted. */
    OK(copse__context_create_with(&(struct copse_context_params){ .no_self_test = true },
                                  fake_backends, &ctx));
    return ctx;
}

static int reset(void **unused)
{
    (void)unused;
    fake_reset();
    return 0;
}

/* Each element is computed once and copied, so that the mirrored copies cannot drift apart. */
static void replicas_agree_though_a_device_divides_differently(void **unused)
{
    static const copse_optimizer_kind kinds[] = { COPSE_ADAM, COPSE_ADAMW, COPSE_NESTEROV };
    float *first = malloc(4 * ELEMENTS), *honest = malloc(4 * ELEMENTS);
    (void)unused;
    assert_non_null(first);
    assert_non_null(honest);
    for (size_t k = 0; k < COPSE_COUNT(kinds); k++) {
        const struct copse_optimizer_params params = { .kind = kinds[k], .weight_decay = 0.01f };
        uint32_t changed = 0;
        for (int is_off = 0; is_off < 2; is_off++) {
            fake_reset();
            copse_context *ctx = fake_context(3);
            copse_fake.devices[1].perturb = !is_off                      ? NULL
                                            : kinds[k] == COPSE_NESTEROV ? "momentum"
                                                                         : "adam";
            struct rig g;
            open_rig(&g, ctx, fakes, 3, &params);
            for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
                struct store st;
                open_store(&g, &setups[s], ELEMENTS, &st);
                train(&g, &st, ELEMENTS, STEPS);
                memcpy(first, values_of(&g, &st, 0, ELEMENTS), 4 * ELEMENTS);
                check_bits(&g, &st, first, ELEMENTS, s);
                for (uint32_t i = 0; is_off && s == 0 && i < ELEMENTS; i++)
                    changed += memcmp(&first[i], &honest[i], 4) != 0;
                if (s == 0)
                    memcpy(honest, first, 4 * ELEMENTS);
                copse__exchange_release(&st.x);
            }
            close_rig(&g);
            copse_context_release(&ctx);
        }
        assert_true(changed > ELEMENTS / 4 && changed < ELEMENTS / 2); /* rank 1's share */
    }
    free(first);
    free(honest);
}

static void slot_memory_falls_with_the_ranks(void **unused)
{
    const struct copse_optimizer_params adam = { .kind = COPSE_ADAM };
    (void)unused;
    copse_context *ctx = fake_context(4);
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        struct rig g;
        struct store st;
        open_rig(&g, ctx, fakes, ranks, &adam);
        open_store(&g, &setups[0], ELEMENTS, &st);
        size_t sum = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            assert_true(copse__exchange_slot_bytes(st.x, r) <= 8 * (ELEMENTS / ranks + COPSE_UNIT));
            sum += copse__exchange_slot_bytes(st.x, r);
        }
        assert_int_equal(sum, 8 * ELEMENTS);
        copse__exchange_release(&st.x);
        close_rig(&g);
    }
    copse_context_release(&ctx);
}

static void one_rank_waits_for_nobody(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(1);
    struct rig g;
    struct store st;
    uint64_t ready[MAX_RANKS];
    open_rig(&g, ctx, fakes, 1, &plain);
    open_store(&g, &setups[0], ELEMENTS, &st);
    uint32_t waits = 0;
    for (int run = 0; run < 3; run++) { /* the first two are measured (core/device/pace.h) */
        backward(&g, &st, ELEMENTS, 1, ready);
        waits = fake_calls(0, FAKE_WAIT);
        OK(copse__exchange_run(st.x, st.buckets[0], ready, NULL, NULL));
    }
    assert_int_equal(fake_calls(0, FAKE_WAIT), waits);
    copse__exchange_release(&st.x);
    close_rig(&g);
    copse_context_release(&ctx);
}

static void no_import(struct copse_device_info *info)
{
    info->limits.host_import_alignment = 0;
}

static void shares_only_what_every_device_can_import(void **unused)
{
    (void)unused;
    const struct setup forced = { COPSE_REDUCE_AUTO, COPSE_TRANSFER_SHARED, 0, false, false };
    copse_exchange *x = NULL;
    struct rig g;
    copse_fake.devices[1].describe = no_import;
    copse_context *ctx = fake_context(2);
    open_rig(&g, ctx, fakes, 2, &plain);
    FAILS(COPSE_ERR_UNSUPPORTED, make_exchange(&g, &forced, &x), "fake:1");
    assert_null(x);
    OK(make_exchange(&g, &setups[0], &x));
    assert_false(copse__exchange_is_shared(x));
    copse__exchange_release(&x);
    close_rig(&g);
    open_rig(&g, ctx, (const char *[]){ "fake:0", "host:0" }, 2, &plain);
    OK(make_exchange(&g, &forced, &x));
    assert_true(copse__exchange_is_shared(x));
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
}

static void small_bindings(struct copse_device_info *info)
{
    info->limits.max_binding_bytes = 1 << 20;
    info->limits.max_buffer_bytes = 4 << 20;
}

/* A bucket larger than a device's bindings is done in rounds, and its piece is staged. */
static void large_buckets_go_in_rounds(void **unused)
{
    float *want = malloc(4 * MOST);
    struct rig g;
    (void)unused;
    assert_non_null(want);
    expect_sgd(want, MOST, 3);
    copse_fake.devices[2].describe = small_bindings;
    copse_context *ctx = fake_context(3);
    open_rig(&g, ctx, fakes, 3, &plain);
    for (size_t s = 0; s < 2 * COPSE_COUNT(setups); s++) {
        struct store st;
        const struct setup *setup = &setups[s / 2];
        if (setup->is_paused)
            continue;
        g.is_measured = s % 2;
        open_store(&g, setup, MOST, &st);
        assert_false(copse__exchange_is_shared(st.x));
        train(&g, &st, MOST, STEPS);
        check_bits(&g, &st, want, MOST, s);
        copse__exchange_release(&st.x);
    }
    const struct setup forced = { COPSE_REDUCE_AUTO, COPSE_TRANSFER_SHARED, 0, false, false };
    copse_exchange *x;
    uint32_t piece;
    OK(make_exchange(&g, &forced, &x));
    FAILS(COPSE_ERR_UNSUPPORTED, copse__exchange_piece(x, MOST, &piece), "fake:2");
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
    free(want);
}

static void a_rank_that_does_not_answer_is_named(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(2);
    for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED; transfer++) {
        const struct setup s = { .transfer = (copse_transfer)transfer };
        struct rig g;
        struct store st;
        uint64_t ready[MAX_RANKS];
        open_rig(&g, ctx, fakes, 2, &plain);
        open_store(&g, &s, ELEMENTS, &st);
        backward(&g, &st, ELEMENTS, 1, ready);
        fake_fail(1, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
        FAILS(COPSE_ERR_TIMEOUT, copse__exchange_run(st.x, st.buckets[0], ready, NULL, NULL),
              "while waiting for rank 1 on fake:1");
        copse__exchange_release(&st.x);
        close_rig(&g);
    }
    copse_context_release(&ctx);
}

/* A fault in any call of the backend comes out as its status, and everything can be released. */
static void faults_are_returned(void **unused)
{
    static const enum fake_fn calls[] = { FAKE_BUFFER_INIT, FAKE_KERNEL_INIT, FAKE_SEGMENT_INIT,
                                          FAKE_REPLAY,      FAKE_SUBMIT,      FAKE_READ,
                                          FAKE_WRITE,       FAKE_WAIT };
    (void)unused;
    for (size_t f = 0; f < COPSE_COUNT(calls); f++) {
        uint32_t failures = 0;
        for (uint32_t n = 2; n < 42; n++) { /* the n-th call of either way of transfer */
            fake_reset();
            copse_context *ctx = fake_context(2);
            copse_exchange *x = NULL;
            struct rig g;
            uint32_t piece, bucket = 0;
            open_rig(&g, ctx, fakes, 2, &plain);
            fake_fail(1, calls[f], n / 2, COPSE_ERR_INTERNAL, false);
            copse_status s = make_exchange(&g, &setups[n % 2], &x);
            if (!s)
                s = copse__exchange_piece(x, PADDED, &piece);
            if (!s)
                s = add_bucket(&g, x, 0, 0, ELEMENTS, &bucket);
            if (!s)
                s = copse__exchange_run(x, bucket, (const uint64_t[]){ 0, 0 }, NULL, NULL);
            assert_true(s == COPSE_OK || s == COPSE_ERR_INTERNAL);
            failures += s != COPSE_OK;
            copse__exchange_release(&x);
            close_rig(&g);
            copse_context_release(&ctx);
            assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
        }
        assert_true(failures > 0);
    }
}

static void bad_arguments_are_refused(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(2);
    struct rig g;
    copse_exchange *x;
    uint32_t n;
    open_rig(&g, ctx, fakes, 2, &plain);
    FAILS(COPSE_ERR_ARGUMENT,
          make_exchange(&g, &(struct setup){ (copse_reduce_algorithm)9, 0, 0, 0, 0 }, &x),
          "reduction");
    FAILS(COPSE_ERR_ARGUMENT,
          make_exchange(&g, &(struct setup){ 0, (copse_transfer)9, 0, 0, 0 }, &x), "transfer");
    OK(make_exchange(&g, &setups[0], &x));
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_piece(x, 0, &n), "multiple of 128");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_piece(x, 100, &n), "multiple of 128");
    OK(copse__exchange_piece(x, 128, &n));
    FAILS(COPSE_ERR_ARGUMENT, add_bucket(&g, x, 1, 0, 128, &n), "piece 1");
    FAILS(COPSE_ERR_ARGUMENT, add_bucket(&g, x, 0, 128, 129, &n), "piece 0");
    FAILS(COPSE_ERR_ARGUMENT, add_bucket(&g, x, 0, 10, 64, &n), "multiples of 128");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_run(x, 0, NULL, NULL, NULL), "bucket 0");
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(replicas_agree_though_a_device_divides_differently, reset),
        cmocka_unit_test_setup(slot_memory_falls_with_the_ranks, reset),
        cmocka_unit_test_setup(one_rank_waits_for_nobody, reset),
        cmocka_unit_test_setup(shares_only_what_every_device_can_import, reset),
        cmocka_unit_test_setup(large_buckets_go_in_rounds, reset),
        cmocka_unit_test_setup(a_rank_that_does_not_answer_is_named, reset),
        cmocka_unit_test_setup(faults_are_returned, reset),
        cmocka_unit_test_setup(bad_arguments_are_refused, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
