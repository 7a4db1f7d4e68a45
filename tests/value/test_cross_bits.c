/* SPDX-License-Identifier: MIT */
/* Cross-device operations, compared with the canonical tree bit by bit: algorithms, packings,
   special values and sizes; what the second time costs; and the links by which they choose. */
#include "tests/rig/value/cross_rig.h"

/* ---- OPS-2, 3, 4, 10: packing and algorithms change no bit ---- */

#define TENSORS 9
static const uint32_t lengths[TENSORS] = { 10, 0, 3, 3000, 1, 16, 16, 300, 2 };

static void check_bits(copse_strategy *st)
{
    copse_value *values[TENSORS], *out[TENSORS];
    for (uint32_t t = 0; t < TENSORS; t++)
        values[t] = random_value(st, t, lengths[t]);
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        char what[64];
        copse_cross_device *x;
        OK(copse_cross_device_create(ctx, &settings[s], &x));
        snprintf(what, sizeof what, "setting %zu (%s)", s, copse_cross_device_name(x));
        for (int round = 0; round < 3; round++) { /* the third repeats the first */
            const copse_reduce_op op = round == 1 ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM;
            const uint32_t to[] = { st->replica_count - 1, COPSE_HOST, 0 };
            const size_t places = st->replica_count > 1 ? 3 : 2;
            OK(copse_cross_batch_reduce(
                x, st, op, values, &(struct copse_destinations){ .ranks = to, .count = places },
                TENSORS, out));
            for (uint32_t t = 0; t < TENSORS; t++) {
                assert_int_equal(copse_value_count(out[t]), places);
                for (size_t i = 0; i < places; i++)
                    check_component(copse_value_item(out[t], i), op, st->replica_count, t,
                                    lengths[t], what);
                copse_value_release(&out[t]);
            }
        }
        copse_cross_device_release(&x);
    }
    for (uint32_t t = 0; t < TENSORS; t++)
        copse_value_release(&values[t]);
}

static void ops_10(void **unused)
{
    (void)unused;
    over_mixtures(check_bits);
}

static void check_packing(const struct copse_cross_device_params *params, const uint32_t *sizes,
                          uint32_t count)
{
    copse_strategy *st = open_all(ctx, 3);
    copse_value *values[64], *out[64];
    copse_cross_device *x;
    for (uint32_t t = 0; t < count; t++)
        values[t] = random_value(st, t, sizes[t]);
    OK(copse_cross_device_create(ctx, params, &x));
    OK(copse_cross_batch_reduce(x, st, COPSE_REDUCE_SUM, values, NULL, count, out));
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t r = 0; r < 3; r++)
            check_component(copse_value_item(out[t], r), COPSE_REDUCE_SUM, 3, t, sizes[t],
                            "packed");
        copse_value_release(&out[t]);
        copse_value_release(&values[t]);
    }
    copse_cross_device_release(&x);
    copse_strategy_release(&st);
}

/* Shards over 4 replicas that do not come out even: the length of the result is that of the
   values. */
static void ops_9(void **unused)
{
    static const uint32_t sizes[] = { 10, 2, 12, 0, 7, 1 };
    const struct copse_cross_device_params sharded = { .kind = COPSE_CROSS_ALL_REDUCE };
    copse_strategy *st = open_all(ctx, 4);
    copse_cross_device *x;
    (void)unused;
    OK(copse_cross_device_create(ctx, &sharded, &x));
    for (uint32_t t = 0; t < COPSE_COUNT(sizes); t++)
        for (int op = COPSE_REDUCE_SUM; op <= COPSE_REDUCE_MEAN; op++) {
            copse_value *v = random_value(st, t, sizes[t]), *out;
            OK(copse_cross_reduce(x, st, (copse_reduce_op)op, v, NULL, &out));
            assert_int_equal(copse_value_shape(out).dims[0], sizes[t]);
            for (uint32_t r = 0; r < 4; r++)
                check_component(copse_value_item(out, r), (copse_reduce_op)op, 4, t, sizes[t],
                                "uneven shards");
            copse_value_release(&out);
            copse_value_release(&v);
        }
    copse_cross_device_release(&x);
    copse_strategy_release(&st);
}

/* The same cuts as in test_packing.c, on devices: results are those without packs. */
static void ops_2(void **unused)
{
    (void)unused;
    for (int kind = COPSE_CROSS_ALL_REDUCE; kind <= COPSE_CROSS_HIERARCHICAL; kind++) {
        const struct copse_cross_device_params four = { .kind = (copse_cross_device_kind)kind,
                                                        .packs = 4 };
        const struct copse_cross_device_params eight = { .kind = (copse_cross_device_kind)kind,
                                                         .packs = 8 };
        check_packing(&four, (const uint32_t[]){ 4, 6 }, 2);
        check_packing(&eight, (const uint32_t[]){ 3 }, 1);
        check_packing(&four, (const uint32_t[]){ 3000, 1, 0, 70000 }, 4);
    }
}

static void ops_3(void **unused)
{
    const struct copse_cross_device_params p = { .kind = COPSE_CROSS_ALL_REDUCE,
                                                 .small_bytes = 16 };
    uint32_t many[60];
    (void)unused;
    check_packing(&p, (const uint32_t[]){ 4, 1, 90, 2, 2000, 3, 4, 1 }, 8);
    for (uint32_t i = 0; i < COPSE_COUNT(many); i++)
        many[i] = i % 4 + 1;
    check_packing(&p, many, COPSE_COUNT(many)); /* many tiny ones, ten at a time */
}

static void ops_4(void **unused)
{
    const struct copse_cross_device_params p = { .kind = COPSE_CROSS_ALL_REDUCE, .pack_bytes = 4 };
    (void)unused;
    check_packing(&p, (const uint32_t[]){ 1, 1, 1 }, 3);
    check_packing(&p, (const uint32_t[]){ 300, 0, 700, 5 }, 4);
}

/* ---- special values, sizes ---- */

static void nan_and_infinities_pass(void **unused)
{
    (void)unused;
    for (size_t c = 1; c < COPSE_COUNT(counts); c++) {
        copse_strategy *st = open_all(ctx, counts[c]);
        copse_value *parts[MAX_RANKS], *v, *out;
        const uint32_t n = counts[c];
        for (uint32_t r = 0; r < n; r++) {
            const float x[] = { r == n - 1 ? NAN : 1,
                                r == 0       ? INFINITY
                                : r == n - 1 ? -INFINITY
                                             : 0,
                                r == 1 ? INFINITY : 2, r == 0 ? 3e38f : 1e38f * (float)(n - 1),
                                -0.0f };
            parts[r] = floats_on(st, r, 5, x);
        }
        v = per_replica(st, parts);
        for (size_t s = 0; s < COPSE_COUNT(settings); s++)
            for (int op = COPSE_REDUCE_SUM; op <= COPSE_REDUCE_MEAN; op++) {
                copse_cross_device *x;
                OK(copse_cross_device_create(ctx, &settings[s], &x));
                OK(copse_cross_reduce(x, st, (copse_reduce_op)op, v, NULL, &out));
                for (uint32_t r = 0; r < n; r++) {
                    float got[5];
                    OK(copse_value_read(copse_value_item(out, r), got));
                    assert_true(isnan(got[0]));
                    assert_true(isnan(got[1]));
                    assert_true(isinf(got[2]) && got[2] > 0);
                    assert_true(isinf(got[3]) && got[3] > 0);
                    assert_true(got[4] == 0.0f && signbit(got[4]));
                }
                copse_value_release(&out);
                copse_cross_device_release(&x);
            }
        copse_value_release(&v);
        copse_strategy_release(&st);
    }
}

/* Longer than a round: several of them, cut evenly. */
static void one_huge_array_goes_in_rounds(void **unused)
{
    enum { ELEMENTS = 4300001 };
    copse_strategy *st = open_all(ctx, 3);
    float *x = malloc(4 * (size_t)ELEMENTS);
    copse_value *parts[3], *v, *out;
    (void)unused;
    assert_non_null(x);
    for (uint32_t r = 0; r < 3; r++) {
        for (uint32_t i = 0; i < ELEMENTS; i++)
            x[i] = (float)(i % 8191) * (r == 1 ? 0.1f : 1.0f);
        parts[r] = floats_on(st, r, ELEMENTS, x);
    }
    v = per_replica(st, parts);
    for (size_t s = 1; s < 9; s += 3) { /* to one, all-reduce, and in packs */
        copse_cross_device *c;
        OK(copse_cross_device_create(ctx, &settings[s], &c));
        OK(copse_cross_reduce(c, st, COPSE_REDUCE_SUM, v, NULL, &out));
        for (uint32_t r = 0; r < 3; r++) {
            OK(copse_value_read(copse_value_item(out, r), x));
            for (uint32_t i = 0; i < ELEMENTS; i++) {
                const float a = (float)(i % 8191), want = (a + a * 0.1f) + a;
                if (x[i] != want)
                    fail_msg("setting %zu, replica %u, element %u: %a, not %a", s, r, i,
                             (double)x[i], (double)want);
            }
        }
        copse_value_release(&out);
        copse_cross_device_release(&c);
    }
    free(x);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

/* ---- the second time ---- */

static void repeating_takes_no_memory_of_devices(void **unused)
{
    copse_strategy *st = open_all(ctx, 3);
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        struct copse_memory_stats before, after;
        copse_value *values[TENSORS], *out[TENSORS];
        copse_cross_device *x;
        unsigned plans = 0;
        OK(copse_cross_device_create(ctx, &settings[s], &x));
        for (uint32_t t = 0; t < TENSORS; t++)
            values[t] = random_value(st, t, lengths[t]);
        for (int round = 0; round < 4; round++) {
            if (round == 2) {
                copse_context_memory(ctx, &before);
                plans = copse__value_plans(st->reducer);
            }
            OK(copse_cross_batch_reduce(x, st, COPSE_REDUCE_MEAN, values, NULL, TENSORS, out));
            for (uint32_t t = 0; t < TENSORS; t++) {
                OK(copse_value_wait(out[t]));
                copse_value_release(&out[t]);
            }
        }
        copse_context_memory(ctx, &after);
        assert_int_equal(after.device_allocations, before.device_allocations);
        assert_int_equal(copse__value_plans(st->reducer), plans);
        assert_int_equal(after.live_blocks, before.live_blocks);
        for (uint32_t t = 0; t < TENSORS; t++)
            copse_value_release(&values[t]);
        copse_cross_device_release(&x);
    }
    copse_strategy_release(&st);
}

/* ---- links ---- */

static void links_are_measured_once_and_can_be_given(void **unused)
{
    copse_strategy *st = open_all(ctx, 3);
    struct copse_link first[4], again[4];
    const uint32_t all[] = { 0, 1, 2 };
    (void)unused;
    OK(copse_strategy_links(st, first));
    OK(copse_strategy_links(st, again));
    assert_memory_equal(first, again, sizeof first);
    for (uint32_t r = 0; r < 3; r++) /* stamps would slow the queue of a replica */
        assert_null(st->replicas[r].queue->clock);
    for (int i = 0; i < 4; i++) {
        print_message("%s: latency %.3g s, read %.3g, write %.3g, sum %.3g bytes/s\n",
                      i < 3 ? copse_strategy_device(st, (uint32_t)i)->id : "the host",
                      first[i].latency, first[i].read_rate, first[i].write_rate, first[i].sum_rate);
        assert_true(first[i].latency >= 0 && first[i].read_rate > 0 && first[i].write_rate > 0 &&
                    first[i].sum_rate > 0);
    }

    /* A slow host and fast devices; a fast host; a device that sums much faster than the others;
       latency. */
    for (int i = 0; i < 4; i++)
        again[i] = (struct copse_link){ 0, 1e10, 1e10, i < 3 ? 1e11 : 1e6 };
    assert_int_equal(copse__link_choose(again, 3, 1e6, all, 3).algorithm, COPSE_COLLECTIVE_SHARDED);
    again[3].sum_rate = 1e12;
    const struct copse_way way = copse__link_choose(again, 3, 1e6, all, 3);
    assert_int_equal(way.algorithm, COPSE_COLLECTIVE_TO_ONE);
    assert_int_equal(way.root, COPSE_HOST);
    again[3].sum_rate = again[0].sum_rate = again[1].sum_rate = 1e6;
    assert_int_equal(copse__link_choose(again, 3, 1e6, &all[2], 1).root, 2);

    again[2].read_rate = 0;
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_set_links(st, again), "entry 2");
    again[2].read_rate = 1;
    OK(copse_strategy_set_links(st, again));
    OK(copse_strategy_links(st, first));
    assert_memory_equal(first, again, sizeof first);
    copse_value *v = random_value(st, 1, 500), *out;
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v, NULL, &out));
    check_component(copse_value_item(out, 2), COPSE_REDUCE_SUM, 3, 1, 500, "given links");
    copse_value_release(&out);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ops_9),
        TEST(ops_2),
        TEST(ops_3),
        TEST(ops_4),
        TEST(ops_10),
        TEST(nan_and_infinities_pass),
        TEST(one_huge_array_goes_in_rounds),
        TEST(repeating_takes_no_memory_of_devices),
        TEST(links_are_measured_once_and_can_be_given),
    };
    return cmocka_run_group_tests_name("cross_bits", tests, open_context, close_context);
}
