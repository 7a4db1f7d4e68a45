/* SPDX-License-Identifier: MIT */
/* The mirrored strategy: replicas run in order and meet, errors end all of them, trained and
   assigned variables hold the same bits everywhere. */
#include <dirent.h>
#include <math.h>

#include "copse/ops.h"
#include "copse/trainer.h"
#include "tests/rig/value/replica_rig.h"

static copse_variable *make(copse_strategy *st, uint32_t count, copse_aggregation aggregation,
                            bool is_frozen)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("v"),
                                             .shape = COPSE_SHAPE(count),
                                             .aggregation = aggregation,
                                             .is_frozen = is_frozen };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

/* ---- MIR-1: the sum over replicas comes back to each ---- */

static copse_status sums(copse_strategy *st, copse_value *const *args, size_t count, void *user,
                         copse_value **result)
{
    (void)user;
    CHECK(count == 1);
    return copse_strategy_reduce(st, COPSE_REDUCE_SUM, args[0], NULL, result);
}

static copse_status adds_id(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    float x, sum;
    copse_value *v, *s;
    (void)count, (void)user;
    COPSE_TRY(copse_value_read(args[0], &x));
    x += (float)copse_replica_id(rc);
    COPSE_TRY(copse_value_scalar(ctx, x, &v));
    const copse_status status = copse_merge_call(rc, sums, &v, 1, NULL, &s);
    copse_value_release(&v);
    COPSE_TRY(status);
    COPSE_TRY(copse_value_read(s, &sum));
    copse_value_release(&s);
    return copse_value_scalar(ctx, sum + x, result);
}

static void mir_1(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        const float sum = 3 * (float)n + (float)(n * (n - 1) / 2);
        copse_value *three = scalar(3), *out, *list[MAX_RANKS];
        size_t count;
        OK(copse_strategy_run(st, adds_id, &three, 1, NULL, &out));
        copse_local_results(out, list, MAX_RANKS, &count);
        assert_int_equal(count, n);
        for (uint32_t r = 0; r < n; r++)
            assert_true(scalar_of(list[r]) == sum + 3 + (float)r);
        copse_value_release(&three);
        copse_value_release(&out);
    }
}

/* The same through the all-reduce, of a structure. */
static copse_status all_reduces(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const float id = (float)copse_replica_id(rc), pair[] = { 40 - 38 * id, 1 + 97 * id };
    copse_value *items[2], *structure;
    (void)args, (void)count;
    items[0] = scalar(1 + 2 * id);
    CHECK(items[0] && !copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), pair, &items[1]));
    const copse_status made =
        copse_value_dict(ctx, (const char *const[]){ "a", "b" }, items, 2, &structure);
    copse_value_release(&items[0]);
    copse_value_release(&items[1]);
    COPSE_TRY(made);
    const copse_status s =
        copse_replica_all_reduce(rc, *(copse_reduce_op *)user, structure, result);
    copse_value_release(&structure);
    return s;
}

static void nests_are_all_reduced(void **unused)
{
    static const float want[2][3] = { { 4, 42, 99 }, { 2, 21, 49.5f } };
    (void)unused;
    for (int i = 0; i < 4; i++) {
        copse_reduce_op op = i % 2 ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM;
        copse_strategy *two = strategy_of(2, i / 2);
        copse_value *out, *list[2];
        size_t count;
        float got[2];
        OK(copse_strategy_run(two, all_reduces, NULL, 0, &op, &out));
        assert_int_equal(copse_value_kind_of(out), COPSE_VALUE_DICT);
        copse_local_results(copse_value_find(out, "a"), list, 2, &count);
        for (size_t r = 0; r < count; r++)
            assert_true(scalar_of(list[r]) == want[i % 2][0]);
        copse_local_results(copse_value_find(out, "b"), list, 2, &count);
        for (size_t r = 0; r < count; r++) {
            OK(copse_value_read(list[r], got));
            assert_memory_equal(got, want[i % 2] + 1, sizeof got);
        }
        copse_value_release(&out);
    }
}

/* ---- MIR-2: the order of side effects ---- */

static char trace[256];

static copse_status marks_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)user, (void)result;
    strcat(trace, "M ");
    return COPSE_OK;
}

static copse_status marks(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    char *end = trace + strlen(trace);
    (void)args, (void)count, (void)user, (void)result;
    snprintf(end, 8, "%ua ", copse_replica_id(rc));
    COPSE_TRY(copse_merge_call(rc, marks_merge, NULL, 0, NULL, NULL));
    end = trace + strlen(trace);
    snprintf(end, 8, "%ub ", copse_replica_id(rc));
    return COPSE_OK;
}

static void mir_2(void **unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        trace[0] = 0;
        OK(copse_strategy_run(strategy_of(3, i % 2), marks, NULL, 0, NULL, NULL));
        assert_string_equal(trace, "0a 1a 2a M 0b 1b 2b ");
    }
}

/* ---- MIR-3: replicas that do not meet, and errors at every depth ---- */

enum where { NOWHERE, SKIPPED, IN_REPLICA, IN_MERGE, IN_INNER_REPLICA, IN_INNER_MERGE };

struct plan {
    enum where where;
    uint32_t rank;  /* that skips or fails */
    uint32_t ended; /* replicas that got the error out of their merge call */
};

static copse_status inner_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct plan *p = user;
    (void)st, (void)args, (void)count, (void)result;
    return p->where == IN_INNER_MERGE ? copse_fail(COPSE_ERR_IO, "deepest") : COPSE_OK;
}

static copse_status inner_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    const struct plan *p = user;
    (void)args, (void)count, (void)result;
    if (p->where == IN_INNER_REPLICA && copse_replica_id(rc) == p->rank)
        return copse_fail(COPSE_ERR_FORMAT, "deeper");
    return copse_merge_call(rc, inner_merge, NULL, 0, user, NULL);
}

static copse_status outer_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct plan *p = user;
    (void)args, (void)count, (void)result;
    if (p->where == IN_MERGE)
        return copse_fail(COPSE_ERR_END, "deep");
    return copse_strategy_run(st, inner_replica, NULL, 0, user, NULL);
}

static copse_status outer_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    struct plan *p = user;
    (void)args, (void)count, (void)result;
    if (copse_replica_id(rc) == p->rank && p->where == SKIPPED)
        return COPSE_OK;
    if (copse_replica_id(rc) == p->rank && p->where == IN_REPLICA)
        return copse_fail(COPSE_ERR_COMM, "shallow");
    const copse_status s = copse_merge_call(rc, outer_merge, NULL, 0, user, NULL);
    p->ended += s != COPSE_OK;
    if (s != COPSE_OK) /* one that goes on all the same is not let in again */
        CHECK(copse_merge_call(rc, outer_merge, NULL, 0, user, NULL) == s);
    return copse_merge_call(rc, outer_merge, NULL, 0, user, NULL);
}

/* Threads of this process, 0 where nobody tells. */
static size_t threads(void)
{
    size_t n = 0;
    struct dirent *entry;
    DIR *d = opendir("/proc/self/task");
    while (d && (entry = readdir(d)) != NULL)
        n += entry->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* A thread that was joined may be listed for another moment, also when `before` was counted:
   there may be fewer by now, never more. */
static void no_thread_is_left(size_t before)
{
    const uint64_t deadline = copse__now_ns() + 60000000000u;
    while (threads() > before)
        if (copse__now_ns() > deadline)
            fail_msg("%zu threads, %zu before", threads(), before);
}

static void fails_with(copse_strategy *st, enum where where, uint32_t rank, copse_status want,
                       const char *word, uint32_t ended, size_t before)
{
    struct plan p = { .where = where, .rank = rank };
    FAILS(want, copse_strategy_run(st, outer_replica, NULL, 0, &p, NULL), word);
    no_thread_is_left(before);
    assert_int_equal(p.ended, ended);
    assert_true(stands_outside());
}

static void mir_3(void **unused)
{
    (void)unused;
    if (threads() == 0)
        print_message("  threads are not counted: there is no /proc/self/task\n");
    FOR_EACH_STRATEGY(st, n)
    {
        /* the strategy keeps its threads: no failure adds one */
        OK(copse_strategy_run(st, outer_replica, NULL, 0, &(struct plan){ .where = NOWHERE },
                              NULL));
        const size_t before = threads();
        for (uint32_t rank = 0; rank<n; rank += n> 1 ? n - 1 : 1) {
            if (n > 1)
                fails_with(st, SKIPPED, rank, COPSE_ERR_CONTEXT, "all must make the same ones",
                           n - 1, before);
            fails_with(st, IN_REPLICA, rank, COPSE_ERR_COMM, "shallow", rank, before);
            fails_with(st, IN_MERGE, rank, COPSE_ERR_END, "deep", n, before);
            fails_with(st, IN_INNER_REPLICA, rank, COPSE_ERR_FORMAT, "deeper", n, before);
            fails_with(st, IN_INNER_MERGE, rank, COPSE_ERR_IO, "deepest", n, before);
        }
        struct plan p = { .where = NOWHERE };
        OK(copse_strategy_run(st, outer_replica, NULL, 0, &p, NULL));
    }
}

static void the_threads_of_a_strategy_end_with_it(void **unused)
{
    copse_strategy *st;
    (void)unused;
    OK(copse_mirrored_create(ctx, (const char *const[]){ "host:0", "host:0", "host:0" }, 3, NULL,
                             &st));
    set_links(st);
    const size_t before = threads();
    OK(copse_strategy_run(st, outer_replica, NULL, 0, &(struct plan){ .where = NOWHERE }, NULL));
    if (before > 0)
        assert_true(threads() > before);
    copse_strategy_release(&st);
    no_thread_is_left(before);
}

/* ---- MIR-4: a step of the summed gradients ---- */

struct model {
    copse_variable *w, *frozen, *averages;
};

/* (w - 1)^2, whatever the examples are. */
static copse_tensor *square(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    (void)in;
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    copse_tensor *d = copse_sub(g, copse_variable_tensor(m->w), one);
    d = copse_mul(g, d, d);
    return copse_sum(g, d, NULL, 0, false);
}

static void steps(copse_trainer *t, uint32_t examples, uint32_t count)
{
    float x[MAX_RANKS] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct copse_step_result result;
    for (uint32_t i = 0; i < count; i++) {
        x[i % MAX_RANKS] += 0.125f;
        OK(copse_trainer_step(
            t, &(struct copse_host_batch){ COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SCALAR, x }),
                                           .count = examples }));
        OK(copse_trainer_result(t, true, &result));
    }
}

static copse_trainer *trainer_of(copse_strategy *st, copse_loss_fn *loss, struct model *m)
{
    copse_trainer *t;
    const struct copse_trainer_params p = {
        .loss = loss,
        .user = m,
        .reduction = COPSE_LOSS_SUM,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.2f },
    };
    OK(copse_trainer_create(st, &p, &t));
    return t;
}

static void same_bits(copse_variable *v)
{
    float first[64], other[64];
    const size_t bytes = 4 * copse_variable_shape(v).dims[0];
    OK(copse_variable_read(v, 0, first));
    for (uint32_t r = 1; r < copse_strategy_replicas(v->strategy); r++) {
        OK(copse_variable_read(v, r, other));
        assert_memory_equal(first, other, bytes);
    }
}

static copse_strategy *own_strategy(uint32_t n, uint32_t i)
{
    const char *ids[MAX_RANKS];
    copse_strategy *st;
    for (uint32_t r = 0; r < n; r++)
        ids[r] = i % 2 ? found[r % found_count] : "host:0";
    OK(copse_mirrored_create(ctx, ids, n, NULL, &st));
    set_links(st);
    return st;
}

static void mir_4(void **unused)
{
    (void)unused;
    for (uint32_t n = 1; n <= 3; n++)
        for (uint32_t mixed = 0; mixed < 2; mixed++) {
            copse_strategy *st = own_strategy(n, mixed);
            struct model m = { .w = make(st, 1, COPSE_AGGREGATION_MEAN, false) };
            copse_trainer *t = trainer_of(st, square, &m);
            float w;
            steps(t, n, 1);
            OK(copse_variable_read(m.w, 0, &w));
            assert_true(fabsf(w - 0.4f * (float)n) <= 1e-6f);
            same_bits(m.w);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
}

/* ---- MIR-5: equal bits after training, assignments, updates, in any order ---- */

static copse_tensor *fit(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *x =
        copse_reshape(g, rig_x(in), COPSE_SHAPE(copse_tensor_shape(rig_x(in)).dims[0], 1));
    copse_tensor *y = copse_mul(g, x, copse_variable_tensor(m->w));
    y = copse_sub(g, y, copse_variable_tensor(m->frozen));
    y = copse_mul(g, y, y);
    return copse_mean(g, y, NULL, 0, false);
}

static copse_status nudges(copse_replica_context *rc, copse_value *const *args, size_t count,
                           void *user, copse_value **result)
{
    const struct model *m = user;
    float x[3];
    copse_value *v, *now;
    (void)args, (void)count, (void)result;
    for (uint32_t i = 0; i < 3; i++)
        x[i] = 0.001f * (float)(1 + i + 7 * copse_replica_id(rc));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(3), x, &v));
    copse_status s = copse_assign_add(m->w, v);
    if (s == COPSE_OK)
        s = copse_assign_sub(m->frozen, v);
    copse_value_release(&v);
    COPSE_TRY(s);
    COPSE_TRY(copse_read(m->w, &now));
    s = copse_assign(m->averages, now);
    copse_value_release(&now);
    return s;
}

static void mir_5(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(shared, n)
    {
        copse_strategy *st = own_strategy(n, i_);
        struct model m = { make(st, 3, COPSE_AGGREGATION_MEAN, false),
                           make(st, 3, COPSE_AGGREGATION_SUM, true),
                           make(st, 3, COPSE_AGGREGATION_MEAN, true) };
        OK(copse_strategy_run(st, nudges, NULL, 0, &m, NULL)); /* before there is a store */
        copse_trainer *t = trainer_of(st, fit, &m);
        float before[3], after[3];
        (void)shared;
        for (int round = 0; round < 3; round++) {
            OK(copse_variable_read(m.frozen, 0, before));
            steps(t, 5, 3); /* fewer examples than replicas, too */
            OK(copse_variable_read(m.frozen, 0, after));
            assert_memory_equal(before, after, sizeof before); /* trainers let it be */
            OK(copse_strategy_run(st, nudges, NULL, 0, &m, NULL));
            same_bits(m.w);
            same_bits(m.frozen);
            same_bits(m.averages);
            OK(copse_variable_read(m.averages, n - 1, before));
            OK(copse_variable_read(m.w, n - 1, after));
            for (int i = 0; i < 3; i++)
                assert_true(fabsf(before[i] - after[i]) <= 1e-6f);
        }
        copse_trainer_release(&t);
        OK(copse_strategy_run(st, nudges, NULL, 0, &m, NULL));
        same_bits(m.w);
        copse_strategy_release(&st);
    }
}

/* ---- MIR-7: moving averages as batch normalisation keeps them ---- */

struct moving {
    copse_variable *mean;
    float step;
};

static copse_status moves(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    const struct moving *m = user;
    const float batch = 60 + m->step + 100 * (float)copse_replica_id(rc);
    copse_value *now, *change;
    float mean;
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_read(m->mean, &now));
    const copse_status s = copse_value_read(now, &mean);
    copse_value_release(&now);
    COPSE_TRY(s);
    const float difference = (mean - batch) * (1 - 0.9f);
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), &difference, &change));
    const copse_status assigned = copse_assign_sub(m->mean, change);
    copse_value_release(&change);
    return assigned;
}

static void mir_7(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *two = strategy_of(2, mixed);
        struct moving m = { .mean = make(two, 1, COPSE_AGGREGATION_MEAN, true) };
        double want = 0;
        for (int i = 0; i < 5; i++) {
            float got;
            m.step = (float)i;
            OK(copse_strategy_run(two, moves, NULL, 0, &m, NULL));
            want += 0.1 * (110 + i - want);
            OK(copse_variable_read(m.mean, 1, &got));
            assert_true(fabs(got - want) <= 1e-4);
            same_bits(m.mean);
        }
    }
}

/* ---- merge calls while a graph is built ---- */

static copse_status try_to_merge(const copse_batch *in, const struct model *m)
{
    copse_replica_context *rc = copse_current_replica();
    copse_value *x = scalar(1), *now;
    copse_variable *v;
    CHECK(rc && copse_replica_id(rc) == in->replica && copse_replica_count(rc) == in->replicas);
    REFUSED(COPSE_ERR_UNSUPPORTED, copse_merge_call(rc, sums, &x, 1, NULL, NULL),
            "a loss function");
    REFUSED(COPSE_ERR_UNSUPPORTED, copse_replica_all_reduce(rc, COPSE_REDUCE_SUM, x, &now),
            "replica ");
    REFUSED(COPSE_ERR_UNSUPPORTED, copse_assign(m->w, x), "loss function");
    REFUSED(COPSE_ERR_CONTEXT,
            copse_variable_create(m->w->strategy, &(struct copse_variable_params){ .name = "late" },
                                  &v),
            "loss function");
    COPSE_TRY(copse_read(m->w, &now));
    CHECK(copse_value_rank(now) == in->replica);
    copse_value_release(&now);
    copse_value_release(&x);
    return COPSE_OK;
}

static copse_tensor *merges_in_loss(copse_graph *g, const copse_batch *in, void *user)
{
    COPSE_GRAPH_TRY(g, try_to_merge(in, user));
    return square(g, in, user);
}

static void loss_functions_do_not_merge(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 4; i++) {
        copse_strategy *st = own_strategy(1 + 2 * (i / 2), i);
        struct model m = { .w = make(st, 1, COPSE_AGGREGATION_MEAN, false) };
        copse_trainer *t = trainer_of(st, merges_in_loss, &m);
        steps(t, 3, 1);
        assert_true(stands_outside());
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* (w * (local + count) - 1)^2: what a loss function reads of variables that are not trained. */
static copse_tensor *reads_all(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    (void)in;
    copse_tensor *count = copse_cast(g, copse_variable_tensor(m->frozen), COPSE_F32);
    copse_tensor *y = copse_add(g, copse_variable_tensor(m->averages), count);
    y = copse_mul(g, copse_variable_tensor(m->w), y);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    y = copse_sub(g, y, one);
    y = copse_mul(g, y, y);
    return copse_sum(g, y, NULL, 0, false);
}

static copse_status sets_own(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **result)
{
    const struct model *m = user;
    const float x = (float)copse_replica_id(rc);
    copse_value *v;
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), &x, &v));
    const copse_status s = copse_assign(m->averages, v);
    copse_value_release(&v);
    return s;
}

/* Each replica's graph sees its own component: w = 0, so every replica adds 2 rate (id + 1). */
static void loss_functions_read_every_variable(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t n = 1 + 2 * (i / 2);
        copse_strategy *st = own_strategy(n, i);
        struct model m = { .w = make(st, 1, COPSE_AGGREGATION_NONE, false) };
        const struct copse_variable_params count = { .name = "count",
                                                     .shape = COPSE_SHAPE(1),
                                                     .type = COPSE_I32,
                                                     .initializer = COPSE_INIT_ONES };
        const struct copse_variable_params local = { .name = "local",
                                                     .shape = COPSE_SHAPE(1),
                                                     .synchronization = COPSE_SYNC_ON_READ,
                                                     .aggregation = COPSE_AGGREGATION_SUM };
        float w;
        OK(copse_variable_create(st, &count, &m.frozen));
        OK(copse_variable_create(st, &local, &m.averages));
        OK(copse_strategy_run(st, sets_own, NULL, 0, &m, NULL));
        copse_trainer *t = trainer_of(st, reads_all, &m);
        steps(t, n, 1);
        OK(copse_variable_read(m.w, 0, &w));
        assert_true(fabsf(w - 0.4f * (float)(n * (n + 1) / 2)) <= 1e-6f);
        same_bits(m.w);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mir_1),
        cmocka_unit_test(nests_are_all_reduced),
        cmocka_unit_test(mir_2),
        cmocka_unit_test(mir_3),
        cmocka_unit_test(the_threads_of_a_strategy_end_with_it),
        cmocka_unit_test(mir_4),
        cmocka_unit_test(mir_5),
        cmocka_unit_test(mir_7),
        cmocka_unit_test(loss_functions_do_not_merge),
        cmocka_unit_test(loss_functions_read_every_variable),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
