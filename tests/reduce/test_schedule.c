/* SPDX-License-Identifier: MIT */
/* The canonical tree and the schedules that evaluate it, by evaluating moves over symbols. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* after the above */
#include <cmocka.h>

#include "core/reduce/sum_schedule.h"

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
}

static struct copse_mem mem = { .resize = resize };

static const copse_reduce_algorithm reductions[] = { COPSE_REDUCE_AUTO, COPSE_REDUCE_SHARDED,
                                                     COPSE_REDUCE_TREE, COPSE_REDUCE_TO_ONE };

/* ---- symbols: rank r's contribution is r + 1; sums are numbered as they are met ---- */

#define MAX_SUMS 4096
static struct {
    uint32_t left, right;
} sums[MAX_SUMS];
static uint32_t sum_count;

static uint32_t add(uint32_t left, uint32_t right)
{
    for (uint32_t i = 0; i < sum_count; i++)
        if (sums[i].left == left && sums[i].right == right)
            return COPSE_MAX_REPLICAS + 1 + i;
    assert_true(sum_count < MAX_SUMS);
    sums[sum_count].left = left;
    sums[sum_count].right = right;
    return COPSE_MAX_REPLICAS + 1 + sum_count++;
}

/* The definition, top down: a full left half of a power of two, and the rest. */
static uint32_t canonical(uint32_t first, uint32_t count)
{
    uint32_t half = 1;
    if (count == 1)
        return first + 1;
    while (half * 2 < count)
        half *= 2;
    return add(canonical(first, half), canonical(first + half, count - half));
}

/* What every rank holds of one element. */
struct state {
    uint32_t gradient[COPSE_MAX_REPLICAS];
    uint32_t readable[COPSE_MAX_REPLICAS][COPSE_MAX_REPLICAS]; /* [by][of] */
    uint32_t sum[COPSE_MAX_REPLICAS], value[COPSE_MAX_REPLICAS];
};

static uint32_t sum_readable(const struct state *s, uint32_t by, uint32_t first, uint32_t count)
{
    uint32_t half = 1;
    if (count == 1)
        return first == by ? s->gradient[by] : s->readable[by][first];
    while (half * 2 < count)
        half *= 2;
    return add(sum_readable(s, by, first, half), sum_readable(s, by, first + half, count - half));
}

static void apply(struct state *s, const struct copse_move *m, uint32_t ranks)
{
    switch (m->kind) {
    case COPSE_MOVE_GATHER:
        s->readable[m->dst][m->src] = s->gradient[m->src];
        break;
    case COPSE_MOVE_SUM:
        s->sum[m->dst] = sum_readable(s, m->dst, 0, ranks);
        break;
    case COPSE_MOVE_ACCUMULATE:
        assert_int_not_equal(s->readable[m->dst][m->src], 0);
        s->gradient[m->dst] = add(s->gradient[m->dst], s->readable[m->dst][m->src]);
        break;
    case COPSE_MOVE_UPDATE:
        assert_int_equal(s->value[m->dst], 0); /* once */
        s->value[m->dst] = s->sum[m->dst] ? s->sum[m->dst] : s->gradient[m->dst];
        break;
    case COPSE_MOVE_BROADCAST:
        assert_int_not_equal(s->value[m->src], 0);
        assert_int_equal(s->value[m->dst], 0);
        s->value[m->dst] = s->value[m->src];
        break;
    default:
        fail_msg("move %d between workers where there is one", (int)m->kind);
    }
}

static void check_element(const struct copse_schedule *s, uint32_t ranks, uint64_t element)
{
    struct state state = { { 0 }, { { 0 } }, { 0 }, { 0 } };
    for (uint32_t r = 0; r < ranks; r++)
        state.gradient[r] = r + 1;
    for (size_t i = 0; i < s->moves.count; i++) {
        const struct copse_move *m = &s->moves.at[i];
        if (element >= m->first && element < m->first + m->count)
            apply(&state, m, ranks);
    }
    for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(state.value[r], canonical(0, ranks));
}

static void check_form(const struct copse_schedule *s, uint32_t ranks, uint64_t first,
                       uint64_t count)
{
    uint64_t at = first;
    for (size_t i = 0; i < s->slices.count; i++) {
        const struct copse_slice *slice = &s->slices.at[i];
        assert_int_equal(slice->first, at);
        assert_int_equal(slice->first % COPSE_UNIT, 0);
        assert_true(slice->count > 0);
        assert_true(slice->owner < ranks);
        at += slice->count;
    }
    assert_int_equal(at, first + count);
    for (size_t i = 0; i < s->moves.count; i++) {
        const struct copse_move *m = &s->moves.at[i];
        assert_true(m->src < ranks && m->dst < ranks && m->phase < s->phases);
        assert_int_equal(m->first, s->slices.at[m->slice].first);
        assert_int_equal(m->count, s->slices.at[m->slice].count);
        if (i > 0)
            assert_true(m->phase >= m[-1].phase);
    }
}

/* Inside a phase nothing may depend on the order: no move reads what another one writes. */
static void check_phases(const struct copse_schedule *s)
{
    for (size_t i = 0; i < s->moves.count; i++)
        for (size_t j = 0; j < s->moves.count; j++) {
            const struct copse_move *a = &s->moves.at[i], *b = &s->moves.at[j];
            if (i == j || a->phase != b->phase || a->slice != b->slice)
                continue;
            assert_int_equal(a->kind, b->kind);
            if (a->kind != COPSE_MOVE_GATHER)
                assert_int_not_equal(a->dst, b->dst);
            if (a->kind == COPSE_MOVE_ACCUMULATE || a->kind == COPSE_MOVE_BROADCAST)
                assert_int_not_equal(a->dst, b->src);
        }
}

static void every_element_is_summed_once_by_the_tree(void **unused)
{
    static const uint64_t counts[] = { 1,     2, 63, 64, 65, 1000, 1024, 1025, 4096, 17 * 1024 + 5,
                                       100003 };
    (void)unused;
    for (size_t k = 0; k < COPSE_COUNT(reductions); k++)
        for (uint32_t ranks = 1; ranks <= 17; ranks++)
            for (size_t c = 0; c < COPSE_COUNT(counts); c++)
                for (uint64_t first = 0; first <= 640; first += 640) {
                    struct copse_schedule s;
                    assert_int_equal(
                        copse__schedule_make(&mem, reductions[k], ranks, first, counts[c], &s),
                        COPSE_OK);
                    sum_count = 0;
                    check_form(&s, ranks, first, counts[c]);
                    check_phases(&s);
                    for (size_t i = 0; i < s.slices.count; i++) {
                        check_element(&s, ranks, s.slices.at[i].first);
                        check_element(&s, ranks, s.slices.at[i].first + s.slices.at[i].count - 1);
                    }
                    copse__schedule_fini(&mem, &s);
                }
    struct copse_schedule s;
    assert_int_equal(copse__schedule_make(&mem, COPSE_REDUCE_TREE, 64, 0, 64, &s), COPSE_OK);
    check_element(&s, 64, 63);
    copse__schedule_fini(&mem, &s);
    assert_int_equal(atomic_load(&mem.live), 0);
}

static void one_rank_only_updates(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < COPSE_COUNT(reductions); k++) {
        struct copse_schedule s;
        assert_int_equal(copse__schedule_make(&mem, reductions[k], 1, 0, 1000, &s), COPSE_OK);
        assert_int_equal(s.moves.count, 1);
        assert_int_equal(s.moves.at[0].kind, COPSE_MOVE_UPDATE);
        assert_int_equal(s.moves.at[0].count, 1000);
        copse__schedule_fini(&mem, &s);
    }
}

static void empty_range_does_nothing(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < COPSE_COUNT(reductions); k++) {
        struct copse_schedule s;
        assert_int_equal(copse__schedule_make(&mem, reductions[k], 5, 128, 0, &s), COPSE_OK);
        assert_int_equal(s.moves.count, 0);
        assert_int_equal(s.slices.count, 0);
        assert_int_equal(s.phases, 0);
        copse__schedule_fini(&mem, &s);
    }
}

static void shares_are_even(void **unused)
{
    (void)unused;
    for (uint32_t ranks = 2; ranks <= 17; ranks++) {
        struct copse_schedule s;
        assert_int_equal(copse__schedule_make(&mem, COPSE_REDUCE_SHARDED, ranks, 0, 1 << 20, &s),
                         COPSE_OK);
        assert_int_equal(s.slices.count, ranks);
        for (uint32_t i = 0; i < ranks; i++) {
            assert_int_equal(s.slices.at[i].owner, i);
            assert_true(s.slices.at[i].count <= (1u << 20) / ranks + COPSE_UNIT);
            assert_true(s.slices.at[i].count + COPSE_UNIT >= (1u << 20) / ranks);
        }
        copse__schedule_fini(&mem, &s);
    }
}

static void bad_arguments_are_refused(void **unused)
{
    struct copse_schedule s;
    (void)unused;
    assert_int_equal(copse__schedule_make(&mem, COPSE_REDUCE_AUTO, 0, 0, 64, &s),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse__schedule_make(&mem, COPSE_REDUCE_AUTO, 65, 0, 64, &s),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse__schedule_make(&mem, COPSE_REDUCE_AUTO, 2, 32, 64, &s),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse__schedule_make(&mem, (copse_reduce_algorithm)9, 2, 0, 64, &s),
                     COPSE_ERR_ARGUMENT);
}

static void buckets_end_with_the_variable_that_fills_them(void **unused)
{
    static const uint64_t sizes[] = { 64, 64, 640, 64, 128, 64 };
    size_t cuts[6];
    (void)unused;
    assert_int_equal(copse__bucket_plan(sizes, 6, 128, cuts), 4);
    assert_int_equal(cuts[0], 2);
    assert_int_equal(cuts[1], 3);
    assert_int_equal(cuts[2], 5);
    assert_int_equal(cuts[3], 6);
    assert_int_equal(copse__bucket_plan(sizes, 6, 1 << 20, cuts), 1);
    assert_int_equal(cuts[0], 6);
    assert_int_equal(copse__bucket_plan(sizes, 6, 0, cuts), 6);
    assert_int_equal(copse__bucket_plan(sizes, 0, 128, cuts), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_summed_once_by_the_tree),
        cmocka_unit_test(one_rank_only_updates),
        cmocka_unit_test(empty_range_does_nothing),
        cmocka_unit_test(shares_are_even),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(buckets_end_with_the_variable_that_fills_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
