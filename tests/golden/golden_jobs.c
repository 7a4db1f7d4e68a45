/* SPDX-License-Identifier: MIT */
/* golden_jobs DATA FOLDER DEVICES [KEY=VALUE...]: one row of the golden table that `copse train`
   cannot express. Trains on DATA (CSV), prints each loss with all digits, and writes FOLDER/save
   and FOLDER/checkpoint*.safetensors. The environment may describe a job of several workers
   (copse_cluster_spec_find); a task of the role ps serves. golden_jobs.h has the keys. It uses few
   functions of the public API, so that it is easy to keep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden_jobs.h"

#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/parameter_server.h"

static copse_status print_results(copse_trainer *t)
{
    struct copse_step_result r;
    copse_status s;
    while ((s = copse_trainer_result(t, true, &r)) == COPSE_OK) {
        print_number(r.loss);
        for (uint32_t i = 0; i < r.report_count; i++)
            print_number(r.reports[i]);
    }
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

static copse_status print_norms(const struct model *m, copse_trainer *t)
{
    struct copse_gradient_summary g;
    for (size_t v = 0; keys.summary && v < m->count; v++)
        for (uint32_t r = 0; r < copse_strategy_replicas(m->st); r++) {
            COPSE_TRY(copse_trainer_gradient(t, m->variables[v], r, &g));
            print_number(g.is_known ? g.norm : -1.0);
        }
    return COPSE_OK;
}

/* The next batch; the epochs follow one another. `x` is NULL: all are over. */
static copse_status next(copse_loader *walk, struct copse_host_batch *out)
{
    uint32_t epoch;
    size_t index;
    const copse_status s = copse_loader_next(walk, out);
    if (s != COPSE_ERR_END)
        return s;
    copse_loader_position(walk, &epoch, &index);
    if (epoch + 1 == keys.epochs)
        return COPSE_OK;
    COPSE_TRY(copse_loader_start(walk, epoch + 1, 0));
    return copse_loader_next(walk, out);
}

static copse_status open_walk(bool drop_last, copse_loader **out)
{
    return copse_loader_create(
        env.data,
        &(struct copse_loader_params){ .batch = keys.batch, .seed = 5, .drop_last = drop_last },
        out);
}

static struct copse_position position_of(const copse_loader *walk)
{
    struct copse_position p;
    size_t index;
    copse_loader_position(walk, &p.epoch, &index);
    p.batch = index;
    return p;
}

/* ---- the loops ---- */

/* The optimizers of three trainers, or of three tower optimizers. */
static const char *const rules[TRAINERS] = { "adam", "momentum", "sgd" };

/* Trains one trainer, or three with variables of their own, which take every batch in turn. */
struct trainers {
    struct model m;
    copse_trainer *t[TRAINERS];
    size_t count;
};

static copse_status open_trainers(struct trainers *w)
{
    size_t count;
    COPSE_TRY(model_open(&w->m));
    if (w->count == 1)
        return make_trainer(&w->m, keys.listed ? w->m.variables + w->m.first : NULL,
                            keys.listed ? w->m.count - w->m.first : 0, make_rule(keys.optimizer),
                            &w->t[0]);
    for (size_t i = 0; i < w->count; i++) {
        copse_variable *const *variables = model_share(&w->m, i, &count);
        COPSE_TRY(make_trainer(&w->m, variables, count, make_rule(rules[i]), &w->t[i]));
    }
    return COPSE_OK;
}

static void close_trainers(struct trainers *w)
{
    for (size_t i = 0; i < w->count; i++)
        copse_trainer_release(&w->t[i]);
    model_close(&w->m);
}

/* Trains until the data ends, or on `most` batches (0: any number). */
static copse_status train(struct trainers *w, copse_loader *walk, unsigned most)
{
    struct copse_host_batch in;
    for (unsigned taken = 1; !most || taken <= most; taken++) {
        COPSE_TRY(next(walk, &in));
        if (in.count == 0)
            break;
        for (size_t i = 0; i < w->count; i++) {
            COPSE_TRY(copse_trainer_step(w->t[i], &in));
            COPSE_TRY(print_norms(&w->m, w->t[i]));
        }
        for (size_t i = 0; i < w->count && taken % 4 == 0; i++)
            COPSE_TRY(print_results(w->t[i]));
    }
    for (size_t i = 0; i < w->count; i++) {
        if (!most)
            COPSE_TRY(copse_trainer_flush(w->t[i]));
        COPSE_TRY(print_results(w->t[i]));
    }
    return COPSE_OK;
}

static copse_status evaluate(struct trainers *w)
{
    static float x[LONGEST_BATCH * INPUTS];
    static int32_t y[LONGEST_BATCH];
    struct copse_step_result r;
    COPSE_TRY(copse_dataset_gather(env.data, "x", NULL, keys.batch, x));
    COPSE_TRY(copse_dataset_gather(env.data, "y", NULL, keys.batch, y));
    const struct copse_column columns[] = {
        { .name = "x", .type = COPSE_F32, .shape = COPSE_SHAPE(INPUTS), .data = x },
        { .name = "y", .type = COPSE_I32, .data = y },
    };
    COPSE_TRY(copse_trainer_evaluate(
        w->t[0],
        &(struct copse_host_batch){ .columns = columns, .column_count = 2, .count = keys.batch },
        &r));
    print_number(r.loss);
    return COPSE_OK;
}

static copse_status run_trainers(void)
{
    struct trainers w = { .count = strcmp(keys.loop, "three") == 0 ? TRAINERS : 1 };
    copse_loader *walk;
    struct copse_position position;
    char name[64];
    COPSE_TRY(open_walk(false, &walk));
    COPSE_TRY(open_trainers(&w));
    if (keys.resume) {
        COPSE_TRY(train(&w, walk, keys.resume));
        COPSE_TRY(copse_trainer_checkpoint(
            w.t[0], path("half.safetensors"),
            &(struct copse_state_params){ .position = position_of(walk) }));
        close_trainers(&w);
        COPSE_TRY(open_trainers(&w));
        COPSE_TRY(copse_trainer_restore(w.t[0], path("half.safetensors"), &position, NULL));
        COPSE_TRY(copse_loader_start(walk, position.epoch, position.batch));
    }
    COPSE_TRY(train(&w, walk, 0));
    COPSE_TRY(evaluate(&w));
    COPSE_TRY(copse_trainer_save(w.t[0], path("save")));
    for (size_t i = 0; i < w.count; i++) {
        snprintf(name, sizeof name, "checkpoint%zu.safetensors", i);
        COPSE_TRY(copse_trainer_checkpoint(w.t[i], path(name), NULL));
    }
    close_trainers(&w);
    copse_loader_release(&walk);
    return COPSE_OK;
}

/* Trains a replicated model with one tower optimizer, or with three. */
struct towers {
    struct model m;
    copse_tower_optimizer *t[TRAINERS];
};

static copse_status tower_model(copse_replica_context *rc, const struct copse_model_call *call,
                                struct copse_model_spec *spec)
{
    struct towers *w = call->user;
    const struct copse_tower_loss of = {
        .loss = model_loss, .user = &w->m, .x = call->features, .y = call->labels
    };
    const struct copse_tower_loss guess = { .loss = model_logits,
                                            .user = &w->m,
                                            .x = call->features };
    size_t count;
    (void)rc;
    if (call->mode == COPSE_MODEL_PREDICT)
        return copse_tower_forward(w->t[0], &guess, &spec->outputs);
    if (keys.towers == 1)
        return copse_tower_minimize(w->t[0], &of, NULL, 0, true, &spec->loss);
    for (size_t i = 0; i < TRAINERS; i++) {
        copse_variable *const *variables = model_share(&w->m, i, &count);
        COPSE_TRY(copse_tower_minimize(w->t[i], &of, variables, count, i == 0,
                                       i == 0 ? &spec->loss : NULL));
    }
    return COPSE_OK;
}

static copse_status open_towers(struct towers *w)
{
    COPSE_TRY(model_open(&w->m));
    for (size_t i = 0; i < keys.towers && i < TRAINERS; i++)
        COPSE_TRY(copse_tower_create(
            w->m.st,
            &(struct copse_tower_params){
                .optimizer = make_rule(keys.towers == 1 ? keys.optimizer : rules[i]),
                .reduction = keys.sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
                .seed = 3 },
            &w->t[i]));
    return COPSE_OK;
}

static void close_towers(struct towers *w)
{
    for (size_t i = 0; i < TRAINERS; i++)
        copse_tower_release(&w->t[i]);
    model_close(&w->m);
}

/* Gives the model this worker's rows of a batch. */
static copse_status replicate(struct towers *w, const struct copse_host_batch *in,
                              copse_model_mode mode)
{
    static float outputs[LONGEST_BATCH * CLASSES];
    const struct copse_replicated_params params = { tower_model, w,
                                                    keys.sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN };
    const size_t each = in->count / copse_strategy_replicas_in_sync(w->m.st);
    const size_t from = each * copse_strategy_first_rank(w->m.st);
    const uint32_t rows = (uint32_t)(each * copse_strategy_replicas(w->m.st));
    const bool is_training = mode == COPSE_MODEL_TRAIN;
    struct copse_replicated_result result;
    copse_value *x, *y;
    COPSE_TRY(copse_value_create(env.ctx, COPSE_F32, COPSE_SHAPE(rows, INPUTS),
                                 (const float *)in->columns[0].data + from * INPUTS, &x));
    COPSE_TRY(copse_value_create(env.ctx, COPSE_I32, COPSE_SHAPE(rows),
                                 (const int32_t *)in->columns[1].data + from, &y));
    COPSE_TRY(copse_replicated_run(w->m.st, &params, mode, x, is_training ? y : NULL, &result));
    if (is_training)
        print_number(result.loss);
    if (result.outputs)
        COPSE_TRY(copse_value_read(result.outputs, outputs));
    for (uint32_t i = 0; result.outputs && i < rows * CLASSES; i++)
        print_number((double)outputs[i]);
    copse_value_release(&result.outputs);
    copse_value_release(&x);
    copse_value_release(&y);
    return COPSE_OK;
}

static copse_status train_towers(struct towers *w, copse_loader *walk, unsigned most)
{
    struct copse_host_batch in;
    for (unsigned taken = 1; !most || taken <= most; taken++) {
        COPSE_TRY(next(walk, &in));
        if (in.count == 0)
            break;
        COPSE_TRY(replicate(w, &in, COPSE_MODEL_TRAIN));
        if (in.index == 0)
            COPSE_TRY(replicate(w, &in, COPSE_MODEL_PREDICT));
    }
    return COPSE_OK;
}

static copse_status run_towers(void)
{
    struct towers w = { .t = { NULL } };
    copse_loader *walk;
    struct copse_position position;
    COPSE_TRY(open_walk(true, &walk));
    COPSE_TRY(open_towers(&w));
    if (keys.resume) {
        COPSE_TRY(train_towers(&w, walk, keys.resume));
        COPSE_TRY(copse_replicated_checkpoint(
            w.m.st, path("half.safetensors"),
            &(struct copse_state_params){ .position = position_of(walk) }));
        close_towers(&w);
        COPSE_TRY(open_towers(&w));
        COPSE_TRY(copse_replicated_restore(w.m.st, path("half.safetensors"), &position, NULL));
        COPSE_TRY(copse_loader_start(walk, position.epoch, position.batch));
    }
    COPSE_TRY(train_towers(&w, walk, 0));
    COPSE_TRY(copse_replicated_checkpoint(w.m.st, path("checkpoint0.safetensors"), NULL));
    close_towers(&w);
    copse_loader_release(&walk);
    return COPSE_OK;
}

/* The standard single-loss step: several keys.iterations, outputs of the last one. */
static copse_status step_dataset(void *user, copse_strategy *st, copse_dataset **out)
{
    (void)user;
    (void)st;
    *out = copse_dataset_retain(env.data);
    return COPSE_OK;
}

static copse_status step_trainer(void *user, copse_trainer **out)
{
    struct model *m = user;
    COPSE_TRY(model_open(m));
    return make_trainer(m, NULL, 0, make_rule(keys.optimizer), out);
}

static copse_status run_step(void)
{
    static const struct copse_output_params outputs[] = {
        { .name = "loss", .reduction = COPSE_OUTPUT_MEAN },
        { .name = "accuracy", .reduction = COPSE_OUTPUT_NONE }
    };
    struct model m;
    copse_step *step;
    copse_outputs *table;
    struct copse_output o;
    copse_status s;
    COPSE_TRY(copse_single_loss_step_create(
        env.ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = step_dataset,
                       .batches = { .batch = keys.batch, .seed = 5, .drop_last = true },
                       .epochs = keys.epochs },
            .make = step_trainer,
            .make_user = &m,
            .iterations_per_step = keys.iterations,
            .outputs = outputs,
            .output_count = 2 },
        &step));
    while ((s = copse_step_run(step)) == COPSE_OK) {
        COPSE_TRY(copse_step_outputs(step, &table));
        for (size_t i = 0; i < 2; i++) {
            COPSE_TRY(copse_outputs_get(table, outputs[i].name, &o));
            for (size_t k = 0; k < o.count; k++)
                print_number(o.values[k]);
        }
    }
    if (s != COPSE_ERR_END)
        return s;
    COPSE_TRY(copse_trainer_save(copse_step_trainer(step), path("save")));
    COPSE_TRY(
        copse_trainer_checkpoint(copse_step_trainer(step), path("checkpoint0.safetensors"), NULL));
    model_close(&m);
    copse_step_release(&step);
    return COPSE_OK;
}

/* A train step: two losses and their total. */
static void losses_of(copse_graph *g, const copse_batch *in, void *user,
                      struct copse_losses *losses)
{
    const struct model *m = user;
    copse_tensor *w = copse_variable_tensor(m->variables[m->first]), *square;
    square = copse_mul(g, w, w);
    *losses = (struct copse_losses){ .names = { "entropy", "decay" }, .count = 2 };
    losses->at[0] = model_loss(g, in, user);
    losses->at[1] = copse_mean(g, square, NULL, 0, false);
}

static copse_tensor *total_of(copse_graph *g, const struct copse_losses *losses, void *user)
{
    (void)user;
    return copse_add(g, losses->at[0], losses->at[1]);
}

static copse_status run_train_step(void)
{
    struct model m;
    copse_train_step *step;
    copse_loader *walk;
    struct copse_host_batch in;
    struct copse_train_step_result r;
    COPSE_TRY(model_open(&m));
    COPSE_TRY(open_walk(false, &walk));
    COPSE_TRY(copse_train_step_create(
        m.st,
        &(struct copse_train_step_params){ .losses = losses_of,
                                           .user = &m,
                                           .total_loss = total_of,
                                           .optimizer = make_rule(keys.optimizer),
                                           .seed = 3,
                                           .check_gradients = keys.check,
                                           .accumulate = keys.accumulate },
        &step));
    for (;;) {
        COPSE_TRY(next(walk, &in));
        if (in.count == 0)
            break;
        COPSE_TRY(copse_train_step_run(step, &in, &r));
        for (size_t i = 0; r.is_updated && i < r.loss_count; i++)
            print_number(r.losses[i]);
        if (r.is_updated)
            print_number(r.total);
    }
    COPSE_TRY(copse_trainer_flush(copse_train_step_trainer(step)));
    COPSE_TRY(copse_trainer_save(copse_train_step_trainer(step), path("save")));
    COPSE_TRY(copse_trainer_checkpoint(copse_train_step_trainer(step),
                                       path("checkpoint0.safetensors"), NULL));
    copse_train_step_release(&step);
    copse_loader_release(&walk);
    model_close(&m);
    return COPSE_OK;
}

/* Values outside of graphs: reductions, assignments by replicas, scattered rows. */
struct values {
    copse_variable *total, *local, *table;
};

static copse_status one_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct values *v = user;
    float x[7], rows[2 * 5];
    copse_value *mine, *slices;
    (void)args;
    (void)count;
    for (uint32_t i = 0; i < 7; i++)
        x[i] = 1.0f / (float)(3 + 7 * copse_replica_id(rc) + i);
    for (uint32_t i = 0; i < 10; i++)
        rows[i] = x[i % 7] * (float)(i + 1);
    COPSE_TRY(copse_value_create(env.ctx, COPSE_F32, COPSE_SHAPE(7), x, &mine));
    COPSE_TRY(copse_assign_add(v->total, mine));
    COPSE_TRY(copse_assign_add(v->local, mine));
    COPSE_TRY(copse_value_sparse(
        env.ctx,
        &(struct copse_sparse_params){
            .dense_shape = COPSE_SHAPE(4, 5),
            .count = 2,
            .indices = (const int32_t[]){ (int32_t)(copse_replica_id(rc) % 4), 1 },
            .values = rows },
        &slices));
    COPSE_TRY(copse_scatter_add(v->table, slices));
    COPSE_TRY(copse_replica_all_reduce(rc, COPSE_REDUCE_MEAN, mine, result));
    copse_value_release(&slices);
    copse_value_release(&mine);
    return COPSE_OK;
}

static copse_status print_value(copse_value *v, size_t count)
{
    float x[32];
    COPSE_TRY(copse_value_read(v, x));
    for (size_t i = 0; i < count; i++)
        print_number((double)x[i]);
    copse_value_release(&v);
    return COPSE_OK;
}

static copse_status run_values(void)
{
    copse_strategy *st;
    struct values v;
    copse_value *parts_of[8] = { NULL }, *each, *got;
    const int axis = 0;
    const struct copse_variable_params params[3] = {
        { .name = "total", .shape = COPSE_SHAPE(7), .aggregation = COPSE_AGGREGATION_SUM },
        { .name = "local",
          .shape = COPSE_SHAPE(7),
          .aggregation = COPSE_AGGREGATION_MEAN,
          .synchronization = COPSE_SYNC_ON_READ },
        { .name = "table",
          .shape = COPSE_SHAPE(4, 5),
          .initializer = COPSE_INIT_ZEROS,
          .aggregation = COPSE_AGGREGATION_SUM },
    };
    copse_variable **made[3] = { &v.total, &v.local, &v.table };
    COPSE_TRY(make_strategy(&st));
    for (int i = 0; i < 3; i++)
        COPSE_TRY(copse_variable_create(st, &params[i], made[i]));
    for (int i = 0; i < 3; i++) {
        COPSE_TRY(copse_strategy_run(st, one_replica, NULL, 0, &v, &got));
        COPSE_TRY(print_value(copse_value_kind_of(got) == COPSE_VALUE_PER_REPLICA
                                  ? copse_value_retain(copse_value_item(got, 0))
                                  : copse_value_retain(got),
                              7));
        copse_value_release(&got);
    }
    for (int i = 0; i < 3; i++) {
        COPSE_TRY(copse_read(*made[i], &got));
        COPSE_TRY(print_value(got, i == 2 ? 20 : 7));
    }
    /* replicas hold different numbers of rows */
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        float x[24];
        const uint32_t rows = 1 + (copse_strategy_first_rank(st) + r) % 3;
        for (uint32_t i = 0; i < 8 * rows; i++)
            x[i] = 1.0f / (float)(1 + i + 3 * (copse_strategy_first_rank(st) + r));
        COPSE_TRY(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(rows, 8), x, &parts_of[r]));
    }
    COPSE_TRY(copse_value_per_replica(st, parts_of, copse_strategy_replicas(st), &each));
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, each, &axis, &got));
    COPSE_TRY(print_value(got, 8));
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_SUM, each, &axis, &got));
    COPSE_TRY(print_value(got, 8));
    for (size_t r = 0; r < 8; r++)
        copse_value_release(&parts_of[r]);
    copse_value_release(&each);
    copse_strategy_release(&st);
    return COPSE_OK;
}

/* ---- the program ---- */

static copse_status run(const char *data, char *devices)
{
    for (char *at = strtok(devices, ","); at && env.device_count < 8; at = strtok(NULL, ","))
        env.devices[env.device_count++] = at;
    COPSE_TRY(copse_context_create(NULL, &env.ctx));
    COPSE_TRY(copse_cluster_spec_find(env.ctx, &env.spec));
    if (env.spec)
        COPSE_TRY(copse_cluster_open(env.ctx, env.spec,
                                     &(struct copse_cluster_params){ .deadline_ms = 240000 },
                                     &env.cluster));
    if (env.spec && copse_cluster_spec_role(env.spec) == COPSE_ROLE_PS)
        return copse_parameter_server_serve(env.ctx, env.cluster, env.devices[0], NULL);
    COPSE_TRY(copse_dataset_open(
        env.ctx, data, &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX }, &env.data));
    if (strcmp(keys.loop, "towers") == 0)
        return run_towers();
    if (strcmp(keys.loop, "step") == 0)
        return run_step();
    if (strcmp(keys.loop, "train_step") == 0)
        return run_train_step();
    if (strcmp(keys.loop, "values") == 0)
        return run_values();
    return run_trainers();
}

int main(int argc, char **argv)
{
    copse_status s;
    int bad = argc < 4;
    for (int i = 4; i < argc && !bad; i++)
        if (!keys_set(argv[i])) {
            fprintf(stderr, "golden_jobs: unknown: %s\n", argv[i]);
            bad = 1;
        }
    if (bad) {
        fprintf(stderr, "usage: golden_jobs DATA FOLDER DEVICES [KEY=VALUE...]\n");
        return 2;
    }
    env.folder = argv[2];
    s = run(argv[1], argv[3]);
    if (s != COPSE_OK)
        fprintf(stderr, "golden_jobs: %s\n", copse_last_error());
    copse_dataset_release(&env.data);
    copse_cluster_release(&env.cluster);
    copse_cluster_spec_release(&env.spec);
    copse_context_release(&env.ctx);
    return s != COPSE_OK;
}
