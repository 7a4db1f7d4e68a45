/* SPDX-License-Identifier: MIT */
/* Calls: functions that compute on the devices of replicas, one replica or all at once. */
#include <math.h>

#include "copse/distribute/accelerator.h"
#include "copse/distribute/call.h"
#include "copse/distribute/sync.h"
#include "copse/ops.h"
#include "copse/ops/functions.h"
#include "copse/train/update.h"
#include "tests/rig/value/replica_rig.h"

static copse_value *array(copse_type type, copse_shape shape, const void *values)
{
    copse_value *v;
    OK(copse_value_create(ctx, type, shape, values, &v));
    return v;
}

static copse_variable *variable(copse_strategy *st, struct copse_variable_params p)
{
    copse_variable *v;
    p.name = fresh("call");
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static void holds(copse_variable *v, uint32_t replica, float expected)
{
    float x;
    OK(copse_variable_read(v, replica, &x));
    if (x != expected)
        fail_msg("%s is %g on replica %u, not %g", copse_variable_name(v), (double)x, replica,
                 (double)expected);
}

/* Releases `v`. */
static void reads(copse_value *v, float expected)
{
    const float x = scalar_of(v);
    copse_value_release(&v);
    if (fabsf(x - expected) > 1e-6f * fabsf(expected))
        fail_msg("a value is %g, not %g", (double)x, (double)expected);
}

/* r + 1 on replica r, or with one replica a plain 1. */
static copse_value *numbered(copse_strategy *st, float factor)
{
    copse_value *at[MAX_RANKS];
    const uint32_t n = copse_strategy_replicas(st);
    for (uint32_t r = 0; r < n; r++)
        at[r] = scalar_on(st, r, factor * (float)(r + 1));
    return per_replica(st, at);
}

/* ---- the example of strategy.run ---- */

static copse_tensor *twice(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_mul(g, copse_input(in, "0"), copse_scalar(g, 2));
}

/* The elements 0 to 9, one for each replica at a time; a replica without one has 0. */
static float sum_of_doubles(copse_strategy *st, uint32_t n, uint64_t *submissions)
{
    copse_value *result = scalar(0);
    *submissions = 0;
    for (uint32_t first = 0; first < 10; first += n) {
        copse_value *at[MAX_RANKS], *x, *y, *sum, *next;
        for (uint32_t r = 0; r < n; r++)
            at[r] = scalar_on(st, r, first + r < 10 ? (float)(first + r) : 0);
        x = per_replica(st, at);
        const uint64_t before = copse_strategy_submissions(st);
        OK(copse_strategy_map(st, twice, NULL, x, &y));
        *submissions = copse_strategy_submissions(st) - before;
        OK(copse_strategy_reduce(st, COPSE_REDUCE_SUM, y, NULL, &sum));
        OK(copse_scope_enter(st));
        OK(copse_value_add(result, sum, &next));
        OK(copse_scope_leave(st));
        copse_value_release(&sum);
        copse_value_release(&result);
        copse_value_release(&x);
        copse_value_release(&y);
        result = next;
    }
    const float total = scalar_of(result);
    copse_value_release(&result);
    return total;
}

static void doubles_of_a_dataset_add_up(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        uint64_t submissions;
        assert_true(sum_of_doubles(st, n, &submissions) == 90);
        const uint64_t recorded = copse_call_recorded(st);
        assert_true(sum_of_doubles(st, n, &submissions) == 90);
        assert_int_equal(copse_call_recorded(st), recorded); /* the second pass records nothing */
        assert_int_equal(submissions, n);                    /* one for each queue */
    }
}

/* ---- results that are held while the same recording computes again ---- */

static void results_keep_their_values(void **unused)
{
    enum { HELD = 4 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *x, *y[HELD], *sum;
        for (int i = 0; i < HELD; i++) {
            x = numbered(st, (float)(i + 1));
            OK(copse_strategy_map(st, twice, NULL, x, &y[i]));
            copse_value_release(&x);
            if (i == 1)
                copse_value_release(&y[1]); /* its memory is free for the next result */
        }
        for (int i = 0; i < HELD; i++) {
            if (i == 1)
                continue;
            OK(copse_strategy_reduce(st, COPSE_REDUCE_SUM, y[i], NULL, &sum));
            reads(sum, (float)((i + 1) * (int)(n * (n + 1))));
        }
        copse_value_release(&y[0]);
        copse_value_release(&y[2]);
        copse_value_release(&y[3]);
    }
}

/* ---- structures of typed inputs, several outputs, a gradient ---- */

/* loss = mean over the examples of (w[id] * pixel / 255 + x)^2 */
static copse_tensor *typed(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *w = copse_input(in, "w"), *id = copse_input(in, "id"), *dw;
    copse_tensor *pixel = copse_mul(g, copse_cast(g, copse_input(in, "image.pixel"), COPSE_F32),
                                    copse_scalar(g, 1.0 / 255));
    copse_tensor *y =
        copse_add(g, copse_mul(g, copse_gather(g, w, id), pixel), copse_input(in, "x"));
    copse_tensor *loss = copse_mean(g, copse_mul(g, y, y), NULL, 0, false);
    (void)user;
    copse_gradients(g, loss, NULL, &w, 1, &dw);
    copse_output(g, "loss", loss);
    copse_output(g, "dw", dw);
    copse_output(g, "id", id); /* an input as it is */
    return NULL;
}

static copse_value *typed_arguments(copse_variable *w, copse_value **x)
{
    static const int32_t ids[] = { 0, 1, 1 };
    static const uint8_t pixels[] = { 255, 51, 102 }; /* no whole word */
    const char *const pixel_name = "pixel";
    copse_value *pixel = array(COPSE_U8, COPSE_SHAPE(3), pixels), *image, *args, *variable_value;
    OK(copse_value_dict(ctx, &pixel_name, &pixel, 1, &image));
    OK(copse_variable_value(w, &variable_value));
    copse_value *items[] = { variable_value, array(COPSE_I32, COPSE_SHAPE(3), ids), image, *x };
    OK(copse_value_dict(ctx, (const char *const[]){ "w", "id", "image", "x" }, items, 4, &args));
    copse_value_release(&pixel);
    for (int i = 0; i < 4; i++)
        copse_value_release(&items[i]);
    *x = NULL;
    return args;
}

static void check_typed(const copse_value *result, float x)
{
    /* y = { 2 + x, 4 / 5 + x, 8 / 5 + x } */
    const float y[] = { 2 + x, 0.8f + x, 1.6f + x };
    float dw[2], loss = (y[0] * y[0] + y[1] * y[1] + y[2] * y[2]) / 3;
    int32_t ids[3];
    copse_value *value = copse_value_find(result, "loss");
    assert_true(fabsf(scalar_of(value) - loss) <= 1e-6f * loss);
    OK(copse_value_read(copse_value_find(result, "dw"), dw));
    assert_true(fabsf(dw[0] - 2.0f / 3 * y[0]) < 1e-6f);
    assert_true(fabsf(dw[1] - 2.0f / 3 * (0.2f * y[1] + 0.4f * y[2])) < 1e-6f);
    OK(copse_value_read(copse_value_find(result, "id"), ids));
    assert_true(ids[0] == 0 && ids[1] == 1 && ids[2] == 1);
}

static copse_status call_typed(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)rc, (void)count;
    return copse_call(typed, user, args[0], result);
}

static void replicas_compute_with_typed_inputs_and_gradients(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *w =
            variable(st, (struct copse_variable_params){ .shape = COPSE_SHAPE(2),
                                                         .values = (const float[]){ 2, 4 } });
        for (int is_run = 0; is_run < 2; is_run++) {
            copse_value *x = n > 1 ? numbered(st, 1) : scalar(1), *result;
            copse_value *args = typed_arguments(w, &x);
            if (is_run)
                OK(copse_strategy_run(st, call_typed, &args, 1, NULL, &result));
            else
                OK(copse_strategy_map(st, typed, NULL, args, &result));
            copse_value_release(&args);
            for (uint32_t r = 0; r < n; r++) {
                copse_value *mine;
                OK(copse__select_replica(result, r, &mine));
                check_typed(mine, (float)(r + 1));
                copse_value_release(&mine);
            }
            copse_value_release(&result);
        }
    }
}

/* ---- updates ---- */

struct counters {
    copse_variable *mean, *sum, *own;
};

/* Each replica adds its number to three variables; returns the old value of the first. */
static copse_tensor *count_up(copse_graph *g, const copse_batch *in, void *user)
{
    const struct counters *c = user;
    copse_tensor *x = copse_input(in, "0");
    copse_update(g, c->mean, copse_add(g, copse_variable_tensor(c->mean), x));
    copse_update(g, c->sum, x);
    copse_update(g, c->own, copse_add(g, copse_variable_tensor(c->own), x));
    return copse_variable_tensor(c->mean);
}

static copse_status call_count_up(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    (void)rc, (void)count;
    return copse_call(count_up, user, args[0], result);
}

static void updates_follow_the_aggregation(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct counters c = {
            variable(st, (struct copse_variable_params){ .aggregation = COPSE_AGGREGATION_MEAN,
                                                         .values = (const float[]){ 10 } }),
            variable(st, (struct copse_variable_params){ .aggregation = COPSE_AGGREGATION_SUM,
                                                         .is_frozen = true }),
            variable(st, (struct copse_variable_params){ .synchronization = COPSE_SYNC_ON_READ,
                                                         .aggregation = COPSE_AGGREGATION_SUM,
                                                         .is_frozen = true }),
        };
        copse_value *x = numbered(st, 1), *old;
        const float mean = (float)(n + 1) / 2, sum = (float)(n * (n + 1)) / 2;
        OK(copse_strategy_map(st, count_up, &c, x, &old));
        for (uint32_t r = 0; r < n; r++) {
            reads(copse_value_retain(n > 1 ? copse_value_item(old, r) : old), 10);
            holds(c.mean, r, 10 + mean);
            holds(c.sum, r, sum);
            holds(c.own, r, (float)(r + 1));
        }
        copse_value_release(&old);
        OK(copse_strategy_run(st, call_count_up, &x, 1, &c, &old));
        for (uint32_t r = 0; r < n; r++) {
            holds(c.mean, r, 10 + 2 * mean);
            holds(c.sum, r, sum);
            holds(c.own, r, 2 * (float)(r + 1));
        }
        copse_value_release(&old);
        copse_value_release(&x);
    }
}

/* ---- sums over replicas ---- */

/* y = x s, where s is the sum of all x. */
static copse_tensor *by_the_sum(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "0"), *dx;
    copse_tensor *y = copse_mul(g, x, copse_all_reduce(g, x, COPSE_SUM));
    (void)user;
    copse_gradients(g, y, NULL, &x, 1, &dx);
    copse_output(g, "y", y);
    copse_output(g, "dx", dx);
    return NULL;
}

static void sums_over_replicas_have_derivatives(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *x = numbered(st, 1), *result;
        const float sum = (float)(n * (n + 1)) / 2;
        for (int pass = 0; pass < 2; pass++) {
            OK(copse_strategy_map(st, by_the_sum, NULL, x, &result));
            for (uint32_t r = 0; r < n; r++) {
                copse_value *mine;
                OK(copse__select_replica(result, r, &mine));
                reads(copse_value_retain(copse_value_find(mine, "y")), (float)(r + 1) * sum);
                reads(copse_value_retain(copse_value_find(mine, "dx")), 2 * sum);
                copse_value_release(&mine);
            }
            copse_value_release(&result);
        }
        copse_value_release(&x);
    }
}

static copse_tensor *normalised(copse_graph *g, const copse_batch *in, void *user)
{
    const uint32_t axis = 0;
    copse_tensor *x = copse_input(in, "0");
    (void)user;
    return copse_sync_batch_norm(g, x, &axis, 1, NULL);
}

/* Rows 0 to 6 in shards of `rows`. */
static copse_value *shards_of(copse_strategy *st, const uint32_t *rows)
{
    static const float x[] = { 1, -2, 4, 0.5f, 3, -1, 2 };
    copse_value *at[MAX_RANKS];
    uint32_t first = 0;
    for (uint32_t r = 0; r < copse_strategy_replicas(st); first += rows[r++])
        at[r] = floats_on(st, r, rows[r], x + first);
    return per_replica(st, at);
}

static void unequal_shards_have_the_statistics_of_all_rows(void **unused)
{
    copse_strategy *one = strategy_of(1, false), *three = strategy_of(3, true);
    copse_value *whole_batch = shards_of(one, (const uint32_t[]){ 7 }),
                *shards = shards_of(three, (const uint32_t[]){ 4, 1, 2 }), *y, *z;
    float expected[7], got[7];
    (void)unused;
    OK(copse_strategy_map(one, normalised, NULL, whole_batch, &y));
    OK(copse_value_read(y, expected));
    OK(copse_strategy_map(three, normalised, NULL, shards, &z));
    OK(copse_value_read(copse_value_item(z, 0), got));
    OK(copse_value_read(copse_value_item(z, 1), got + 4));
    OK(copse_value_read(copse_value_item(z, 2), got + 5));
    for (int i = 0; i < 7; i++)
        assert_true(fabsf(got[i] - expected[i]) < 2e-6f);
    copse_value_release(&y);
    copse_value_release(&z);
    copse_value_release(&shards);
    copse_value_release(&whole_batch);
}

/* ---- dropout ---- */

static copse_tensor *dropped(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_dropout(g, copse_input(in, "0"), 0.5f, true);
}

static void calls_of_one_seed_draw_the_same_numbers(void **unused)
{
    enum { N = 64 };
    float ones[N], y[4][2 * N];
    copse_strategy *st = strategy_of(2, true);
    (void)unused;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    copse_value *x = array(COPSE_F32, COPSE_SHAPE(N), ones), *result;
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            OK(copse_call_configure(st, &(struct copse_call_params){ .seed = 7 }));
        OK(copse_strategy_map(st, dropped, NULL, x, &result));
        for (uint32_t r = 0; r < 2; r++)
            OK(copse_value_read(copse_value_item(result, r), y[i] + r * N));
        copse_value_release(&result);
    }
    copse_value_release(&x);
    OK(copse_call_configure(st, NULL));
    assert_memory_equal(y[0], y[2], sizeof y[0]);
    assert_memory_equal(y[1], y[3], sizeof y[0]);
    assert_memory_not_equal(y[0], y[1], sizeof y[0]);           /* another call */
    assert_memory_not_equal(y[0], y[0] + N, N * sizeof(float)); /* another replica */
}

/* ---- arithmetic ---- */

static void values_have_arithmetic(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *x = numbered(st, 2), *y = scalar(3), *z, *sum, *mirrored;
        OK(copse_value_subtract(x, y, &z));
        OK(copse_value_multiply(z, z, &sum));
        for (uint32_t r = 0; r < n; r++) {
            const float expected = 2 * (float)(r + 1) - 3;
            reads(copse_value_retain(n > 1 ? copse_value_item(sum, r) : sum), expected * expected);
        }
        copse_value_release(&z);
        copse_value_release(&sum);
        OK(copse_value_divide(x, y, &z));
        for (uint32_t r = 0; r < n; r++)
            reads(copse_value_retain(n > 1 ? copse_value_item(z, r) : z), 2 * (float)(r + 1) / 3);
        copse_value_release(&z);
        OK(copse_strategy_broadcast(st, y, NULL, &mirrored));
        OK(copse_value_multiply_by(mirrored, 0.5f, &z));
        assert_int_equal(copse_value_kind_of(z), copse_value_kind_of(mirrored));
        assert_int_equal(copse_value_count(z), copse_value_count(mirrored));
        reads(z, 1.5f);
        copse_value_release(&mirrored);
        copse_value_release(&x);
        copse_value_release(&y);
    }
}

static void values_are_multiplied_summed_and_converted(void **unused)
{
    const float a[] = { 1, 2, 3, 4, 5, 6 }, b[] = { 1, 0, 0, 1, 1, 1 };
    float c[4];
    int32_t whole_numbers[4];
    copse_strategy *st = strategy_of(2, true);
    copse_value *x = array(COPSE_F32, COPSE_SHAPE(2, 3), a),
                *y = array(COPSE_F32, COPSE_SHAPE(3, 2), b), *product, *sum, *integers;
    (void)unused;
    OK(copse_scope_enter(st));
    OK(copse_value_matmul(x, y, &product));
    OK(copse_value_sum(product, &sum));
    OK(copse_value_convert(product, COPSE_I32, &integers));
    OK(copse_scope_leave(st));
    OK(copse_value_read(product, c));
    assert_true(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
    reads(sum, 30);
    assert_int_equal(copse_value_type(integers), COPSE_I32);
    OK(copse_value_read(integers, whole_numbers));
    assert_int_equal(whole_numbers[3], 11);
    copse_value_release(&integers);
    copse_value_release(&product);
    FAILS(COPSE_ERR_CONTEXT, copse_value_matmul(x, y, &product), "scope");
    copse_value_release(&x);
    copse_value_release(&y);
}

/* ---- values of every type ---- */

static void values_keep_their_type(void **unused)
{
    static const uint8_t u8[] = { 1, 2, 3, 4, 5 };
    static const uint16_t f16[] = { 0x3c00, 0x7c00, 0xfe01 };
    static const int64_t i64[] = { -5, INT32_MAX, 7 }, large[] = { 1, (int64_t)1 << 40 };
    copse_strategy *st = strategy_of(2, true);
    copse_value *v;
    char back[16];
    (void)unused;
    for (uint32_t r = 0; r < 3; r++) {
        const uint32_t rank = r < 2 ? r : COPSE_HOST;
        memset(back, 77, sizeof back);
        OK(copse_value_create_on(st, rank, COPSE_U8, COPSE_SHAPE(5), u8, &v));
        OK(copse_value_read(v, back));
        assert_memory_equal(back, u8, sizeof u8);
        assert_int_equal(back[sizeof u8], 77); /* nothing beyond the array */
        copse_value_release(&v);
        OK(copse_value_create_on(st, rank, COPSE_F16, COPSE_SHAPE(3), f16, &v));
        OK(copse_value_read(v, back));
        assert_memory_equal(back, f16, sizeof f16);
        copse_value_release(&v);
        OK(copse_value_create_on(st, rank, COPSE_I64, COPSE_SHAPE(3), i64, &v));
        assert_int_equal(copse_value_type(v), COPSE_I32);
        OK(copse_value_read(v, back));
        assert_memory_equal(back, ((const int32_t[]){ -5, INT32_MAX, 7 }), 12);
        copse_value_release(&v);
        FAILS(COPSE_ERR_ARGUMENT,
              copse_value_create_on(st, rank, COPSE_I64, COPSE_SHAPE(2), large, &v), "element 1");
    }
    copse_value *at[] = { array(COPSE_U8, COPSE_SHAPE(5), u8),
                          array(COPSE_U8, COPSE_SHAPE(5), u8) };
    copse_value *each = per_replica(st, at), *sum;
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_reduce(st, COPSE_REDUCE_SUM, each, NULL, &sum), "u8");
    copse_value_release(&each);
}

/* ---- wrong use ---- */

static copse_tensor *nothing(copse_graph *g, const copse_batch *in, void *user)
{
    (void)g, (void)in, (void)user;
    return NULL;
}

static copse_tensor *both(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_output(g, "y", copse_input(in, "0"));
    return copse_input(in, "0");
}

static copse_tensor *unknown_input(copse_graph *g, const copse_batch *in, void *user)
{
    (void)g, (void)user;
    return copse_input(in, "z");
}

static copse_tensor *reduced(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_all_reduce(g, copse_input(in, "0"), COPSE_SUM);
}

static copse_tensor *integer_gradient(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "0"), *dx;
    (void)user;
    copse_gradients(g, copse_sum(g, copse_cast(g, x, COPSE_F32), NULL, 0, false), NULL, &x, 1, &dx);
    return dx;
}

static copse_tensor *nested(copse_graph *g, const copse_batch *in, void *user)
{
    copse_value *y;
    (void)user;
    COPSE_GRAPH_TRY(g, copse_call(twice, NULL, NULL, &y));
    return copse_input(in, "0");
}

static copse_tensor *reporting(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_report(g, "loss", copse_input(in, "0"));
    return copse_input(in, "0");
}

static copse_tensor *rank_sums(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return in->replica == 0 ? copse_all_reduce(g, copse_input(in, "0"), COPSE_SUM)
                            : copse_input(in, "0");
}

static copse_tensor *rank_updates(copse_graph *g, const copse_batch *in, void *user)
{
    if (in->replica == 0)
        copse_update(g, user, copse_input(in, "0"));
    return copse_input(in, "0");
}

static void wrong_calls_are_refused(void **unused)
{
    copse_strategy *st = strategy_of(2, true), *other = strategy_of(3, false);
    copse_value *x = scalar(1), *y = whole(1), *object, *sparse, *w, *each = numbered(other, 1);
    copse_variable *v = variable(st, (struct copse_variable_params){ .is_frozen = true }),
                   *foreign = variable(other, (struct copse_variable_params){ .is_frozen = true });
    copse_value *out = x;
    (void)unused;
    OK(copse_value_object(ctx, &out, &object));
    OK(copse_value_sparse(ctx,
                          &(struct copse_sparse_params){ .dense_shape = COPSE_SHAPE(2),
                                                         .count = 1,
                                                         .indices = (const int32_t[]){ 1 },
                                                         .values = (const float[]){ 1 } },
                          &sparse));
    OK(copse_variable_value(foreign, &w));
#define REFUSES(code, fn, user, args, word)                          \
    FAILS(code, copse_strategy_map(st, fn, user, args, &out), word); \
    assert_null(out)
    REFUSES(COPSE_ERR_ARGUMENT, nothing, NULL, x, "no output");
    REFUSES(COPSE_ERR_ARGUMENT, both, NULL, x, "'y'");
    REFUSES(COPSE_ERR_ARGUMENT, unknown_input, NULL, x, "no 'z'");
    REFUSES(COPSE_ERR_UNSUPPORTED, reporting, NULL, x, "copse_output");
    REFUSES(COPSE_ERR_UNSUPPORTED, nested, NULL, x, "builds the graph");
    REFUSES(COPSE_ERR_ARGUMENT, twice, NULL, object, "object");
    REFUSES(COPSE_ERR_ARGUMENT, twice, NULL, sparse, "sparse");
    REFUSES(COPSE_ERR_ARGUMENT, twice, NULL, w, "another strategy");
    REFUSES(COPSE_ERR_ARGUMENT, twice, NULL, each, "components");
    REFUSES(COPSE_ERR_ARGUMENT, rank_updates, v, x, "other variables");
    REFUSES(COPSE_ERR_SHAPE, rank_sums, NULL, x, "sums over replicas");
    REFUSES(COPSE_ERR_SHAPE, integer_gradient, NULL, y, "not f32");
    FAILS(COPSE_ERR_CONTEXT, copse_call(twice, NULL, x, &out), "scope");
    OK(copse_scope_enter(st));
    FAILS(COPSE_ERR_UNSUPPORTED, copse_call(reduced, NULL, x, &out), "copse_strategy_map");
    copse_value *mine = numbered(st, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse_call(twice, NULL, mine, &out), "may differ");
    FAILS(COPSE_ERR_CONTEXT, copse_strategy_map(other, twice, NULL, x, &out), "another strategy");
    OK(copse_call(twice, NULL, x, &out)); /* the strategy is as before */
    OK(copse_scope_leave(st));
    reads(out, 2);
    copse_value_release(&mine);
    copse_value_release(&each);
    copse_value_release(&w);
    copse_value_release(&sparse);
    copse_value_release(&object);
    copse_value_release(&y);
    copse_value_release(&x);
}

/* ---- rows of a batch, and rows of all replicas ---- */

/* Each row of all replicas, times its number from 1 on, added up. */
static copse_tensor *by_rows_of_all(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "0"), *all = copse_all_gather(g, x, in->replica), *dx;
    float factors[2 * 2 * MAX_RANKS];
    const copse_shape shape = copse_tensor_shape(all);
    (void)user;
    for (uint32_t i = 0; i < shape.dims[0] * shape.dims[1]; i++)
        factors[i] = (float)(1 + i / shape.dims[1]);
    copse_tensor *y = copse_mul(g, all, copse_constant(g, COPSE_F32, shape, factors));
    copse_gradients(g, copse_sum(g, y, NULL, 0, false), NULL, &x, 1, &dx);
    copse_output(g, "all", all);
    copse_output(g, "dx", dx);
    return NULL;
}

/* Replica r has the rows 2 r and 2 r + 1; all n of them compute the same sum. */
static void rows_are_split_and_gathered(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        float rows[2 * 2 * MAX_RANKS], got[2 * 2 * MAX_RANKS];
        copse_value *all, *split, *result;
        for (uint32_t i = 0; i < 4 * n; i++)
            rows[i] = 0.5f + (float)i;
        OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2 * n, 2), rows, &all));
        OK(copse_strategy_split(st, all, &split));
        OK(copse_strategy_map(st, by_rows_of_all, NULL, split, &result));
        for (uint32_t r = 0; r < n; r++) {
            copse_value *mine;
            OK(copse__select_replica(split, r, &mine));
            OK(copse_value_read(mine, got));
            assert_memory_equal(got, rows + 4 * r, 4 * sizeof *got);
            copse_value_release(&mine);
            OK(copse__select_replica(result, r, &mine));
            OK(copse_value_read(copse_value_find(mine, "all"), got));
            assert_memory_equal(got, rows, 4 * n * sizeof *got);
            OK(copse_value_read(copse_value_find(mine, "dx"), got));
            for (uint32_t i = 0; i < 4; i++)
                assert_true(got[i] == (float)(n * (1 + 2 * r + i / 2)));
            copse_value_release(&mine);
        }
        copse_value_release(&result);
        copse_value_release(&split);
        copse_value_release(&all);
    }
}

static copse_tensor *gathered_scalar(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_all_gather(g, copse_sum(g, copse_input(in, "0"), NULL, 0, false), in->replica);
}

static copse_tensor *gathered_elsewhere(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_all_gather(g, copse_input(in, "0"), in->replicas);
}

static copse_tensor *gathered_unequal(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "0");
    (void)user;
    return copse_all_gather(
        g, in->replica == 0 ? copse_concat(g, (copse_tensor *[]){ x, x }, 2, 0) : x, in->replica);
}

static void wrong_rows_are_refused(void **unused)
{
    copse_strategy *st = strategy_of(2, true);
    copse_value *one = scalar(1), *rows, *split = one, *out;
    (void)unused;
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_split(st, one, &split), "a scalar has no axis 0");
    assert_null(split);
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(3), (float[]){ 1, 2, 3 }, &rows));
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_split(st, rows, &split), "3 rows cannot be split");
    copse_value_release(&rows);
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(4), (float[]){ 1, 2, 3, 4 }, &rows));
    OK(copse_strategy_split(st, rows, &split));
    FAILS(COPSE_ERR_SHAPE, copse_strategy_map(st, gathered_scalar, NULL, split, &out),
          "all_gather");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_map(st, gathered_elsewhere, NULL, split, &out),
          "replica 2 of 2");
    FAILS(COPSE_ERR_SHAPE, copse_strategy_map(st, gathered_unequal, NULL, split, &out), "");
    copse_value_release(&split);
    copse_value_release(&rows);
    copse_value_release(&one);
}

/* ---- lifetime ---- */

static void results_live_after_their_strategy_is_released(void **unused)
{
    copse_strategy *st;
    copse_value *x = scalar(4), *y;
    (void)unused;
    OK(copse_mirrored_create(ctx, (const char *const[]){ found[0], found[found_count - 1] }, 2,
                             NULL, &st));
    OK(copse_strategy_map(st, twice, NULL, x, &y));
    copse_strategy_release(&st);
    reads(copse_value_retain(copse_value_item(y, 1)), 8);
    copse_value_release(&y);
    copse_value_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_of_a_dataset_add_up),
        cmocka_unit_test(results_keep_their_values),
        cmocka_unit_test(replicas_compute_with_typed_inputs_and_gradients),
        cmocka_unit_test(updates_follow_the_aggregation),
        cmocka_unit_test(sums_over_replicas_have_derivatives),
        cmocka_unit_test(unequal_shards_have_the_statistics_of_all_rows),
        cmocka_unit_test(calls_of_one_seed_draw_the_same_numbers),
        cmocka_unit_test(values_have_arithmetic),
        cmocka_unit_test(values_are_multiplied_summed_and_converted),
        cmocka_unit_test(values_keep_their_type),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(rows_are_split_and_gathered),
        cmocka_unit_test(wrong_rows_are_refused),
        cmocka_unit_test(results_live_after_their_strategy_is_released),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
