/* SPDX-License-Identifier: MIT */
/* See node.h. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/distribute/collective.h"
#include "copse/distribute/replica.h"
#include "core/base/random.h"
#include "core/reduce/tree.h"
#include "core/value/cross_device.h"
#include "tests/comm/node.h"

#define RANKS 2
#define LARGE 3000000u /* elements; more than an owner has in one message */
#define SMALL 37u

static copse_status wrong(const char *what)
{
    return copse_fail(COPSE_ERR_INTERNAL, "wrong: %s", what);
}

static void fill(uint32_t rank, uint32_t count, float *to)
{
    struct copse_stream s;
    copse__stream_init(&s, 50 + rank, 3);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t x = copse__stream_u32(&s);
        to[i] = ((float)(x >> 8) / 16777216.0f - 0.5f) * (float)(1u << (x % 20));
    }
}

static copse_status per_replica(copse_strategy *st, copse_type type, uint32_t count,
                                copse_value **out)
{
    copse_value *c[RANKS] = { NULL };
    float *room = calloc(count, sizeof *room);
    copse_status s = room ? COPSE_OK : wrong("no memory");
    for (uint32_t r = 0; r < RANKS && !s; r++) {
        fill(copse_strategy_first_rank(st) + r, count, room);
        for (uint32_t i = 0; type == COPSE_I32 && i < count; i++)
            ((int32_t *)(void *)room)[i] = (int32_t)room[i];
        s = copse_value_create_on(st, r, type, COPSE_SHAPE(count), room, &c[r]);
    }
    free(room);
    if (!s)
        s = copse_value_per_replica(st, c, RANKS, out);
    for (uint32_t r = 0; r < RANKS; r++)
        copse_value_release(&c[r]);
    return s;
}

/* The tree over the ranks of all workers, in one place. */
static copse_status expect(copse_strategy *st, uint32_t count, const float *got)
{
    const uint32_t total = copse_strategy_replicas_in_sync(st);
    void *rows[COPSE_MAX_REPLICAS];
    float *all = calloc((size_t)total * count, sizeof *all);
    if (!all)
        return wrong("no memory");
    for (uint32_t k = 0; k < total; k++) {
        rows[k] = all + (size_t)k * count;
        fill(k, count, rows[k]);
    }
    copse__tree_rows(rows, total, count, COPSE_F32);
    const bool is_same = memcmp(all, got, 4 * (size_t)count) == 0;
    free(all);
    return is_same ? COPSE_OK : wrong("a sum has other bits");
}

static copse_status sums(copse_strategy *st, uint32_t count, double *seconds)
{
    copse_value *v, *sum = NULL;
    float *got = calloc(count, sizeof *got);
    COPSE_TRY(per_replica(st, COPSE_F32, count, &v));
    const uint64_t begin = copse__now_ns();
    copse_status s = copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, NULL, &sum);
    *seconds = (double)(copse__now_ns() - begin) / 1e9;
    if (!s)
        s = copse_value_read(sum, got);
    if (!s)
        s = expect(st, count, got);
    copse_value_release(&v);
    copse_value_release(&sum);
    free(got);
    return s;
}

static copse_status mixed(copse_strategy *st)
{
    const uint32_t total = copse_strategy_replicas_in_sync(st),
                   first = copse_strategy_first_rank(st);
    copse_value *values[2] = { NULL }, *out[2] = { NULL }, *c[RANKS];
    float x[RANKS], mean;
    int32_t rows[COPSE_MAX_REPLICAS];
    float slices[COPSE_MAX_REPLICAS];
    COPSE_TRY(per_replica(st, COPSE_I32, SMALL, &values[0]));
    for (uint32_t r = 0; r < RANKS; r++) { /* a row of its own each, and one for all */
        const int32_t at[] = { 0, (int32_t)(first + r + 1) };
        const float one[] = { 1, 2 };
        const struct copse_sparse_params p = { COPSE_SHAPE(COPSE_MAX_REPLICAS + 1, 1), 2, at, one };
        COPSE_TRY(copse__value_sparse(st->ctx, st, r, &p, &c[r]));
    }
    COPSE_TRY(copse_value_per_replica(st, c, RANKS, &values[1]));
    COPSE_TRY(copse_strategy_batch_reduce_to(st, COPSE_REDUCE_SUM, values, NULL, 2, out));
    copse_value *rows_of_all = copse_value_item(out[1], 1);
    if (copse_value_count(rows_of_all) != total + 1)
        return wrong("the number of rows");
    COPSE_TRY(copse_value_read_sparse(rows_of_all, rows, slices));
    if (slices[0] != (float)total || rows[total] != (int32_t)total || slices[total] != 2.0f)
        return wrong("a row");
    for (uint32_t i = 0; i < 2; i++) {
        copse_value_release(&values[i]);
        copse_value_release(&out[i]);
        copse_value_release(&c[i]);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        x[r] = (float)(first + r + 1);
        COPSE_TRY(copse_value_create_on(st, r, COPSE_F32, COPSE_SCALAR, &x[r], &c[r]));
    }
    COPSE_TRY(copse_value_per_replica(st, c, RANKS, &values[0]));
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, values[0], NULL, &out[0]));
    COPSE_TRY(copse_value_read(out[0], &mean));
    copse_value_release(&values[0]);
    copse_value_release(&out[0]);
    for (uint32_t r = 0; r < RANKS; r++)
        copse_value_release(&c[r]);
    return mean == (float)(total + 1) / 2 ? COPSE_OK : wrong("a mean");
}

/* A replica-local sum; and a variable that starts with the first worker's values. */
static copse_status variables(copse_strategy *st)
{
    const float total = (float)copse_strategy_replicas_in_sync(st);
    const float mine = 1 + (float)copse_strategy_first_rank(st);
    copse_variable *v;
    copse_value *seen;
    float x;
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "count",
                                         .shape = COPSE_SHAPE(1),
                                         .values = &mine,
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        &v));
    COPSE_TRY(copse_read(v, &seen));
    const copse_status s = copse_value_read(seen, &x);
    copse_value_release(&seen);
    COPSE_TRY(s);
    return x == total ? COPSE_OK : wrong("a variable's sum");
}

/* The last replica of worker 1 fails before the sum, in every second run. */
static copse_status sum_or_fail(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const uint32_t run = *(const uint32_t *)user, id = copse_replica_id(rc);
    (void)count;
    if (run % 2 == 0 && id == 2 * RANKS - 1)
        return copse_fail(COPSE_ERR_CANCELLED, "replica %u has had enough", id);
    return copse_replica_all_reduce(rc, COPSE_REDUCE_SUM, args[0], result);
}

static copse_status failures(copse_strategy *st)
{
    const uint64_t begin = copse__now_ns();
    copse_value *v;
    copse_status s = COPSE_OK;
    COPSE_TRY(per_replica(st, COPSE_F32, SMALL, &v));
    for (uint32_t run = 0; run < 20 && !s; run++) {
        copse_value *sum;
        s = copse_strategy_run(st, sum_or_fail, &v, 1, &run, &sum);
        copse_value_release(&sum);
        if (run % 2 == 0)
            s = s == COPSE_ERR_CANCELLED && strstr(copse_last_error(), "replica 3 has had enough")
                    ? COPSE_OK
                    : wrong("a run that one worker fails");
    }
    copse_value_release(&v);
    if (!s)
        printf("20 runs, of which 10 failed: %.1f ms\n", (double)(copse__now_ns() - begin) / 1e6);
    return s;
}

int node_values(copse_context *ctx, copse_cluster *c)
{
    static const char *const ids[RANKS] = { "host:0", "host:0" };
    copse_strategy *st = NULL;
    double small = 0, large = 0;
    copse_status s = copse_collective_create(ctx, c, ids, RANKS, NULL, &st);
    for (uint32_t i = 0; i < 20 && !s; i++)
        s = sums(st, SMALL, &small);
    if (!s)
        s = sums(st, LARGE, &large);
    if (!s)
        s = mixed(st);
    if (!s)
        s = variables(st);
    if (!s)
        s = failures(st);
    printf("rank %u: %s; %u numbers %.2f ms, %u numbers %.1f ms\n", copse_cluster_rank(c),
           s ? copse_last_error() : "values agree", SMALL, 1e3 * small, LARGE, 1e3 * large);
    copse_strategy_release(&st);
    return s ? 1 : 0;
}
