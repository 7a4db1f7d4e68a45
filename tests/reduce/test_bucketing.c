/* SPDX-License-Identifier: MIT */
/* Buckets of a batch, even chunks, and sums in host memory: no device. */
#include "core/device/device.h"
#include "core/reduce/tree.h"
#include "core/reduce/value/bucketing.h"
#include "tests/rig/one_context.h"

/* "2:0[0,2) 3:1[0,3)..." per bucket: elements:array[first,end), buckets parted by '|'. */
static const char *text_of(const struct copse_array_buckets *p)
{
    static char text[1024];
    size_t at = 0;
    text[0] = 0;
    for (size_t k = 0; k < p->buckets.count; k++) {
        const struct copse_array_bucket *bucket = &p->buckets.at[k];
        uint64_t sum = 0;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u:", k ? "|" : "",
                               (unsigned)bucket->count);
        for (size_t i = 0; i < bucket->view_count; i++) {
            const struct copse_bucket_view *view = &p->views.at[bucket->first_view + i];
            assert_true(view->at == sum);
            assert_true(view->count > 0);
            at += (size_t)snprintf(text + at, sizeof text - at, " %u[%u,%u)", (unsigned)view->array,
                                   (unsigned)view->first, (unsigned)(view->first + view->count));
            sum += view->count;
        }
        assert_true(bucket->count == sum);
    }
    return text;
}

#define BUCKETS(want, rule, ...)                                                       \
    do {                                                                               \
        const uint64_t elements_[] = { __VA_ARGS__ };                                  \
        const struct copse_bucketing rule_ = rule;                                     \
        struct copse_array_buckets buckets_;                                           \
        assert_int_equal(copse__array_buckets_make(&ctx->base.mem, &rule_, elements_,  \
                                                   COPSE_COUNT(elements_), &buckets_), \
                         COPSE_OK);                                                    \
        assert_string_equal(text_of(&buckets_), want);                                 \
        copse__array_buckets_fini(&ctx->base.mem, &buckets_);                          \
    } while (0)
#define RULE(...) ((struct copse_bucketing){ __VA_ARGS__ })

/* By number: floor(total / count) each, the last takes the rest. */
static void ops_2(void **unused)
{
    (void)unused;
    BUCKETS("2: 0[0,2)|2: 0[2,4)|2: 0[4,6)|4: 0[6,10)", RULE(.count = 4), 10);
    BUCKETS("0:|0:|0:|0:|0:|0:|0:|3: 0[0,3)", RULE(.count = 8), 3);
    BUCKETS("2: 0[0,2)|2: 0[2,3) 2[0,1)|2: 2[1,3)|4: 2[3,4) 3[0,3)", RULE(.count = 4), 3, 0, 4, 3);
    BUCKETS("10: 0[0,3) 2[0,4) 3[0,3)", RULE(.count = 1), 3, 0, 4, 3);
    BUCKETS("0:|0:", RULE(.count = 2), 0);
}

/* Runs of small neighbours first; a lone one and large ones on their own. */
static void ops_3(void **unused)
{
    (void)unused;
    BUCKETS("2: 0[0,1) 1[0,1)|3: 5[0,1) 6[0,1) 7[0,1)|9: 2[0,9)|1: 3[0,1)|9: 4[0,9)",
            RULE(.small_bytes = 4, .small_group = 10), 1, 1, 9, 1, 9, 1, 1, 1);
    /* The limit of a run is strict. */
    BUCKETS("2: 0[0,1) 1[0,1)|2: 2[0,1) 3[0,1)|1: 4[0,1)", RULE(.small_bytes = 4, .small_group = 2),
            1, 1, 1, 1, 1);
    BUCKETS("5: 0[0,2) 1[0,3)|3: 2[0,3)", RULE(.small_bytes = 15, .small_group = 2), 2, 3, 3);
    BUCKETS("1: 0[0,1)|1: 1[0,1)", RULE(.small_bytes = 4, .small_group = 1), 1, 1);

    uint64_t many[30];
    struct copse_array_buckets b;
    for (int i = 0; i < 30; i++)
        many[i] = 1;
    assert_int_equal(copse__array_buckets_make(
                         &ctx->base.mem, &RULE(.small_bytes = 4, .small_group = 10), many, 30, &b),
                     COPSE_OK);
    assert_int_equal(b.buckets.count, 3);
    for (int k = 0; k < 3; k++)
        assert_int_equal(b.buckets.at[k].view_count, 10);
    copse__array_buckets_fini(&ctx->base.mem, &b);
}

/* By bytes, from the last: a bucket is closed once it holds more than the limit. */
static void ops_4(void **unused)
{
    (void)unused;
    BUCKETS("2: 2[0,1) 1[0,1)|1: 0[0,1)", RULE(.bucket_bytes = 4), 1, 1, 1);
    BUCKETS("3: 2[0,1) 1[0,1) 0[0,1)", RULE(.bucket_bytes = 0), 1, 1, 1);
    BUCKETS("5: 2[0,5)|3: 1[0,2) 0[0,1)", RULE(.bucket_bytes = 16), 1, 2, 5);
    BUCKETS("0:", RULE(.bucket_bytes = 4), 0, 0, 0);
    BUCKETS("1: 0[0,1)|0:|2: 2[0,2)", RULE(.is_each = true), 1, 0, 2);
}

static void ops_9(void **unused)
{
    static const struct {
        uint64_t count, chunks, each, padding;
    } cases[] = {
        { 10, 4, 3, 2 }, { 2, 4, 1, 2 }, { 12, 4, 3, 0 }, { 0, 4, 0, 0 }, { 7, 1, 7, 0 }
    };
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const struct copse_chunks c = copse__chunks_even(cases[i].count, cases[i].chunks);
        assert_int_equal(c.each, cases[i].each);
        assert_int_equal(c.padding, cases[i].padding);
    }
}

/* The definition of the tree, top down. */
static float canonical(const float *x, uint32_t count)
{
    uint32_t half = 1;
    if (count == 1)
        return x[0];
    while (half * 2 < count)
        half *= 2;
    return canonical(x, half) + canonical(x + half, count - half);
}

static void rows_are_summed_by_the_tree(void **unused)
{
    enum { N = 5000, RANKS = 64 };
    static float rows[RANKS][N], first[RANKS][N];
    static int32_t whole[RANKS][3];
    static int64_t wide[RANKS][3];
    (void)unused;
    for (uint32_t n = 1; n <= RANKS; n++) {
        void *at[RANKS], *whole_at[RANKS], *wide_at[RANKS];
        uint32_t want = 0;
        int64_t want_wide = 0;
        for (uint32_t r = 0; r < RANKS; r++) {
            at[r] = rows[r];
            whole_at[r] = whole[r];
            wide_at[r] = wide[r];
            for (uint32_t i = 0; i < N; i++)
                first[r][i] = rows[r][i] =
                    (float)((r * 7919u + i * 104729u) % 1000u) * (i % 3 ? 1e-3f : 1e6f);
            whole[r][2] = INT32_MAX - (int32_t)r;
            want += r < n ? (uint32_t)whole[r][2] : 0;
            wide[r][2] = ((int64_t)1 << 53) + r; /* not exact in double precision */
            want_wide += r < n ? wide[r][2] : 0;
        }
        copse__tree_rows(at, n, N, COPSE_F32);
        copse__tree_rows(whole_at, n, 3, COPSE_I32);
        assert_int_equal((uint32_t)whole[0][2], want);
        copse__tree_rows(wide_at, n, 3, COPSE_I64);
        assert_true(wide[0][2] == want_wide);
        for (uint32_t i = 0; i < N; i += 97) {
            float column[RANKS];
            for (uint32_t r = 0; r < n; r++)
                column[r] = first[r][i];
            const float sum = canonical(column, n);
            assert_memory_equal(&rows[0][i], &sum, sizeof sum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_2),
        cmocka_unit_test(ops_3),
        cmocka_unit_test(ops_4),
        cmocka_unit_test(ops_9),
        cmocka_unit_test(rows_are_summed_by_the_tree),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
