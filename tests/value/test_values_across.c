/* SPDX-License-Identifier: MIT */
/* Values of the replicas of several workers become one: sums and means with the bits of one
   process, of f32, i32 and sparse values, along an axis, by an application's own accumulation; and
   what costs no message. */
#include "copse/distribute/replica.h"
#include "core/base/random.h"
#include "core/value/cross_device.h"
#include "tests/rig/workers/worker_rig.h"

/* A per-replica value of what is given; takes the references over. */
static copse_status gather(copse_strategy *st, copse_value **components, copse_value **out)
{
    const copse_status s =
        copse_value_per_replica(st, components, copse_strategy_replicas(st), out);
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        copse_value_release(&components[r]);
    return s;
}

/* ---- 1, 2, ... on the replicas ---- */

/* One number: base plus the rank among all. */
static copse_status ranks_of(copse_strategy *st, copse_type type, int base, copse_value **out)
{
    copse_value *c[8] = { NULL };
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        const int32_t whole = base + (int32_t)(copse_strategy_first_rank(st) + r);
        const float x = (float)whole;
        COPSE_TRY(copse_value_create_on(st, r, type, COPSE_SCALAR,
                                        type == COPSE_I32 ? (const void *)&whole : &x, &c[r]));
    }
    return gather(st, c, out);
}

/* What every replica has of a mirrored scalar, as f32. */
static copse_status read_all(copse_value *v, uint32_t count, float *to)
{
    CHECK(copse_value_kind_of(v) == COPSE_VALUE_MIRRORED && copse_value_count(v) == count);
    for (uint32_t r = 0; r < count; r++) {
        int32_t whole;
        copse_value *c = copse_value_item(v, r);
        CHECK(copse_value_rank(c) == r);
        COPSE_TRY(copse_value_read(c, copse_value_type(c) == COPSE_I32 ? (void *)&whole : &to[r]));
        if (copse_value_type(c) == COPSE_I32)
            to[r] = (float)whole;
    }
    return COPSE_OK;
}

static copse_status all_reduce_rank(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    const struct worker *w = user;
    copse_value *own, *sum;
    float x;
    (void)args;
    (void)count;
    CHECK(copse_replica_count(rc) == w->size * w->replicas);
    CHECK(copse_replica_id(rc) < copse_replica_count(rc));
    COPSE_TRY(copse_value_scalar(ctx, (float)copse_replica_id(rc) + 1, &own));
    copse_status s = copse_replica_all_reduce(rc, COPSE_REDUCE_SUM, own, &sum);
    copse_value_release(&own);
    COPSE_TRY(s);
    COPSE_TRY(copse_value_read(sum, &x));
    *result = sum;
    return x == (float)(copse_replica_count(rc) * (copse_replica_count(rc) + 1) / 2)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_INTERNAL, "the sum is %g", (double)x);
}

/* values[8 i + r]: reduction i on replica r. */
static copse_status reduce_ranks(struct worker *w, copse_strategy *st)
{
    static const copse_type types[] = { COPSE_F32, COPSE_I32 };
    const uint32_t n = copse_strategy_replicas(st);
    float host;
    copse_value *out;
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t op = 0; op < 2; op++) {
            copse_value *v, *mean;
            COPSE_TRY(ranks_of(st, types[t], 1, &v));
            copse_status s = copse_strategy_reduce_to(st, (copse_reduce_op)op, v, NULL, &out);
            if (!s)
                s = copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, NULL, &mean);
            copse_value_release(&v);
            COPSE_TRY(s);
            if (w->size * n > 1)
                s = read_all(out, n, &w->values[8 * (2 * t + op)]);
            if (!s)
                s = copse_value_read(mean, &host);
            CHECK(w->size * n == 1 || copse_value_rank(mean) == COPSE_HOST);
            copse_value_release(&out);
            copse_value_release(&mean);
            COPSE_TRY(s);
            w->values[40 + 2 * t + op] = host;
        }
    COPSE_TRY(copse_strategy_run(st, all_reduce_rank, NULL, 0, w, &out));
    copse_value_release(&out);
    return COPSE_OK;
}

static void ops_8(void **state)
{
    struct worker w[4];
    static const uint32_t shapes[][2] = { { 2, 2 }, { 4, 1 } };
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        run_workers(w, shapes[i][0], shapes[i][1], reduce_ranks);
        assert_all_ok(w, shapes[i][0]);
        for (uint32_t v = 0; v < shapes[i][0]; v++) {
            for (uint32_t r = 0; r < shapes[i][1]; r++)
                for (uint32_t t = 0; t < 2; t++) {
                    assert_true(w[v].values[16 * t + r] == 10.0f);
                    assert_true(w[v].values[16 * t + 8 + r] == 2.5f);
                }
            for (uint32_t k = 0; k < 4; k++)
                assert_true(w[v].values[40 + k] == 2.5f);
        }
    }
}

/* Whole numbers whose sum is no i32: SUM wraps around, MEAN is exact, with and without an axis. */
static copse_status large_of_ranks(copse_strategy *st, copse_value **out)
{
    const uint32_t n = copse_strategy_replicas(st);
    copse_value *c[8] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < n && !s; r++) {
        const int32_t large[2] = { 2000000000 + (int32_t)(copse_strategy_first_rank(st) + r),
                                   -2000000001 };
        s = copse_value_create_on(st, r, COPSE_I32, COPSE_SHAPE(1, 2), large, &c[r]);
    }
    if (!s)
        s = copse_value_per_replica(st, c, n, out);
    for (uint32_t r = 0; r < n; r++)
        copse_value_release(&c[r]);
    return s;
}

static copse_status reduce_large(struct worker *w, copse_strategy *st)
{
    static const int axis = 0;
    static const int64_t exact[2] = { 4 * (int64_t)2000000000 + 6, -4 * (int64_t)2000000001 };
    copse_value *v, *out = NULL;
    copse_status s = COPSE_OK;
    (void)w;
    COPSE_TRY(large_of_ranks(st, &v));
    for (int has_axis = 0; has_axis < 2 && !s; has_axis++)
        for (int op = 0; op < 2 && !s; op++) {
            float mean[2] = { 0, 0 };
            int32_t sum[2] = { 0, 0 };
            s = copse_strategy_reduce(st, (copse_reduce_op)op, v, has_axis ? &axis : NULL, &out);
            if (!s)
                s = copse_value_read(out, op ? (void *)mean : sum);
            copse_value_release(&out);
            for (int i = 0; i < 2 && !s; i++)
                if (op ? mean[i] != (float)((double)exact[i] / 4)
                       : (uint32_t)sum[i] != (uint32_t)exact[i])
                    s = copse_fail(COPSE_ERR_INTERNAL, "axis %d, operation %d: %d or %.9g of %lld",
                                   has_axis, op, (int)sum[i], (double)mean[i], (long long)exact[i]);
        }
    copse_value_release(&v);
    return s;
}

static void large_whole_numbers(void **state)
{
    struct worker w[4];
    static const uint32_t shapes[][2] = { { 2, 2 }, { 4, 1 }, { 1, 4 } };
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        run_workers(w, shapes[i][0], shapes[i][1], reduce_large);
        assert_all_ok(w, shapes[i][0]);
    }
}

/* ---- what costs no message ---- */

static copse_status alone(struct worker *w, copse_strategy *st)
{
    copse_value *v, *sum, *mean;
    COPSE_TRY(copse_value_scalar(ctx, -0.0f, &v));
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, NULL, &sum));
    COPSE_TRY(copse_strategy_reduce_to(st, COPSE_REDUCE_MEAN, v, NULL, &mean));
    CHECK(sum == v && mean == v);
    copse_value_release(&v);
    copse_value_release(&sum);
    copse_value_release(&mean);
    CHECK(copse__local_hub_messages(w->hub, 0) == 0);
    return COPSE_OK;
}

/* What is mirrored already is the same everywhere; a broadcast is each worker's own. */
static copse_status silent(struct worker *w, copse_strategy *st)
{
    copse_value *v, *sum, *mean, *copies;
    COPSE_TRY(ranks_of(st, COPSE_F32, 1, &v));
    COPSE_TRY(copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, v, NULL, &sum));
    const uint64_t before = copse__local_hub_messages(w->hub, w->rank);
    COPSE_TRY(copse_strategy_reduce_to(st, COPSE_REDUCE_MEAN, sum, NULL, &mean));
    COPSE_TRY(copse_strategy_broadcast(st, copse_value_item(v, 0), NULL, &copies));
    w->seen[0] = (uint32_t)(copse__local_hub_messages(w->hub, w->rank) - before);
    CHECK(mean == sum);
    copse_value_release(&v);
    copse_value_release(&sum);
    copse_value_release(&mean);
    copse_value_release(&copies);
    COPSE_TRY(copse_value_scalar(ctx, 1.0f, &v));
    CHECK(copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, NULL, &sum) == COPSE_ERR_ARGUMENT);
    CHECK(strstr(copse_last_error(), "the same on all 4 replicas"));
    copse_value_release(&v);
    return COPSE_OK;
}

static void one_worker_and_mirrored_values_send_nothing(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 1, 1, alone);
    assert_all_ok(w, 1);
    run_workers(w, 1, 1, reduce_ranks);
    assert_all_ok(w, 1);
    run_workers(w, 2, 2, silent);
    assert_all_ok(w, 2);
    assert_int_equal(w[0].seen[0], 0);
    assert_int_equal(w[1].seen[0], 0);
}

/* ---- the bits of one process ---- */

struct bits {
    copse_cross_device_kind kind;
    size_t small_bytes;
    uint32_t arrays;
    uint32_t counts[6]; /* elements; odd arrays are i32 */
};

static void fill(uint32_t rank, uint32_t array, bool is_whole, uint32_t count, void *to)
{
    struct copse_stream s;
    copse__stream_init(&s, 100 * rank + array, 7);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t x = copse__stream_u32(&s);
        if (is_whole)
            ((uint32_t *)to)[i] = x;
        else /* exponents differ, so that the order of additions shows */
            ((float *)to)[i] = ((float)(x >> 8) / 16777216.0f - 0.5f) * (float)(1u << (x % 20));
    }
}

static copse_status make_array(copse_strategy *st, uint32_t array, uint32_t count,
                               copse_value **out)
{
    copse_value *c[8] = { NULL };
    uint32_t *room = calloc(count + 1, sizeof *room);
    copse_status s = COPSE_OK;
    CHECK(room);
    for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
        fill(copse_strategy_first_rank(st) + r, array, array % 2, count, room);
        s = copse_value_create_on(st, r, array % 2 ? COPSE_I32 : COPSE_F32, COPSE_SHAPE(count),
                                  room, &c[r]);
    }
    free(room);
    return s ? s : gather(st, c, out);
}

/* A number for all bytes that a replica has of the results. */
static copse_status hash_of(copse_value *const *out, uint32_t arrays, uint32_t replica,
                            uint64_t *hash)
{
    *hash = COPSE_HASH_START;
    for (uint32_t a = 0; a < arrays; a++) {
        copse_value *c = copse_value_item(out[a], replica);
        const size_t count = (size_t)copse__elements(copse_value_shape(c));
        uint32_t *room = calloc(count + 1, sizeof *room);
        CHECK(room);
        const copse_status s = copse_value_read(c, room);
        *hash = copse__hash(*hash, room, 4 * count);
        free(room);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

static copse_status reduce_bits(struct worker *w, copse_strategy *st)
{
    const struct bits *b = w->job;
    copse_value *values[6] = { NULL }, *out[6];
    copse_cross_device *x;
    copse_status s = copse_cross_device_create(
        ctx, &(struct copse_cross_device_params){ .kind = b->kind, .small_bytes = b->small_bytes },
        &x);
    for (uint32_t a = 0; a < b->arrays && !s; a++)
        s = make_array(st, a, b->counts[a], &values[a]);
    for (uint32_t op = 0; op < 2 && !s; op++) {
        s = copse_cross_batch_reduce(x, st, (copse_reduce_op)op, values, NULL, b->arrays, out);
        for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
            uint64_t hash;
            s = hash_of(out, b->arrays, r, &hash);
            memcpy(&w->values[16 * op + 2 * r], &hash, sizeof hash);
        }
        for (uint32_t a = 0; a < b->arrays && !s; a++)
            copse_value_release(&out[a]);
    }
    for (uint32_t a = 0; a < b->arrays; a++)
        copse_value_release(&values[a]);
    copse_cross_device_release(&x);
    return s;
}

static void compare_with_one(uint32_t size, uint32_t replicas, const void *job,
                             copse_status (*run)(struct worker *, copse_strategy *))
{
    struct worker one[1], w[4];
    run_workers_over(&copse__transport_local, one, 1, size * replicas, job, run);
    assert_all_ok(one, 1);
    run_workers_over(&copse__transport_local, w, size, replicas, job, run);
    assert_all_ok(w, size);
    for (uint32_t v = 0; v < size; v++)
        for (uint32_t op = 0; op < 2; op++)
            for (uint32_t r = 0; r < replicas; r++)
                assert_memory_equal(&w[v].values[16 * op + 2 * r], &one[0].values[16 * op], 8);
}

static const uint32_t layouts[][2] = { { 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 } };

/* f32 and i32 arrays that end in the middle of an owner's part, and empty ones. */
static void sums_have_the_bits_of_one_process(void **state)
{
    static const struct bits batches[] = {
        { COPSE_CROSS_AUTO, 0, 1, { 1 } },
        { COPSE_CROSS_AUTO, 0, 6, { 5000, 3001, 0, 7, 1, 2049 } },
        { COPSE_CROSS_TO_ONE, 0, 2, { 1000, 1000 } },
        { COPSE_CROSS_ALL_REDUCE, 64, 6, { 3, 3, 2500, 1, 5, 4 } },
        { COPSE_CROSS_HIERARCHICAL, 0, 3, { 4097, 1, 3000 } },
    };
    const uint32_t count = found_count;
    (void)state;
    for (found_count = 1; found_count <= count; found_count++)
        for (size_t i = 0; i < COPSE_COUNT(batches); i++)
            for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
                compare_with_one(layouts[l][0], layouts[l][1], &batches[i], reduce_bits);
    found_count = count;
}

/* More words than one round moves; and workers with other numbers of replicas agree with each
   other. */
static void large_values_and_odd_numbers_of_workers(void **state)
{
    static const struct bits large = { COPSE_CROSS_TO_ONE, 0, 2, { 4700000, 5000 } };
    static const struct bits odd = { COPSE_CROSS_AUTO, 0, 2, { 3000, 3000 } };
    struct worker w[3];
    (void)state;
    host_alone();
    compare_with_one(2, 1, &large, reduce_bits);
    run_workers_over(&copse__transport_local, w, 3, 1, &odd, reduce_bits);
    assert_all_ok(w, 3);
    assert_memory_equal(w[1].values, w[0].values, sizeof w[0].values);
    assert_memory_equal(w[2].values, w[0].values, sizeof w[0].values);
    devices_back();
}

/* ---- sparse ---- */

/* Rows repeat inside and between replicas; one replica has none. */
static copse_status sparse_of(copse_strategy *st, uint32_t seed, copse_value **out)
{
    copse_value *c[8] = { NULL };
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        const uint32_t rank = copse_strategy_first_rank(st) + r, count = rank * 5 % 7 + (rank != 0);
        int32_t rows[16];
        float values[48];
        fill(rank, seed, true, count, rows);
        fill(rank, seed, false, 3 * count, values);
        for (uint32_t i = 0; i < count; i++)
            rows[i] = (int32_t)((uint32_t)rows[i] % 6);
        const struct copse_sparse_params p = { COPSE_SHAPE(6, 3), count, rows, values };
        COPSE_TRY(copse__value_sparse(ctx, st, r, &p, &c[r]));
    }
    return gather(st, c, out);
}

static copse_status reduce_sparse(struct worker *w, copse_strategy *st)
{
    copse_status s = COPSE_OK;
    for (uint32_t op = 0; op < 2 && !s; op++) {
        copse_value *values[3] = { NULL }, *out[3] = { NULL };
        COPSE_TRY(sparse_of(st, 1, &values[0]));
        COPSE_TRY(ranks_of(st, COPSE_F32, 1, &values[1]));
        COPSE_TRY(sparse_of(st, 2, &values[2]));
        s = copse_strategy_batch_reduce_to(st, (copse_reduce_op)op, values, NULL, 3, out);
        for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
            uint64_t hash = COPSE_HASH_START;
            for (uint32_t i = 0; i < 3 && !s; i += 2) {
                copse_value *c = copse_value_item(out[i], r);
                const size_t count = copse_value_count(c);
                int32_t rows[6];
                float x[18];
                CHECK(copse_value_kind_of(c) == COPSE_VALUE_SPARSE && count > 0 && count <= 6);
                s = copse_value_read_sparse(c, rows, x);
                hash = copse__hash(hash, rows, 4 * count);
                hash = copse__hash(hash, x, 12 * count);
            }
            memcpy(&w->values[16 * op + 2 * r], &hash, sizeof hash);
        }
        for (uint32_t i = 0; i < 3; i++) {
            copse_value_release(&values[i]);
            copse_value_release(&out[i]);
        }
    }
    return s;
}

static void sparse_values_have_the_bits_of_one_process(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        compare_with_one(layouts[l][0], layouts[l][1], NULL, reduce_sparse);
}

/* {row 1: [1,2]} + {row 1: [3,4], row 3: [5,6]} */
static copse_status ops_5_across(struct worker *w, copse_strategy *st)
{
    static const int32_t rows[2][2] = { { 1, 0 }, { 1, 3 } };
    static const float values[2][4] = { { 1, 2, 0, 0 }, { 3, 4, 5, 6 } };
    const struct copse_sparse_params p = { COPSE_SHAPE(5, 2), 1 + w->rank, rows[w->rank],
                                           values[w->rank] };
    copse_value *v, *mean;
    int32_t at[2];
    float x[4];
    COPSE_TRY(copse_value_sparse(ctx, &p, &v)); /* one replica: a plain value is its own */
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, NULL, &mean));
    CHECK(copse_value_count(mean) == 2);
    COPSE_TRY(copse_value_read_sparse(mean, at, x));
    CHECK(at[0] == 1 && at[1] == 3);
    CHECK(x[0] == 2.0f && x[1] == 3.0f && x[2] == 2.5f && x[3] == 3.0f);
    copse_value_release(&v);
    copse_value_release(&mean);
    return COPSE_OK;
}

static void ops_5(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, ops_5_across);
    assert_all_ok(w, 2);
}

/* ---- along an axis ---- */

/* Replica k of all has k examples of two numbers; the first has none. */
static copse_status reduce_axis(struct worker *w, copse_strategy *st)
{
    static const int axis = 0;
    static const copse_reduce_op ops[] = { COPSE_REDUCE_SUM, COPSE_REDUCE_MEAN };
    for (uint32_t op = 0; op < 2; op++) {
        copse_value *c[8] = { NULL }, *v, *out;
        for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
            const uint32_t rank = copse_strategy_first_rank(st) + r;
            float x[16];
            fill(rank, 3, false, 2 * rank, x);
            COPSE_TRY(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(rank, 2), x, &c[r]));
        }
        COPSE_TRY(gather(st, c, &v));
        COPSE_TRY(copse_strategy_reduce(st, ops[op], v, &axis, &out));
        COPSE_TRY(copse_value_read(out, &w->values[16 * op]));
        for (uint32_t r = 1; r < copse_strategy_replicas(st); r++)
            memcpy(&w->values[16 * op + 2 * r], &w->values[16 * op], 8);
        CHECK(w->values[16 * op] != 0.0f && w->values[16 * op] != w->values[16 * op + 1]);
        copse_value_release(&v);
        copse_value_release(&out);
    }
    return COPSE_OK;
}

static void reductions_along_an_axis_have_the_bits_of_one_process(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        compare_with_one(layouts[l][0], layouts[l][1], NULL, reduce_axis);
}

/* ---- an accumulation of the application's ---- */

struct most {
    uint32_t calls, failing;
    float seen[8];
};

static copse_status largest(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    struct most *m = user;
    float most = -1;
    m->calls++;
    if (m->failing)
        return copse_fail(COPSE_ERR_END, "no largest one");
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse_value_read(values[i], &m->seen[i]));
        most = m->seen[i] > most ? m->seen[i] : most;
    }
    return copse_value_scalar(ctx, most, out);
}

static copse_status accumulate_ranks(struct worker *w, copse_strategy *st)
{
    struct most m = { 0 };
    copse_value *v, *out = NULL;
    copse_cross_device *x;
    const struct copse_cross_device_params p = { .kind = COPSE_CROSS_TO_ONE,
                                                 .accumulate = largest,
                                                 .user = &m };
    COPSE_TRY(copse_cross_device_create(ctx, &p, &x));
    COPSE_TRY(ranks_of(st, COPSE_F32, 1, &v));
    copse_status s = copse_cross_reduce(x, st, COPSE_REDUCE_MEAN, v, NULL, &out);
    if (!s)
        s = read_all(out, copse_strategy_replicas(st), w->values);
    memcpy(&w->values[8], m.seen, sizeof m.seen);
    w->seen[0] = m.calls;
    copse_value_release(&out);
    m.failing = 1; /* where it runs */
    if (!s)
        w->seen[1] = copse_cross_reduce(x, st, COPSE_REDUCE_MEAN, v, NULL, &out);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    m.failing = 0;
    if (!s) /* as if nothing had been */
        s = copse_cross_reduce(x, st, COPSE_REDUCE_SUM, v, NULL, &out);
    if (!s)
        s = read_all(out, copse_strategy_replicas(st), &w->values[20]);
    copse_value_release(&out);
    copse_value_release(&v);
    copse_cross_device_release(&x);
    return s;
}

static void ops_6(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 2, accumulate_ranks);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        assert_int_equal(w[v].seen[0], v == 0); /* the first worker's alone */
        assert_int_equal(w[v].seen[1], COPSE_ERR_END);
        for (uint32_t r = 0; r < 2; r++)
            assert_true(w[v].values[r] == 1.0f && w[v].values[20 + r] == 4.0f);
    }
    for (uint32_t k = 0; k < 4; k++)
        assert_true(w[0].values[8 + k] == (float)k + 1);
    assert_non_null(strstr(w[0].text, "no largest one"));
    assert_non_null(strstr(w[1].text, "worker 0 (h0:1) could not take part"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_5),
        cmocka_unit_test(ops_6),
        cmocka_unit_test(ops_8),
        cmocka_unit_test(large_whole_numbers),
        cmocka_unit_test(one_worker_and_mirrored_values_send_nothing),
        cmocka_unit_test(sums_have_the_bits_of_one_process),
        cmocka_unit_test(large_values_and_odd_numbers_of_workers),
        cmocka_unit_test(sparse_values_have_the_bits_of_one_process),
        cmocka_unit_test(reductions_along_an_axis_have_the_bits_of_one_process),
    };
    return cmocka_run_group_tests_name("values_across", tests, open_workers, close_workers);
}
