/* SPDX-License-Identifier: MIT */
/* Trainers, train steps, the single-loss step and the monitor: every public function that returns a
   number gives the same on several workers as in one process. test_value_numbers_across.c has the
   other functions. Parameter servers are left out: their workers do not keep step. */
#include "copse/compat/gradients.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/shards.h"
#include "copse/distribute/sync.h"
#include "copse/loop/monitor.h"
#include "copse/loop/step.h"
#include "copse/ops.h"
#include "tests/rig/workers/numbers_rig.h"

/* ---- a trainer ---- */

struct model {
    copse_variable *w, *b;
    bool is_sum;
};

/* |x w + b - y|^2, as a mean or a sum; reports of every kind. */
static copse_tensor *losses(copse_graph *g, const copse_batch *in, struct model *m)
{
    copse_tensor *variance;
    copse_tensor *p = copse_matmul(g, rig_x(in), copse_variable_tensor(m->w), false, false);
    p = copse_add(g, p, copse_variable_tensor(m->b));
    p = copse_sub(g, p, rig_y(in));
    p = copse_square(g, p);
    copse_tensor *peak = copse_max(g, p, NULL, 0, false);
    copse_tensor *three = copse_fill(g, COPSE_F32, COPSE_SCALAR, 3);
    copse_tensor *mean = copse_sync_moments(g, rig_x(in), NULL, 0, &variance);
    mean = copse_reshape(g, mean, COPSE_SCALAR);
    variance = copse_reshape(g, variance, COPSE_SCALAR);
    copse_tensor *loss =
        m->is_sum ? copse_sum(g, p, NULL, 0, false) : copse_mean(g, p, NULL, 0, false);
    copse_report(g, "peak", peak);
    copse_report(g, "three", three);
    copse_report(g, "mean", mean);
    copse_report(g, "variance", variance);
    p = copse_all_reduce(g, loss, COPSE_SUM);
    copse_report(g, "all", p);
    p = copse_all_reduce(g, peak, COPSE_MEAN);
    copse_report(g, "all peaks", p);
    return loss;
}

static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    return losses(g, in, user);
}

static copse_status make_model(copse_strategy *st, bool is_sum, struct model *m)
{
    static const float start[] = { 0.5f, -1.25f, 2 };
    *m = (struct model){ .is_sum = is_sum };
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){
            .name = is_sum ? "w of sum" : "w", .shape = COPSE_SHAPE(WIDTH, 1), .values = start },
        &m->w));
    return copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = is_sum ? "b of sum" : "b",
                                                                  .shape = COPSE_SHAPE(1),
                                                                  .values = start },
                                 &m->b);
}

static struct copse_trainer_params trainer_of(struct model *m)
{
    return (struct copse_trainer_params){
        .loss = loss_of,
        .user = m,
        .reduction = m->is_sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
        .variables = &m->w,
        .variable_count = 2,
        .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.05f },
    };
}

static void put_result(struct numbers *n, const struct copse_step_result *r)
{
    put(n, (double)r->step);
    put(n, r->loss);
    put(n, r->report_count);
    for (uint32_t i = 0; i < r->report_count; i++)
        put(n, r->reports[i]);
}

static copse_status put_replicas(copse_trainer *t, copse_strategy *st, struct numbers *n,
                                 uint32_t reports)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        const uint32_t rank = copse_strategy_first_rank(st) + r;
        struct copse_replica_result own;
        COPSE_TRY(copse_trainer_replica_result(t, r, &own));
        put_each(n, rank, own.fraction);
        put_each(n, rank, own.loss);
        for (uint32_t i = 0; i < reports; i++)
            put_each(n, rank, own.reports[i]);
    }
    return COPSE_OK;
}

/* Steps of an even batch, an uneven one and one of a single example, in which replicas have none;
   an update of two micro-batches, and one that is flushed. */
static copse_status train(copse_trainer *t, copse_strategy *st, struct numbers *n,
                          bool is_gathering)
{
    static const size_t counts[] = { 16, 7, 1, 9 };
    struct copse_step_result r;
    size_t first = 0;
    for (size_t i = 0; i < (is_gathering ? 3 : COPSE_COUNT(counts)); i++) {
        const struct copse_host_batch batch = rows(first % 4, counts[i]);
        COPSE_TRY(copse_trainer_step(t, &batch));
        put(n, copse_trainer_accumulated(t));
        first += counts[i];
    }
    COPSE_TRY(copse_trainer_flush(t));
    copse_status s;
    while ((s = copse_trainer_result(t, true, &r)) == COPSE_OK) {
        put_result(n, &r);
        COPSE_TRY(put_replicas(t, st, n, r.report_count));
    }
    put(n, (double)copse_trainer_steps(t));
    const struct copse_host_batch batch = rows(2, 13);
    COPSE_TRY(copse_trainer_evaluate(t, &batch, &r));
    put_result(n, &r);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

static copse_status put_weights(const copse_trainer *t, struct numbers *n)
{
    float weights[RANKS] = { 0 };
    bool is_known;
    COPSE_TRY(copse_trainer_shard_weights(t, weights, &is_known));
    for (uint32_t r = 0; r < RANKS; r++)
        put(n, (double)weights[r]);
    return COPSE_OK;
}

static copse_status put_gradients(const copse_trainer *t, copse_strategy *st,
                                  const copse_variable *v, struct numbers *n)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        struct copse_gradient_summary own;
        COPSE_TRY(copse_trainer_gradient(t, v, r, &own));
        put_each(n, copse_strategy_first_rank(st) + r, own.norm);
        for (size_t i = 0; i <= COPSE_GRADIENT_BINS; i++)
            put_each(n, copse_strategy_first_rank(st) + r, (double)own.bins[i]);
    }
    return COPSE_OK;
}

static copse_status train_both(copse_strategy *st, struct numbers *n, bool is_gathering)
{
    static const float weights[RANKS] = { 1, 2, 1.5f, 1, 3, 1, 1, 2 };
    for (int is_sum = 0; is_sum < 2; is_sum++) {
        struct model m;
        copse_trainer *t;
        COPSE_TRY(make_model(st, is_sum, &m));
        struct copse_trainer_params p = trainer_of(&m);
        p.accumulate = is_gathering ? 2 : 1;
        p.summarize_gradients = !is_gathering;
        p.sharding = is_gathering ? COPSE_SHARD_WEIGHTED : COPSE_SHARD_BALANCED;
        p.shard_weights = is_gathering ? weights : NULL;
        COPSE_TRY(copse_trainer_create(st, &p, &t));
        copse_status s = train(t, st, n, is_gathering);
        if (!s)
            s = put_weights(t, n);
        if (!s && !is_gathering)
            s = put_gradients(t, st, m.w, n);
        copse_trainer_release(&t);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

static copse_status trainer_numbers(copse_strategy *st, struct numbers *n)
{
    return train_both(st, n, false);
}

static copse_status gathering_numbers(copse_strategy *st, struct numbers *n)
{
    return train_both(st, n, true);
}

static void losses_of(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *list)
{
    list->names[0] = "distance";
    list->count = 1;
    struct model *m = user;
    copse_tensor *p = copse_matmul(g, rig_x(in), copse_variable_tensor(m->w), false, false);
    p = copse_sub(g, p, rig_y(in));
    p = copse_square(g, p);
    list->at[0] = copse_mean(g, p, NULL, 0, false);
}

static copse_status train_step_numbers(copse_strategy *st, struct numbers *n)
{
    struct model m;
    copse_train_step *ts;
    COPSE_TRY(make_model(st, false, &m));
    COPSE_TRY(
        copse_train_step_create(st,
                                &(struct copse_train_step_params){
                                    .losses = losses_of,
                                    .user = &m,
                                    .variables = &m.w,
                                    .variable_count = 1,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                &ts));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < 3 && !s; i++) {
        const struct copse_host_batch batch = rows(i, 11);
        struct copse_train_step_result r;
        s = copse_train_step_run(ts, &batch, &r);
        put(n, (double)r.step);
        put(n, (double)r.global_step);
        put(n, r.total);
        put(n, (double)r.loss_count);
        put(n, r.losses[0]);
    }
    put(n, (double)copse_global_step(st));
    copse_train_step_release(&ts);
    return s;
}

/* ---- the single-loss step and the monitor ---- */

struct single {
    copse_strategy *st;
    struct model m;
    copse_context *ctx;
};

static copse_status single_make(void *user, copse_trainer **out)
{
    struct single *u = user;
    struct copse_trainer_params p = trainer_of(&u->m);
    return copse_trainer_create(u->st, &p, out);
}

static copse_status single_data(void *user, copse_strategy *st, copse_dataset **out)
{
    (void)user, (void)st;
    return labelled_rows(out);
}

static copse_status put_outputs(copse_step *step, struct numbers *n,
                                const struct copse_output_params *wanted, size_t count)
{
    copse_outputs *outputs;
    COPSE_TRY(copse_step_outputs(step, &outputs));
    for (size_t i = 0; i < count; i++) {
        struct copse_output out;
        COPSE_TRY(copse_outputs_get(outputs, wanted[i].name, &out));
        put(n, (double)out.count);
        put(n, out.is_reduced);
        for (size_t k = 0; k < out.count; k++)
            put(n, out.values[k]);
    }
    return COPSE_OK;
}

static const struct copse_output_params wanted[3][7] = {
    { { "loss", COPSE_OUTPUT_MEAN, 5 },
      { "peak", COPSE_OUTPUT_MEAN, 0 },
      { "three", COPSE_OUTPUT_MEAN, 1 },
      { "mean", COPSE_OUTPUT_MEAN, 0 },
      { "variance", COPSE_OUTPUT_MEAN, 0 },
      { "all", COPSE_OUTPUT_MEAN, 0 },
      { "all peaks", COPSE_OUTPUT_MEAN, 0 } },
    { { "loss", COPSE_OUTPUT_SUM, 5 },
      { "peak", COPSE_OUTPUT_SUM, 0 },
      { "three", COPSE_OUTPUT_SUM, 1 },
      { "mean", COPSE_OUTPUT_SUM, 0 },
      { "variance", COPSE_OUTPUT_SUM, 0 },
      { "all", COPSE_OUTPUT_SUM, 0 },
      { "all peaks", COPSE_OUTPUT_SUM, 0 } },
    { { "loss", COPSE_OUTPUT_NONE, 5 },
      { "peak", COPSE_OUTPUT_NONE, 0 },
      { "three", COPSE_OUTPUT_NONE, 1 } },
};

/* Two iterations, one micro-batch each or two. */
static copse_status run_single(struct single *u, struct numbers *n,
                               const struct copse_output_params *list, size_t count)
{
    copse_step *step;
    copse_monitor *monitor;
    uint64_t done;
    struct copse_monitor_info info;
    struct copse_position at;
    COPSE_TRY(copse_single_loss_step_create(
        u->ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = single_data, .user = u, .batches = { .batch = 8, .seed = 3 } },
            .make = single_make,
            .make_user = u,
            .iterations_per_step = 2,
            .outputs = list,
            .output_count = count },
        &step));
    copse_status s = put_outputs(step, n, list, count);
    if (!s)
        s = copse_monitor_create(step, NULL, &monitor);
    if (s) {
        copse_step_release(&step);
        return s;
    }
    for (int k = 0; k < 2 && !s; k++) { /* two batches, and the last one */
        s = copse_monitor_run(monitor, 1, &done);
        put(n, (double)done);
        if (!s)
            s = put_outputs(step, n, list, count);
        if (!s)
            s = copse_step_position(step, &at);
        put(n, (double)at.batch);
    }
    copse_monitor_describe(monitor, &info);
    put(n, (double)info.recoveries);
    put(n, (double)info.saved);
    copse_monitor_release(&monitor);
    copse_step_release(&step);
    return s;
}

static copse_status single_numbers(copse_strategy *st, struct numbers *n)
{
    struct single u = { .st = st, .ctx = ctx };
    for (int is_sum = 0; is_sum < 2; is_sum++) {
        COPSE_TRY(make_model(st, is_sum, &u.m));
        for (size_t i = 0; i < 3; i++)
            COPSE_TRY(run_single(&u, n, wanted[i], i == 2 ? 3 : i == 1 ? 7 : 4));
    }
    return COPSE_OK;
}

/* ---- the table ---- */

static const struct group groups[] = {
    { "copse_trainer_result, _evaluate, _replica_result, _shard_weights, _gradient, _steps; "
      "copse_report, "
      "copse_all_reduce, "
      "copse_sync_moments in losses",
      trainer_numbers },
    { "copse_trainer_accumulated, _flush, weighted shards", gathering_numbers },
    { "copse_train_step_run, copse_global_step", train_step_numbers },
    { "copse_step_outputs, copse_outputs_get, copse_step_position, copse_monitor_run, _describe",
      single_numbers },
};

static void workers_return_the_numbers_of_one_process(void **state)
{
    (void)state;
    compare_groups(groups, COPSE_COUNT(groups));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_return_the_numbers_of_one_process),
    };
    return cmocka_run_group_tests_name("numbers_across", tests, open_workers, close_workers);
}
