/* SPDX-License-Identifier: MIT */
/* A call that fails, or ends early, on one worker alone: the others have its status and text, or
   its name, long before the deadline of 60 s, and all meet again in the next call. */
#include <math.h>

#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/call.h"
#include "copse/distribute/replica.h"
#include "copse/distribute/sync.h"
#include "copse/ops.h"
#include "tests/rig/workers/worker_rig.h"

#define ODD 1u /* the worker that fails */

enum { CALLS = 4, SECOND = 1 };

/* What a call returned: w->seen[at] and its text. */
static char texts[4][8][1024]; /* by worker and call */

static void note(struct worker *w, uint32_t at, copse_status s)
{
    w->seen[at] = s;
    snprintf(texts[w->rank][at], sizeof texts[0][0], "%s", s ? copse_last_error() : "");
}

static void assert_call(const struct worker *w, uint32_t at, copse_status s, const char *says)
{
    if (w->seen[at] != (uint32_t)s || !strstr(texts[w->rank][at], says))
        fail_msg("worker %u, call %u: %s: %s, and not %s: %s", w->rank, at,
                 copse_status_name((copse_status)w->seen[at]), texts[w->rank][at],
                 copse_status_name(s), says);
}

/* All calls but one are well on all workers. */
static void assert_well_but(uint32_t at, const struct worker *w, uint32_t size)
{
    for (uint32_t v = 0; v < size; v++)
        for (uint32_t i = 0; i < CALLS; i++)
            if (i != at)
                assert_call(&w[v], i, COPSE_OK, "");
}

static void assert_others_ok(const struct worker *w, uint32_t size)
{
    assert_well_but(SECOND, w, size);
}

/* ---- runs ---- */

enum place { BEFORE, BETWEEN, AFTER, MERGE, SKIP, PLACES };

struct run_job {
    enum place place;
    uint32_t replica; /* of worker ODD, that fails */
};

struct run_call {
    const struct run_job *job;
    const struct worker *w;
    uint32_t number;
    copse_variable *v;
};

static bool fails_here(const struct run_call *c, enum place place, uint32_t id)
{
    return c->number == SECOND && c->job->place == place && c->w->rank == ODD &&
           id == ODD * c->w->replicas + c->job->replica;
}

static copse_status enough(uint32_t id)
{
    return copse_fail(COPSE_ERR_CANCELLED, "replica %u has had enough", id);
}

static copse_status fail_merge(copse_strategy *st, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    const struct run_call *c = user;
    (void)st, (void)args, (void)count, (void)result;
    return c->number == SECOND && c->job->place == MERGE && c->w->rank == ODD ? enough(99)
                                                                              : COPSE_OK;
}

/* A sum, a merge call, an assignment by aggregation. */
static copse_status do_run(copse_replica_context *rc, copse_value *const *args, size_t count,
                           void *user, copse_value **result)
{
    const struct run_call *c = user;
    const uint32_t id = copse_replica_id(rc), n = copse_replica_count(rc);
    copse_value *own, *sum = NULL;
    float x;
    (void)args, (void)count, (void)result;
    if (fails_here(c, BEFORE, id))
        return enough(id);
    COPSE_TRY(copse_value_scalar(ctx, (float)(id + 1), &own));
    copse_status s = copse_replica_all_reduce(rc, COPSE_REDUCE_SUM, own, &sum);
    if (!s && fails_here(c, BETWEEN, id))
        s = enough(id);
    if (!s)
        s = copse_merge_call(rc, fail_merge, NULL, 0, user, NULL);
    if (!s && !(c->number == SECOND && c->job->place == SKIP && c->w->rank == ODD))
        s = copse_assign_add(c->v, own);
    if (!s && fails_here(c, AFTER, id))
        s = enough(id);
    if (!s)
        s = copse_value_read(sum, &x);
    copse_value_release(&own);
    copse_value_release(&sum);
    CHECK(s || x == (float)(n * (n + 1) / 2));
    return s;
}

static copse_status counter(copse_strategy *st, const char *name, copse_aggregation aggregation,
                            copse_variable **v)
{
    static const float zero;
    return copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = name,
                                                                  .shape = COPSE_SCALAR,
                                                                  .values = &zero,
                                                                  .is_frozen = true,
                                                                  .aggregation = aggregation },
                                 v);
}

static copse_status make_runs(struct worker *w, copse_strategy *st)
{
    struct run_call c = { .job = w->job, .w = w };
    COPSE_TRY(counter(st, "count", COPSE_AGGREGATION_SUM, &c.v));
    for (; c.number < CALLS; c.number++)
        note(w, c.number, copse_strategy_run(st, do_run, NULL, 0, &c, NULL));
    return copse_variable_read(c.v, 0, w->values);
}

static void a_run_that_fails_on_one_worker(void **state)
{
    static const uint32_t shapes[][2] = { { 2, 1 }, { 2, 2 }, { 3, 2 } };
    struct worker w[3];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(shapes); i++)
        for (uint32_t place = 0; place < PLACES; place++) {
            const uint32_t size = shapes[i][0], replicas = shapes[i][1];
            const struct run_job job = { (enum place)place, replicas - 1 };
            const float each = (float)(size * replicas * (size * replicas + 1) / 2);
            char here[64], there[128];
            run_workers_over(&copse__transport_local, w, size, replicas, &job, make_runs);
            assert_all_ok(w, size);
            assert_others_ok(w, size);
            snprintf(here, sizeof here, "replica %u has had enough",
                     place == MERGE ? 99 : ODD * replicas + replicas - 1);
            snprintf(there, sizeof there, "worker 1 (h1:1) could not take part: %s", here);
            for (uint32_t v = 0; v < size; v++) {
                const bool is_odd = v == ODD;
                if (place == SKIP)
                    assert_call(&w[v], SECOND, is_odd ? COPSE_OK : COPSE_ERR_ARGUMENT,
                                is_odd ? "" : "worker 1 (h1:1) has ended this run without 'sum, ");
                else if (place == AFTER && !is_odd)
                    assert_call(&w[v], SECOND, COPSE_OK, "");
                else
                    assert_call(&w[v], SECOND, COPSE_ERR_CANCELLED, is_odd ? here : there);
                assert_true(w[v].values[0] == each * (place == AFTER ? CALLS : CALLS - 1));
            }
        }
}

/* Failures in a row, faster than the other worker comes; and runs without any collective. */
static copse_status fail_or_sum(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct run_call *c = user;
    copse_value *own, *sum;
    (void)args, (void)count, (void)result;
    if (c->w->rank == ODD && c->number < 20)
        return enough(c->number);
    if (c->number % 2 == 0)
        return COPSE_OK;
    COPSE_TRY(copse_value_scalar(ctx, (float)c->number, &own));
    const copse_status s = copse_replica_all_reduce(rc, COPSE_REDUCE_MEAN, own, &sum);
    copse_value_release(&own);
    COPSE_TRY(s);
    float x;
    COPSE_TRY(copse_value_read(sum, &x));
    copse_value_release(&sum);
    return x == (float)c->number ? COPSE_OK
                                 : copse_fail(COPSE_ERR_INTERNAL, "run %u has met another one: %g",
                                              c->number, (double)x);
}

/* The odd worker may be far ahead: then the others learn from its next call that it is. */
static copse_status fail_often(struct worker *w, copse_strategy *st)
{
    struct run_call c = { .w = w };
    for (; c.number < 60; c.number++) {
        const copse_status s = copse_strategy_run(st, fail_or_sum, NULL, 0, &c, NULL);
        if (c.number >= 20 || (w->rank != ODD && c.number % 2 == 0))
            COPSE_TRY(s);
        else if (s != COPSE_ERR_CANCELLED &&
                 (s != COPSE_ERR_ARGUMENT || w->rank == ODD || c.number < 7))
            return copse_fail(COPSE_ERR_INTERNAL, "run %u: %s: %s", c.number, copse_status_name(s),
                              copse_last_error());
    }
    return COPSE_OK;
}

static void many_failures_in_a_row(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 2, 1, fail_often);
    assert_all_ok(w, 2);
    run_workers(w, 3, 2, fail_often);
    assert_all_ok(w, 3);
}

/* ---- maps ---- */

struct map_call {
    bool fails;
};

/* The sum over all replicas, or, on the odd worker, none. */
static copse_tensor *sum_of_all(copse_graph *g, const copse_batch *in, void *user)
{
    const struct map_call *c = user;
    copse_tensor *x = copse_input(in, "0");
    if (c->fails)
        return copse_graph_fail(g, COPSE_ERR_UNSUPPORTED, "this worker's function has had enough");
    return copse_all_reduce(g, x, COPSE_SUM);
}

static copse_status ones_on_each(copse_strategy *st, uint32_t count, copse_value **out)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    copse_value *at[8] = { NULL };
    copse_status s = COPSE_OK;
    const uint32_t n = copse_strategy_replicas(st);
    for (uint32_t r = 0; r < n && !s; r++)
        s = copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(count), ones, &at[r]);
    if (!s)
        s = copse_value_per_replica(st, at, n, out);
    for (uint32_t r = 0; r < n; r++)
        copse_value_release(&at[r]);
    return s;
}

static copse_status map_once(struct worker *w, copse_strategy *st, uint32_t number)
{
    static struct map_call good, bad = { true };
    const bool is_odd = number == SECOND && w->rank == ODD, has_shape = w->job != NULL;
    copse_value *x, *y = NULL;
    float sum[4];
    COPSE_TRY(ones_on_each(st, is_odd && has_shape ? 3 : 2, &x));
    const copse_status s =
        copse_strategy_map(st, sum_of_all, is_odd && !has_shape ? &bad : &good, x, &y);
    copse_value_release(&x);
    COPSE_TRY(s);
    const copse_value *first = copse_value_count(y) > 0 ? copse_value_item(y, 0) : y;
    const copse_status r = copse_value_read(first, sum);
    copse_value_release(&y);
    CHECK(r || sum[0] == (float)(w->size * w->replicas));
    return r;
}

static copse_status make_maps(struct worker *w, copse_strategy *st)
{
    for (uint32_t i = 0; i < CALLS; i++)
        note(w, i, map_once(w, st, i));
    return COPSE_OK;
}

static void a_map_that_fails_on_one_worker(void **state)
{
    struct worker w[3];
    (void)state;
    for (uint32_t size = 2; size <= 3; size++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            run_workers(w, size, replicas, make_maps);
            assert_all_ok(w, size);
            assert_others_ok(w, size);
            for (uint32_t v = 0; v < size; v++)
                assert_call(&w[v], SECOND, COPSE_ERR_UNSUPPORTED,
                            v == ODD
                                ? "has had enough"
                                : "worker 1 (h1:1) could not take part: this worker's function");
            run_workers_over(&copse__transport_local, w, size, replicas, "shape", make_maps);
            assert_all_ok(w, size);
            assert_others_ok(w, size);
            for (uint32_t v = 0; v < size; v++)
                assert_call(&w[v], SECOND, COPSE_ERR_SHAPE,
                            v == ODD ? "worker 0 (h0:1) has f32 [2]"
                                     : "worker 1 (h1:1) has f32 [3]");
        }
}

/* ---- update hooks of a train step ---- */

/* AFTER: its run fails on this worker alone, after the last collective. ALONE: the run fails on all
   workers, and the others ignore it. FIRST_PART: of two micro-batches the first. */
enum hook {
    HOOK_FAILS,
    HOOK_FAILS_IN_RUN,
    HOOK_FAILS_BEFORE_RUN,
    HOOK_FAILS_AFTER_RUN,
    HOOK_FAILS_ALONE,
    HOOK_FAILS_WITH_PARTS,
    HOOK_FAILS_IN_FIRST_PART,
    HOOKS
};

struct hooked {
    struct run_call call;
    copse_variable *weight;
    enum hook hook;
};

static uint32_t failing_call(enum hook hook)
{
    return hook == HOOK_FAILS_IN_FIRST_PART ? SECOND + 1 : SECOND;
}

static copse_status before_update(copse_strategy *st, void *user)
{
    const struct hooked *h = user;
    const bool is_odd = h->call.number == failing_call(h->hook) && h->call.w->rank == ODD;
    if (h->hook == HOOK_FAILS || h->hook >= HOOK_FAILS_WITH_PARTS)
        return is_odd ? enough(7) : COPSE_OK;
    if (is_odd && h->hook == HOOK_FAILS_BEFORE_RUN)
        return enough(8);
    const copse_status s =
        copse_strategy_run(st, do_run, NULL, 0, (void *)(uintptr_t)&h->call, NULL);
    return h->hook == HOOK_FAILS_ALONE && h->call.w->rank != ODD ? COPSE_OK : s;
}

static void product(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *l)
{
    const struct hooked *h = user;
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(h->weight));
    l->names[0] = "loss";
    l->at[0] = copse_sum(g, y, NULL, 0, false);
    l->count = 1;
}

/* values: the weight, and the number of steps. */
static copse_status train_with_hook(struct worker *w, copse_strategy *st)
{
    static const struct run_job in_run = { BEFORE, 0 }, at_end = { AFTER, 0 };
    static const float x[] = { 1, 2, 3, 4, 5, 6 };
    const enum hook hook = *(const enum hook *)w->job;
    struct hooked h = { .call = { .job = hook == HOOK_FAILS_AFTER_RUN ? &at_end : &in_run, .w = w },
                        .hook = hook };
    struct copse_train_step_result result;
    copse_train_step *ts;
    COPSE_TRY(counter(st, "count", COPSE_AGGREGATION_SUM, &h.call.v));
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "weight", .shape = COPSE_SHAPE(1) },
        &h.weight));
    COPSE_TRY(copse_train_step_create(
        st,
        &(struct copse_train_step_params){ .losses = product,
                                           .user = &h,
                                           .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 },
                                           .accumulate = hook >= HOOK_FAILS_WITH_PARTS ? 2 : 1,
                                           .update_hooks =
                                               &(struct copse_update_hook){ before_update, &h },
                                           .update_hook_count = 1 },
        &ts));
    for (; h.call.number < CALLS; h.call.number++)
        note(w, h.call.number,
             copse_train_step_run(ts, &(struct copse_host_batch){ RIG_X(1, x), .count = 6 },
                                  &result));
    w->values[1] = (float)copse_trainer_steps(copse_train_step_trainer(ts));
    copse_train_step_release(&ts);
    return copse_variable_read(h.weight, 0, w->values);
}

static void a_hook_that_fails_on_one_worker(void **state)
{
    struct worker w[3];
    (void)state;
    for (enum hook hook = 0; hook < HOOKS; hook++)
        for (uint32_t size = 2; size <= 3; size++) {
            run_workers_over(&copse__transport_local, w, size, 1, &hook, train_with_hook);
            const uint32_t at = failing_call(hook);
            const float steps = hook >= HOOK_FAILS_WITH_PARTS ? 1 : CALLS - 1;
            assert_all_ok(w, size);
            assert_well_but(at, w, size);
            for (uint32_t v = 0; v < size; v++) {
                assert_call(&w[v], at, COPSE_ERR_CANCELLED, "has had enough");
                /* in each step the mean over the workers of the sums of their parts of 1 to 6 */
                assert_true(w[v].values[1] == steps);
                assert_true(fabsf(w[v].values[0] + steps * 21 / (float)size) < 1e-4f);
            }
        }
}

/* ---- workers that differ ---- */

/* A reduction by sum on the one, by mean on the other, in each way to make one. */
static copse_status reduce_by(copse_strategy *st, copse_reduce_op op)
{
    copse_value *v, *out = NULL;
    COPSE_TRY(ones_on_each(st, 1, &v));
    const copse_status s = copse_strategy_reduce(st, op, v, NULL, &out);
    copse_value_release(&v);
    copse_value_release(&out);
    return s;
}

static copse_status all_reduce_by(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    copse_value *own;
    (void)args, (void)count;
    COPSE_TRY(copse_value_scalar(ctx, 1, &own));
    const copse_status s =
        copse_replica_all_reduce(rc, *(const copse_reduce_op *)user, own, result);
    copse_value_release(&own);
    return s;
}

static copse_status lossless(copse_replica_context *rc, const struct copse_model_call *call,
                             struct copse_model_spec *spec)
{
    (void)rc;
    (void)call;
    return copse_value_scalar(ctx, 1, &spec->loss);
}

static copse_status replicate_by(copse_strategy *st, copse_loss_reduction reduction)
{
    const struct copse_replicated_params p = { .model = lossless, .reduction = reduction };
    struct copse_replicated_result result;
    copse_value *x;
    float zeros[8] = { 0 };
    COPSE_TRY(
        copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(copse_strategy_replicas(st), 1), zeros, &x));
    const copse_status s = copse_replicated_run(st, &p, COPSE_MODEL_EVAL, x, NULL, &result);
    copse_value_release(&x);
    return s;
}

static copse_tensor *one_loss(copse_graph *g, const copse_batch *in, void *user)
{
    return copse_sum(g, copse_mul(g, rig_x(in), copse_variable_tensor(user)), NULL, 0, false);
}

static copse_status train_by(copse_strategy *st, copse_variable *v, copse_loss_reduction reduction)
{
    copse_trainer *t;
    const copse_status s =
        copse_trainer_create(st,
                             &(struct copse_trainer_params){ .loss = one_loss,
                                                             .user = v,
                                                             .reduction = reduction,
                                                             .optimizer = { .kind = COPSE_SGD } },
                             &t);
    copse_trainer_release(&t);
    return s;
}

enum { KINDS = 5 };

static copse_status do_kind(copse_strategy *st, uint32_t kind, bool is_odd, copse_variable *weight)
{
    copse_reduce_op op = is_odd ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM;
    const copse_loss_reduction loss = is_odd ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN;
    copse_variable *v;
    switch (kind) {
    case 0:
        return reduce_by(st, op);
    case 1:
        return copse_strategy_run(st, all_reduce_by, NULL, 0, &op, NULL);
    case 2:
        return counter(st, "v", is_odd ? COPSE_AGGREGATION_MEAN : COPSE_AGGREGATION_SUM, &v);
    case 3:
        return replicate_by(st, loss);
    default:
        return train_by(st, weight, loss);
    }
}

static copse_status differ(struct worker *w, copse_strategy *st)
{
    copse_variable *weight;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "weight", .shape = COPSE_SHAPE(1) }, &weight));
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        note(w, kind, do_kind(st, kind, w->rank == ODD, weight));
        COPSE_TRY(copse_note(do_kind(st, kind, false, weight), "in kind %u", kind));
    }
    return COPSE_OK;
}

static void sum_against_mean(void **state)
{
    static const char *const both[KINDS][2] = {
        { "sum of f32 [1]", "mean of f32 [1]" },
        { "sum of f32 []", "mean of f32 []" },
        { "variable 'v' f32 [] by sum", "variable 'v' f32 [] by mean" },
        { "in a model by sum", "in a model by mean" },
        { "'loss 1'", "'loss 0'" },
    };
    struct worker w[3];
    (void)state;
    for (uint32_t size = 2; size <= 3; size++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            run_workers(w, size, replicas, differ);
            assert_all_ok(w, size);
            for (uint32_t v = 0; v < size; v++)
                for (uint32_t kind = 0; kind < KINDS; kind++) {
                    assert_call(&w[v], kind, COPSE_ERR_ARGUMENT, both[kind][0]);
                    assert_call(&w[v], kind, COPSE_ERR_ARGUMENT, both[kind][1]);
                    assert_call(&w[v], kind, COPSE_ERR_ARGUMENT,
                                v == ODD && kind < 4 ? "worker 0 (h0:1)" : "worker 1 (h1:1)");
                }
        }
}

/* The same sum, in a run on the one and outside on the other; and one run more on the one. */
static copse_status other_calls(struct worker *w, copse_strategy *st)
{
    copse_reduce_op sum = COPSE_REDUCE_SUM;
    struct run_call none = { .w = w, .number = 100 };
    note(w, 0,
         w->rank == ODD ? copse_strategy_run(st, all_reduce_by, NULL, 0, &sum, NULL)
                        : reduce_by(st, COPSE_REDUCE_SUM));
    COPSE_TRY(reduce_by(st, COPSE_REDUCE_MEAN));
    if (w->rank == ODD)
        COPSE_TRY(copse_strategy_run(st, fail_or_sum, NULL, 0, &none, NULL));
    note(w, 1, copse_strategy_run(st, all_reduce_by, NULL, 0, &sum, NULL));
    return COPSE_OK;
}

static void calls_that_differ_never_meet(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, other_calls);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++)
        assert_call(&w[v], 0, COPSE_ERR_ARGUMENT, "is at another collective");
    assert_call(&w[0], 1, COPSE_ERR_ARGUMENT, "worker 1 (h1:1) has ended this run without 'sum'");
    assert_true(w[1].seen[1] != COPSE_OK); /* the other one has left */
}

/* ---- what it costs where nothing fails ---- */

static copse_status nothing(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

/* seen: messages of a sum, of the fourth run with a sum, of the fourth without. */
static copse_status count_messages(struct worker *w, copse_strategy *st)
{
    copse_reduce_op op = COPSE_REDUCE_SUM;
    for (uint32_t kind = 0; kind < 3; kind++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t before = copse__local_hub_messages(w->hub, w->rank);
            COPSE_TRY(kind == 0 ? reduce_by(st, op)
                                : copse_strategy_run(st, kind == 1 ? all_reduce_by : nothing, NULL,
                                                     0, &op, NULL));
            w->seen[kind] = (uint32_t)(copse__local_hub_messages(w->hub, w->rank) - before);
        }
    return COPSE_OK;
}

static void a_steady_loop_sends_its_sums_alone(void **state)
{
    struct worker w[3];
    (void)state;
    for (uint32_t size = 2; size <= 3; size++) {
        run_workers(w, size, 1, count_messages);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++) {
            assert_true(w[v].seen[0] > 0);
            assert_int_equal(w[v].seen[1], w[v].seen[0]);
            assert_int_equal(w[v].seen[2], 0);
        }
    }
}

/* ---- where variables start ---- */

/* values: of the trained variable and of the frozen one, before there is a trainer. */
static copse_status start_apart(struct worker *w, copse_strategy *st)
{
    const float first[2] = { 1 + 8 * (float)w->rank, 2 + 7 * (float)w->rank };
    copse_variable *v[3];
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "v%u", i);
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = name,
                                             .shape = COPSE_SHAPE(2),
                                             .is_frozen = i == 2,
                                             .values = i == 0 ? NULL : first,
                                             .initializer = i ? 0 : COPSE_INIT_NORMAL,
                                             .seed = 1 + w->rank },
            &v[i]));
        COPSE_TRY(copse_variable_read(v[i], w->replicas - 1, &w->values[2 * i]));
    }
    return COPSE_OK;
}

static void clu_3_at_creation(void **state)
{
    struct worker w[3], one[1];
    (void)state;
    run_workers(one, 1, 1, start_apart);
    assert_all_ok(one, 1);
    run_workers(w, 3, 2, start_apart);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++)
        assert_memory_equal(w[v].values, one[0].values, 6 * sizeof(float));
    assert_true(one[0].values[2] == 1 && one[0].values[3] == 2);
}

static copse_status create_alone(struct worker *w, copse_strategy *st)
{
    copse_variable *v;
    note(w, 0,
         w->rank == ODD ? counter(st, "alone", COPSE_AGGREGATION_NONE, &v)
                        : reduce_by(st, COPSE_REDUCE_SUM));
    return counter(st, "together", COPSE_AGGREGATION_NONE, &v);
}

static void a_variable_that_one_worker_makes(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, create_alone);
    assert_all_ok(w, 2);
    assert_call(&w[0], 0, COPSE_ERR_ARGUMENT, "worker 1 (h1:1) is at another collective: variable");
    assert_call(&w[1], 0, COPSE_ERR_ARGUMENT, "this one at variable 'alone'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_fails_on_one_worker),
        cmocka_unit_test(many_failures_in_a_row),
        cmocka_unit_test(a_map_that_fails_on_one_worker),
        cmocka_unit_test(a_hook_that_fails_on_one_worker),
        cmocka_unit_test(sum_against_mean),
        cmocka_unit_test(calls_that_differ_never_meet),
        cmocka_unit_test(a_steady_loop_sends_its_sums_alone),
        cmocka_unit_test(clu_3_at_creation),
        cmocka_unit_test(a_variable_that_one_worker_makes),
    };
    return cmocka_run_group_tests_name("failures_across", tests, open_workers, close_workers);
}
