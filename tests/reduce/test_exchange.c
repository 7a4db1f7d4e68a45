/* SPDX-License-Identifier: MIT */
/* The exchange on every mixture of devices found: all ranks hold the bits that a scalar evaluation
   of the canonical tree gives, whatever the algorithm, the way of the bytes and the sizes. */
#include "tests/rig/found.h"
#include "tests/rig/value/exchange_rig.h"

static void check_setups(copse_context *ctx, const char *const *ids, uint32_t ranks,
                         bool is_logical, const float *want)
{
    static size_t at;
    struct rig g;
    (is_logical ? open_logical_rig : open_rig)(&g, ctx, ids, ranks, &plain);
    for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
        struct store st;
        if (!rig_takes(at++, 4))
            continue;
        open_store(&g, &setups[s], ELEMENTS, &st);
        train(&g, &st, ELEMENTS, STEPS);
        check_bits(&g, &st, want, ELEMENTS, s);
        copse__exchange_release(&st.x);
    }
    close_rig(&g);
}

/* ---- devices ---- */

static void all_ranks_hold_the_bits_of_the_tree(void **unused)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 8 };
    copse_context *ctx;
    float *want = malloc(4 * ELEMENTS);
    (void)unused;
    assert_non_null(want);
    OK(copse_context_create(NULL, &ctx));
    find_devices(ctx);
    for (size_t c = 0; c < COPSE_COUNT(counts); c++) {
        expect_sgd(want, ELEMENTS, counts[c]);
        for (uint32_t mix = 1; mix < 1u << found_count; mix++) {
            const char *chosen[3] = { 0 }, *ids[MAX_RANKS];
            uint32_t n = 0;
            for (uint32_t f = 0; f < found_count; f++)
                if (mix >> f & 1u)
                    chosen[n++] = found[f];
            if (n > counts[c])
                continue;
            for (uint32_t r = 0; r < counts[c]; r++)
                ids[r] = chosen[r % n];
            print_message("%u ranks on %s%s%s%s%s\n", counts[c], chosen[0], n > 1 ? ", " : "",
                          n > 1 ? chosen[1] : "", n > 2 ? ", " : "", n > 2 ? chosen[2] : "");
            check_setups(ctx, ids, counts[c], false, want);
            if (n < counts[c] && counts[c] <= 5) /* and with one queue to a device */
                check_setups(ctx, ids, counts[c], true, want);
        }
    }
    free(want);
    copse_context_release(&ctx);
}

static void a_run_allocates_nothing(void **unused)
{
    copse_context *ctx;
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    find_devices(ctx);
    const char *ids[MAX_RANKS];
    for (uint32_t r = 0; r < 4; r++)
        ids[r] = found[r % found_count];
    struct rig g;
    open_rig(&g, ctx, ids, 4, &plain);
    for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
        struct copse_memory_stats before, after;
        uint64_t ready[MAX_RANKS];
        struct store st;
        open_store(&g, &setups[s], ELEMENTS, &st);
        train(&g, &st, ELEMENTS, STEPS);
        backward(&g, &st, ELEMENTS, STEPS + 1, ready);
        copse_context_memory(ctx, &before);
        for (uint32_t b = 0; b < st.bucket_count; b++)
            OK(copse__exchange_run(st.x, st.buckets[b], ready, NULL, NULL));
        copse_context_memory(ctx, &after);
        if (after.calls != before.calls || after.device_allocations != before.device_allocations)
            fail_msg("setup %zu: %llu host and %llu device allocations", s,
                     after.calls - before.calls,
                     after.device_allocations - before.device_allocations);
        copse__exchange_release(&st.x);
    }
    close_rig(&g);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_hold_the_bits_of_the_tree),
        cmocka_unit_test(a_run_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
