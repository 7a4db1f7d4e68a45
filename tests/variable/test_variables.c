/* SPDX-License-Identifier: MIT */
/* Variables in contexts: synchronization, aggregation, what is saved of them, and who makes
   them. */
#include <math.h>

#include "copse/ops.h"
#include "copse/trainer.h"
#include "core/state/state.h"
#include "core/value/value.h"
#include "tests/rig/value/replica_rig.h"

typedef copse_status assign_fn(copse_variable *v, copse_value *value);

static copse_variable *make(copse_strategy *st, copse_synchronization sync,
                            copse_aggregation aggregation, float first)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("v"),
                                             .shape = COPSE_SCALAR,
                                             .values = &first,
                                             .synchronization = sync,
                                             .aggregation = aggregation };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static copse_variable *make_ints(copse_strategy *st, copse_synchronization sync,
                                 copse_aggregation aggregation, int32_t first)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("i"),
                                             .shape = COPSE_SCALAR,
                                             .type = COPSE_I32,
                                             .values = &first,
                                             .synchronization = sync,
                                             .aggregation = aggregation };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static float component(copse_variable *v, uint32_t r)
{
    float x;
    OK(copse_variable_read(v, r, &x));
    return x;
}

static int32_t int_component(copse_variable *v, uint32_t r)
{
    int32_t x;
    OK(copse_variable_read(v, r, &x));
    return x;
}

/* What it reads as where the thread is. */
static float reads(copse_variable *v)
{
    copse_value *x;
    OK(copse_read(v, &x));
    const float f = scalar_of(x);
    copse_value_release(&x);
    return f;
}

static int32_t reads_int(copse_variable *v)
{
    copse_value *x;
    int32_t i;
    OK(copse_read(v, &x));
    OK(copse_value_read(x, &i));
    copse_value_release(&x);
    return i;
}

static void all_are(copse_variable *v, float x)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(v->strategy); r++)
        if (component(v, r) != x)
            fail_msg("replica %u of %u holds %g, not %g", r, copse_strategy_replicas(v->strategy),
                     (double)component(v, r), (double)x);
}

/* ---- every replica assigns ---- */

struct job {
    copse_variable *v;
    assign_fn *assign;
    float base, slope;   /* value of replica id: base + slope * id */
    copse_value *same;   /* or this one, in all */
    copse_status status; /* what each assignment must return */
    const char *word;
};

static copse_value *value_for(const copse_variable *v, float x)
{
    return copse_variable_type(v) == COPSE_I32 ? whole((int32_t)x) : scalar(x);
}

static copse_status assigns(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct job *j = user;
    (void)args, (void)count, (void)result;
    copse_value *x = j->same ? copse_value_retain(j->same)
                             : value_for(j->v, j->base + j->slope * (float)copse_replica_id(rc));
    CHECK(x);
    const copse_status s = j->assign(j->v, x);
    copse_value_release(&x);
    return s;
}

static void run_job(const struct job *j)
{
    const copse_status s = copse_strategy_run(j->v->strategy, assigns, NULL, 0, (void *)j, NULL);
    if (s != j->status || (s && !strstr(copse_last_error(), j->word)))
        fail_msg("%s, not %s: %s", copse_status_name(s), copse_status_name(j->status),
                 copse_last_error());
    assert_true(stands_outside());
}

static void in_replicas(copse_variable *v, assign_fn *assign, float base, float slope)
{
    run_job(&(struct job){ .v = v, .assign = assign, .base = base, .slope = slope });
}

/* VAR-1: a mirrored mean; the values of N replicas are 0 .. N-1. */
static void var_1(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        const float mean = (float)(n - 1) / 2;
        copse_variable *v = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, 1.0f);
        in_replicas(v, copse_assign, 0, 1);
        all_are(v, mean);
        OK(copse_variable_assign(v, (const float[]){ 1.0f }));
        in_replicas(v, copse_assign_add, 0, 1);
        all_are(v, 1.0f + mean);
        OK(copse_variable_assign(v, (const float[]){ 5.0f }));
        in_replicas(v, copse_assign_sub, 0, 1);
        all_are(v, 5.0f - mean);
        copse_value *five = scalar(5);
        run_job(&(struct job){ .v = v, .assign = copse_assign, .same = five });
        all_are(v, 5.0f);
        copse_value_release(&five);
        assert_true(reads(v) == 5.0f);
    }
}

/* VAR-2: no aggregation; the sum of one identical value. */
static void var_2(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *two = scalar(2);
        copse_variable *v = make(st, COPSE_SYNC_AUTO, COPSE_AGGREGATION_NONE, 1.0f);
        run_job(&(struct job){ .v = v,
                               .assign = copse_assign,
                               .status = COPSE_ERR_ARGUMENT,
                               .word = "without an aggregation" });
        all_are(v, 1.0f);
        copse_variable *sum = make(st, COPSE_SYNC_AUTO, COPSE_AGGREGATION_SUM, 1.0f);
        run_job(&(struct job){ .v = sum,
                               .assign = copse_assign,
                               .same = two,
                               .status = n > 1 ? COPSE_ERR_ARGUMENT : COPSE_OK,
                               .word = "same value" });
        all_are(sum, n > 1 ? 1.0f : 2.0f);
        in_replicas(sum, copse_assign, 2, 1);
        all_are(sum, 2.0f * (float)n + (float)(n * (n - 1) / 2));
        copse_value_release(&two);
    }
}

/* VAR-3: only the first replica's counts. */
static void var_3(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *v =
            make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_ONLY_FIRST_REPLICA, 3.0f);
        in_replicas(v, copse_assign_add, 7, 7);
        all_are(v, 10.0f);
        copse_variable *local =
            make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_ONLY_FIRST_REPLICA, 2.0f);
        in_replicas(local, copse_assign_add, 5, 5);
        for (uint32_t r = 0; r < n; r++)
            assert_true(component(local, r) == 7.0f + 5.0f * (float)r);
        assert_true(reads(local) == 7.0f);
    }
}

/* VAR-4: a replica-local sum starts at N times its initial value. */
static void var_4(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *v = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 1.0f);
        assert_true(reads(v) == (float)n);
        in_replicas(v, copse_assign_add, 2, 1);
        for (uint32_t r = 0; r < n; r++)
            assert_true(component(v, r) == 3.0f + (float)r);
        assert_true(reads(v) == 3.0f * (float)n + (float)(n * (n - 1) / 2));
    }
}

/* VAR-5: a replica-local mean. */
static void var_5(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *v = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_MEAN, 4.0f);
        assert_true(reads(v) == 4.0f);
        in_replicas(v, copse_assign, 0, 6);
        for (uint32_t r = 0; r < n; r++)
            assert_true(component(v, r) == 6.0f * (float)r);
        assert_true(reads(v) == 3.0f * (float)(n - 1));
    }
}

static copse_status assign_first(copse_strategy *st, copse_value *target, copse_value *const *args,
                                 size_t count, void *user, copse_value **result)
{
    copse_variable *v = copse_value_variable(target);
    (void)st, (void)count, (void)user;
    CHECK(copse_value_rank(target) == copse_current_update_rank());
    COPSE_TRY(copse_assign(v, args[0]));
    return copse_read(v, result);
}

/* VAR-6: replica-local variables assigned across replicas, and through update. */
static void var_6(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *six = scalar(6), *five = scalar(5), *out;
        copse_variable *sum = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 0);
        copse_variable *mean = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_MEAN, 0);
        OK(copse_assign(sum, six));
        OK(copse_assign(mean, six));
        all_are(sum, 6.0f / (float)n);
        all_are(mean, 6.0f);
        assert_true(fabsf(reads(sum) - 6.0f) <= 1e-6f && reads(mean) == 6.0f);
        FAILS(COPSE_ERR_ARGUMENT, copse_assign_add(sum, six), "from outside");
        FAILS(COPSE_ERR_ARGUMENT, copse_assign_sub(sum, six), "from outside");
        OK(copse_assign_add(mean, six));
        all_are(mean, 12.0f);
        OK(copse_strategy_update(st, sum, assign_first, &five, 1, NULL, &out));
        all_are(sum, 5.0f);
        assert_true(reads(sum) == 5.0f * (float)n);
        assert_int_equal(copse_value_kind_of(out),
                         n == 1 ? COPSE_VALUE_ARRAY : COPSE_VALUE_MIRRORED);
        assert_true(scalar_of(out) == 5.0f);
        copse_value_release(&six);
        copse_value_release(&five);
        copse_value_release(&out);
    }
}

/* VAR-7: one entry for every variable, whatever the number of replicas. */
static void var_7(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(from, n)
    {
        copse_variable *sum = make(from, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 0);
        copse_variable *ints = make_ints(from, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 0);
        copse_variable *mirrored = make(from, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM, 2.5f);
        float saved, copy;
        int32_t count;
        in_replicas(sum, copse_assign, 4, 2);
        in_replicas(ints, copse_assign, 3, 1);
        OK(copse__state_read_variable(sum, &saved));
        OK(copse__state_read_variable(ints, &count));
        OK(copse__state_read_variable(mirrored, &copy));
        assert_true(saved == (float)(4 * n + n * (n - 1)));
        assert_int_equal(count, 3 * n + n * (n - 1) / 2);
        assert_true(copy == 2.5f);
        for (uint32_t i = 0; i < COPSE_COUNT(sizes); i++) {
            copse_strategy *to = strategy_of(sizes[i], true);
            copse_variable *sum2 = make(to, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 9);
            copse_variable *ints2 = make_ints(to, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 9);
            copse_variable *mirrored2 = make(to, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE, 9);
            OK(copse__state_write_variable(sum2, (const float[]){ 10 }));
            all_are(sum2, 10.0f / (float)sizes[i]);
            OK(copse__state_write_variable(mirrored2, &copy));
            all_are(mirrored2, 2.5f);
            for (int32_t x = -7; x <= 7; x += 7) {
                OK(copse__state_write_variable(ints2, &x));
                assert_int_equal(reads_int(ints2), x);
                for (uint32_t r = 1; r < sizes[i]; r++) /* the first ones have the remainder */
                    assert_true(abs(int_component(ints2, r - 1)) - abs(int_component(ints2, r)) <=
                                    1 &&
                                abs(int_component(ints2, r - 1)) >= abs(int_component(ints2, r)));
            }
        }
    }
}

/* VAR-8: what is not trained. */
static void var_8(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        const struct copse_variable_params p = { .name = fresh("f"),
                                                 .shape = COPSE_SCALAR,
                                                 .is_frozen = true };
        copse_variable *frozen;
        OK(copse_variable_create(st, &p, &frozen));
        assert_false(copse_variable_is_trained(frozen));
        assert_false(copse_variable_is_trained(
            make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 0))); /* even if asked to be */
        assert_false(copse_variable_is_trained(
            make_ints(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM, 0)));
        copse_variable *trained = make(st, COPSE_SYNC_AUTO, COPSE_AGGREGATION_SUM, 0);
        assert_true(copse_variable_is_trained(trained));
        assert_int_equal(copse_variable_synchronization(trained), COPSE_SYNC_ON_WRITE);
        (void)n;
    }
}

struct fitted {
    copse_variable *w, *local;
};

/* Sum of (w x - local)^2: every replica has an aim of its own. */
static copse_tensor *misses(copse_graph *g, const copse_batch *in, void *user)
{
    const struct fitted *f = user;
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(f->w));
    y = copse_sub(g, y, copse_variable_tensor(f->local));
    y = copse_square(g, y);
    return copse_sum(g, y, NULL, 0, false);
}

/* VAR-8: a step reads replica-local components, leaves them as they are, and trains the rest. */
static void var_8_in_training(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(like, n)
    {
        const float x[MAX_RANKS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        const char *ids[MAX_RANKS];
        copse_strategy *st;
        copse_trainer *t;
        for (uint32_t r = 0; r < n; r++)
            ids[r] = copse_strategy_device(like, r)->id;
        OK(copse_mirrored_create(ctx, ids, n, NULL, &st));
        struct fitted f = { make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, 0),
                            make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 0) };
        struct copse_trainer_params p = { .loss = misses,
                                          .user = &f,
                                          .reduction = COPSE_LOSS_SUM,
                                          .variables = &f.local,
                                          .variable_count = 1,
                                          .optimizer = { .kind = COPSE_SGD,
                                                         .learning_rate = 0.0625f } };
        FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &t), copse_variable_name(f.local));
        p.variables = NULL; /* all there are: the local one is none of them */
        OK(copse_trainer_create(st, &p, &t));
        in_replicas(f.local, copse_assign, 3, 2);
        float w = 0;
        for (int step = 0; step < 3; step++) {
            float change = 0; /* of w: sum of 2 (w - local) */
            struct copse_step_result result;
            OK(copse_trainer_step(
                t, &(struct copse_host_batch){ COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SCALAR, x }),
                                               .count = n }));
            OK(copse_trainer_result(t, true, &result));
            for (uint32_t r = 0; r < n; r++)
                change += 2 * (w - (3 + 2 * (float)r));
            w -= 0.0625f * change;
            assert_true(fabsf(component(f.w, n - 1) - w) <= 1e-5f * fabsf(w));
            for (uint32_t r = 0; r < n; r++)
                assert_true(component(f.local, r) == 3 + 2 * (float)r);
        }
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* VAR-9: what kinds of strategies accept. */
static void var_9(void **unused)
{
    copse_strategy *one;
    copse_variable *v;
    (void)unused;
    OK(copse_one_device_create(ctx, found[0], NULL, &one));
    struct copse_variable_params p = { .name = fresh("n"),
                                       .shape = COPSE_SCALAR,
                                       .synchronization = COPSE_SYNC_NONE };
    FOR_EACH_STRATEGY(st, n)
    {
        FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(st, &p, &v), "without synchronization");
        (void)n;
    }
    for (int s = COPSE_SYNC_AUTO; s <= COPSE_SYNC_ON_READ; s++)
        for (int a = COPSE_AGGREGATION_NONE; a <= COPSE_AGGREGATION_ONLY_FIRST_REPLICA; a++) {
            v = make(one, (copse_synchronization)s, (copse_aggregation)a, 1.0f);
            in_replicas(v, copse_assign_add, 2, 0); /* needs no aggregation, and knows no other */
            assert_true(reads(v) == 3.0f);
            copse_value *x = scalar(1);
            OK(copse_assign_sub(v, x));
            assert_true(reads(v) == 2.0f);
            copse_value_release(&x);
        }
    p.synchronization = (copse_synchronization)7;
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(one, &p, &v), "unknown synchronization 7");
    p.synchronization = COPSE_SYNC_AUTO;
    p.aggregation = (copse_aggregation)-1;
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(one, &p, &v), "unknown aggregation -1");
    copse_strategy_release(&one);
}

/* ---- VAR-10: replicas make variables together ---- */

struct making {
    const char *names[MAX_RANKS];
    uint32_t counts[MAX_RANKS]; /* variables that a replica asks for */
    copse_shape shape;
    uint32_t odd; /* replica that asks for another shape */
};

static copse_status makes(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    const struct making *m = user;
    const uint32_t id = copse_replica_id(rc);
    copse_variable *v = NULL;
    char name[48];
    (void)args, (void)count;
    for (uint32_t i = 0; i < m->counts[id]; i++) {
        snprintf(name, sizeof name, "%s_%u", m->names[id], i);
        const struct copse_variable_params p = { .name = name,
                                                 .shape =
                                                     id == m->odd ? COPSE_SHAPE(2) : COPSE_SCALAR };
        COPSE_TRY(copse_variable_create(copse_replica_strategy(rc), &p, &v));
    }
    return v ? copse_variable_value(v, result) : COPSE_OK;
}

static void var_10(void **unused)
{
    char a[32], b[32], name[64];
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct making m = { .odd = MAX_RANKS };
        copse_value *v;
        snprintf(a, sizeof a, "%s", fresh("a"));
        for (uint32_t r = 0; r < n; r++) {
            m.names[r] = a;
            m.counts[r] = 2;
        }
        OK(copse_strategy_run(st, makes, NULL, 0, &m, &v));
        assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_VARIABLE);
        assert_int_equal(copse_value_count(v), n); /* the whole variable */
        snprintf(name, sizeof name, "%s_1", a);
        assert_string_equal(copse_variable_name(copse_value_variable(v)), name);
        copse_variable_component_name(copse_value_variable(v), 0, name, sizeof name);
        assert_string_equal(name, copse_variable_name(copse_value_variable(v)));
        copse_variable_component_name(copse_value_variable(v), 2, name, sizeof name);
        assert_non_null(strstr(name, "_1/replica_2"));
        copse_value_release(&v);
        if (n == 1)
            continue;
        for (uint32_t r = 0; r < n; r++)
            m.names[r] = b;
        snprintf(b, sizeof b, "%s", fresh("b"));
        m.names[n - 1] = "else";
        FAILS(COPSE_ERR_CONTEXT, copse_strategy_run(st, makes, NULL, 0, &m, NULL), "else_0");
        m.names[n - 1] = b;
        snprintf(b, sizeof b, "%s", fresh("c"));
        m.odd = n - 1;
        FAILS(COPSE_ERR_SHAPE, copse_strategy_run(st, makes, NULL, 0, &m, NULL), "[2]");
        snprintf(b, sizeof b, "%s", fresh("d"));
        m.odd = MAX_RANKS;
        m.counts[n - 1] = 3;
        FAILS(COPSE_ERR_CONTEXT, copse_strategy_run(st, makes, NULL, 0, &m, NULL), "has made 2");
    }
}

/* ---- integers, both states of a trained variable, and lifetimes ---- */

static void integers(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *sum = make_ints(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM, 1);
        copse_variable *mean = make_ints(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, 1);
        in_replicas(sum, copse_assign_add, 1 << 24, 2);
        in_replicas(mean, copse_assign, 4, 0); /* not the same value, but equal ones */
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(int_component(mean, r), 4);
            assert_int_equal(int_component(sum, r), 1 + (1 << 24) * n + n * (n - 1)); /* no f32 */
        }
        if (n > 1)
            run_job(&(struct job){ .v = mean,
                                   .assign = copse_assign,
                                   .base = 4,
                                   .slope = 1,
                                   .status = COPSE_ERR_ARGUMENT,
                                   .word = "differ" });
        copse_value *x = scalar(1);
        FAILS(COPSE_ERR_SHAPE, copse_assign(sum, x), "i32 [], the value is f32 []");
        copse_value_release(&x);
    }
}

static copse_status adds_own(copse_strategy *st, copse_value *target, copse_value *const *args,
                             size_t count, void *user, copse_value **result)
{
    const uint32_t rank = copse_current_update_rank();
    copse_value *inner = copse_value_item(args[1], 0);
    (void)st, (void)user;
    CHECK(count == 3 && copse_value_rank(target) == rank);
    CHECK(copse_value_kind_of(args[0]) == COPSE_VALUE_ARRAY && copse_value_rank(args[0]) == rank);
    CHECK(copse_value_kind_of(inner) == COPSE_VALUE_ARRAY && copse_value_rank(inner) == rank);
    CHECK(copse_value_rank(args[2]) == COPSE_HOST);
    COPSE_TRY(copse_assign(copse_value_variable(target), args[0]));
    COPSE_TRY(copse_assign_add(copse_value_variable(target), inner));
    COPSE_TRY(copse_assign_add(copse_value_variable(target), args[2]));
    return copse_read(copse_value_variable(target), result);
}

/* VAL-5: a mirrored argument of an update, in a list too: each component sees its own. */
static void val_5_through_update(void **unused)
{
    copse_value *parts[MAX_RANKS], *mirrored, *list, *out;
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *v = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, 1.0f);
        const float sum = 3 * (float)n + (float)(n * (n - 1) / 2);
        copse_value *plain = scalar(0.5f);
        for (uint32_t r = 0; r < n; r++)
            parts[r] = scalar_on(st, r, 3 + (float)r);
        copse_value *all = per_replica(st, parts);
        OK(copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, all, NULL, &mirrored));
        assert_int_equal(copse_value_kind_of(mirrored),
                         n == 1 ? COPSE_VALUE_ARRAY : COPSE_VALUE_MIRRORED);
        OK(copse_value_list(ctx, &mirrored, 1, &list));
        copse_value *args[] = { mirrored, list, plain };
        OK(copse_strategy_update(st, v, adds_own, args, 3, NULL, &out));
        all_are(v, 2 * sum + 0.5f);
        assert_true(scalar_of(out) == 2 * sum + 0.5f);
        args[1] = all; /* one that is not mirrored refuses the whole update */
        FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, v, adds_own, args, 3, NULL, NULL),
              "may differ");
        all_are(v, 2 * sum + 0.5f);
        copse_value_release(&mirrored);
        copse_value_release(&list);
        copse_value_release(&out);
        copse_value_release(&all);
        copse_value_release(&plain);
    }
}

static void components_differ_before_training(void **unused)
{
    copse_value *parts[MAX_RANKS], *all;
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_variable *v = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM, 1.0f);
        for (uint32_t r = 0; r < n; r++)
            parts[r] = scalar_on(st, r, (float)r + 10);
        all = per_replica(st, parts);
        FAILS(COPSE_ERR_ARGUMENT, copse_assign(v, all), "reduce it first");
        FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, v, assign_first, &all, 1, NULL, NULL),
              "may differ");
        all_are(v, 1.0f);
        copse_value_release(&all);
    }
}

/* ---- updates of some replicas ---- */

struct partial {
    copse_variable *mirrored, *local;
    copse_value *one, *slices;
    copse_status inner; /* of an update of all replicas inside */
};

static copse_status change_all(copse_strategy *st, copse_value *target, copse_value *const *args,
                               size_t count, void *user, copse_value **result)
{
    const struct partial *p = user;
    (void)st, (void)target, (void)args, (void)count, (void)result;
    return copse_assign_add(p->mirrored, p->one);
}

static copse_status change_some(copse_strategy *st, copse_value *target, copse_value *const *args,
                                size_t count, void *user, copse_value **result)
{
    struct partial *p = user;
    (void)target, (void)args, (void)count, (void)result;
    FAILS(COPSE_ERR_CONTEXT, copse_assign(p->mirrored, p->one),
          "would leave its components unequal");
    FAILS(COPSE_ERR_CONTEXT, copse_assign_add(p->mirrored, p->one), "unequal");
    FAILS(COPSE_ERR_CONTEXT, copse_assign_sub(p->mirrored, p->one), "unequal");
    FAILS(COPSE_ERR_CONTEXT, copse_scatter_update(p->mirrored, p->slices), "unequal");
    COPSE_TRY(copse_assign_add(p->local, p->one));
    p->inner = copse_strategy_update(st, p->mirrored, change_all, NULL, 0, p, NULL);
    return COPSE_OK;
}

static void updates_of_some_replicas_leave_mirrored_variables(void **unused)
{
    const uint32_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, last[] = { 1 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct partial p = { make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM, 1.0f),
                             make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 1.0f), scalar(1),
                             NULL, COPSE_OK };
        float x;
        OK(copse_value_sparse(ctx, &(struct copse_sparse_params){ .dense_shape = COPSE_SHAPE(1) },
                              &p.slices));
        if (n > 1) {
            OK(copse_strategy_update_non_slot(st, last, 1, change_some, NULL, 0, &p, NULL));
            OK(p.inner);
            all_are(p.mirrored, 2.0f); /* by the update inside alone */
            for (uint32_t r = 0; r < n; r++) {
                OK(copse_variable_read(p.local, r, &x));
                assert_true(x == (r == 1 ? 2.0f : 1.0f));
            }
        } else {
            OK(copse_strategy_update(st, p.mirrored, change_all, NULL, 0, &p, NULL));
        }
        OK(copse_strategy_update_non_slot(st, all, n, change_all, NULL, 0, &p, NULL));
        all_are(p.mirrored, 3.0f);
        copse_value_release(&p.one);
        copse_value_release(&p.slices);
    }
}

static void variables_outlive_their_strategy_in_values(void **unused)
{
    copse_strategy *st;
    copse_value *v, *x = scalar(3);
    (void)unused;
    OK(copse_mirrored_create(ctx, (const char *const[]){ "host:0", "host:0" }, 2, NULL, &st));
    OK(copse_variable_value(make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, 1.0f), &v));
    copse_strategy_release(&st);
    OK(copse_assign(copse_value_variable(v), x));
    assert_true(scalar_of(v) == 3.0f);
    copse_value_release(&v);
    copse_value_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(var_1),
        cmocka_unit_test(var_2),
        cmocka_unit_test(var_3),
        cmocka_unit_test(var_4),
        cmocka_unit_test(var_5),
        cmocka_unit_test(var_6),
        cmocka_unit_test(var_7),
        cmocka_unit_test(var_8),
        cmocka_unit_test(var_9),
        cmocka_unit_test(var_10),
        cmocka_unit_test(integers),
        cmocka_unit_test(var_8_in_training),
        cmocka_unit_test(val_5_through_update),
        cmocka_unit_test(components_differ_before_training),
        cmocka_unit_test(updates_of_some_replicas_leave_mirrored_variables),
        cmocka_unit_test(variables_outlive_their_strategy_in_values),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
