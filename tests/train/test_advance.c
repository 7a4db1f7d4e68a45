/* SPDX-License-Identifier: MIT */
/* Steps in slices have the bits of whole steps, whatever the budgets, the replicas and the settings
   are; other calls within a step finish it first. What copse_trainer_prepare has made is not made
   again. */
#include "copse/compat/replicated.h"
#include "copse/distribute/call.h"
#include "copse/distribute/cluster.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/sync.h"
#include "copse/loop/feed.h"
#include "copse/predict.h"
#include "copse/state.h"
#include "copse/train/advance.h"
#include "copse/train/audit.h"
#include "copse/train/evaluate.h"
#include "copse/train/fine_tune.h"
#include "copse/train/memory.h"
#include "copse/train/model_file.h"
#include "core/base/random.h"
#include "core/replica/strategy.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/found.h"
#include "tests/rig/train/train_model.h"

enum { BATCH = 24, STEPS = 6, VALUES = 2048 };

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

struct how {
    const char *ids[3];
    uint32_t replicas;
    struct copse_trainer_params params;
    bool has_crossing, is_prefetched, has_table;
};

struct job {
    copse_context *ctx;
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    bool has_crossing;
    copse_variable *table; /* sparse; NULL: none */
    uint32_t deep;         /* more launches of the loss function */
    uint32_t calls;        /* of the loss function */
    uint32_t cancel_at;
    size_t allocations, bytes; /* bytes: of all requests */
};

static void *count_resize(void *user, void *block, size_t size)
{
    struct job *j = user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    j->allocations++;
    j->bytes += size;
    return realloc(block, size);
}

static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    struct job *j = user;
    if (++j->calls == j->cancel_at)
        copse_trainer_cancel(j->t);
    copse_tensor *loss = model_loss(g, in, &j->m);
    if (j->table) {
        copse_tensor *rows = copse_input(in, "y");
        rows = copse_gather(g, copse_variable_tensor(j->table), rows);
        copse_tensor *squares = copse_mul(g, rows, rows);
        squares = copse_mean(g, squares, NULL, 0, false);
        loss = copse_add(g, loss, squares);
    }
    for (uint32_t i = 0; i < j->deep; i++) {
        copse_tensor *x = copse_reshape(g, loss, COPSE_SHAPE(1, 1));
        x = copse_matmul(g, x, x, false, false);
        loss = copse_sum(g, x, NULL, 0, false);
    }
    if (!j->has_crossing)
        return loss;
    copse_tensor *x = copse_sub(g, loss, loss);
    x = copse_all_reduce(g, x, COPSE_SUM);
    return copse_add(g, loss, x);
}

static void job_open(struct job *j, const struct how *how)
{
    const struct copse_strategy_params params = { .bucket_bytes = 1024 };
    struct copse_trainer_params p = how->params;
    *j = (struct job){ .has_crossing = how->has_crossing, .m.dropout = 0.25f };
    model_data(data_x, data_y);
    fake_reset();
    copse_fake.device_count = 3;
    const struct copse_context_params c = { .resize = count_resize, .resize_user = j };
    OK(strncmp(how->ids[0], "fake", 4) == 0 ? copse__context_create_with(&c, fake_backends, &j->ctx)
                                            : copse_context_create(&c, &j->ctx));
    OK(copse_mirrored_create(j->ctx, how->ids, how->replicas, &params, &j->st));
    OK(model_create(&j->m, j->st));
    if (how->has_table)
        OK(copse_variable_create(
            j->st,
            &(struct copse_variable_params){ .name = "table",
                                             .shape = COPSE_SHAPE(MODEL_CLASSES, 4),
                                             .initializer = COPSE_INIT_NORMAL,
                                             .is_sparse = true },
            &j->table));
    p.loss = loss_of;
    p.user = j;
    p.seed = 3;
    p.prefetch = how->is_prefetched ? 2 : 0;
    OK(copse_trainer_create(j->st, &p, &j->t));
}

static void job_close(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
    copse_context_release(&j->ctx);
    assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
}

/* Batches of two sizes. */
#define FIRST_OF(i) ((size_t)(i)*13 % (MODEL_ROWS - BATCH))
#define BATCH_OF(i)                                                              \
    {                                                                            \
        RIG_XY(MODEL_IN, data_x + FIRST_OF(i) * MODEL_IN, data_y + FIRST_OF(i)), \
            .count = (i) % 3 == 2 ? 10 : BATCH, .first = FIRST_OF(i)             \
    }

static void values_of(const struct job *j, uint32_t replica, float *values)
{
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(j->m.variables[v]);
        OK(copse_variable_read(j->m.variables[v], replica, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

/* One batch; budgets of up to 400 us, and now and then none, or one for all. Returns the calls. */
static uint32_t advance(struct job *j, const struct copse_host_batch *b, struct copse_stream *s)
{
    struct copse_advance a;
    uint32_t calls = 0;
    do {
        const uint32_t kind = (uint32_t)copse__stream_below(s, 8);
        const uint64_t us = kind == 0 ? 0 : kind == 1 ? UINT64_MAX : copse__stream_below(s, 400);
        OK(copse_trainer_advance(j->t, calls == 0 ? b : NULL, us, &a));
        assert_true(a.slices > 0);
        assert_true(a.is_step_done != a.is_in_progress);
        calls++;
    } while (a.is_in_progress);
    return calls;
}

struct record {
    float values[3][VALUES];
    double losses[STEPS];
};

/* `seed` of the budgets; 0: whole steps. */
static void train(const struct how *how, uint64_t seed, bool is_prepared, struct record *out)
{
    const uint32_t every = how->params.accumulate > 0 ? how->params.accumulate : 1;
    struct copse_stream s;
    struct job j;
    memset(out, 0, sizeof *out);
    copse__stream_init(&s, seed, 0);
    job_open(&j, how);
    const struct copse_host_batch first = BATCH_OF(0);
    if (is_prepared)
        OK(copse_trainer_prepare(j.t, &first,
                                 &(struct copse_prepare_params){ .advances = seed > 0 }));
    for (uint32_t i = 0; i < STEPS * every; i++) {
        struct copse_step_result got;
        const struct copse_host_batch b = BATCH_OF(i);
        const uint64_t before = copse_trainer_steps(j.t);
        if (how->is_prefetched)
            OK(copse_trainer_feed(j.t, &b));
        if (seed > 0)
            advance(&j, how->is_prefetched ? NULL : &b, &s);
        else
            OK(copse_trainer_step(j.t, how->is_prefetched ? NULL : &b));
        assert_int_equal(copse_trainer_steps(j.t), before + ((i + 1) % every == 0));
        if ((i + 1) % every == 0) {
            OK(copse_trainer_result(j.t, true, &got));
            out->losses[i / every] = got.loss;
        }
    }
    for (uint32_t r = 0; r < how->replicas; r++)
        values_of(&j, r, out->values[r]);
    job_close(&j);
}

static void compare(const struct how *how)
{
    static struct record want, got;
    train(how, 0, false, &want);
    assert_true(want.losses[0] > 0.0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        train(how, seed, seed == 2, &got);
        assert_memory_equal(got.losses, want.losses, sizeof want.losses);
        assert_memory_equal(got.values, want.values, sizeof want.values);
    }
    train(how, 0, true, &got);
    assert_memory_equal(got.losses, want.losses, sizeof want.losses);
    assert_memory_equal(got.values, want.values, sizeof want.values);
}

#define FAKES .ids = { "fake:0", "fake:1", "fake:2" }

static void slices_have_the_bits_of_steps(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++)
        compare(&(struct how){ FAKES, .replicas = n });
}

static void slices_have_the_bits_whatever_the_settings(void **state)
{
    (void)state;
    const struct copse_trainer_params list[] = {
        { .accumulate = 3 },
        { .check_numerics = true },
        { .check_gradients = true },
        { .gating = COPSE_GATE_GRAPH },
        { .optimizer = { .kind = COPSE_ADAMW, .clip_global_norm = 0.5f } },
        { .optimizer = { .kind = COPSE_LAMB } },
        { .optimizer = { .loss_scale = 1024.0f } },
        { .accumulate = 2, .recordings = 1 },
    };
    for (size_t i = 0; i < COPSE_COUNT(list); i++)
        compare(&(struct how){ FAKES, .replicas = 2, .params = list[i] });
    compare(&(struct how){ FAKES, .replicas = 2, .is_prefetched = true });
    compare(&(struct how){ FAKES, .replicas = 3, .has_crossing = true });
    compare(&(struct how){ FAKES, .replicas = 1, .has_crossing = true });
    const struct copse_trainer_params adam = { .optimizer = { .kind = COPSE_ADAM } };
    for (uint32_t n = 1; n <= 3; n++)
        compare(&(struct how){ FAKES, .replicas = n, .has_table = true, .params = adam });
}

static void slices_have_the_bits_on_devices(void **state)
{
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    find_devices(ctx);
    struct how how = { .replicas = found_count };
    memcpy(how.ids, found, sizeof how.ids);
    for (uint32_t n = 0; n < found_count; n++)
        compare(&(struct how){ .ids = { found[n] }, .replicas = 1 });
    compare(&how);
    copse_context_release(&ctx);
}

/* ---- other calls within a step ---- */

static struct copse_advance begin(struct job *j, uint32_t slices)
{
    const struct copse_host_batch b = BATCH_OF(0);
    struct copse_advance a = { .slices = 0 };
    for (uint32_t i = 0; i < slices; i++) {
        OK(copse_trainer_advance(j->t, &b, 0, &a));
        assert_int_equal(a.slices, 1);
        assert_true(a.is_in_progress);
    }
    return a;
}

static copse_tensor *twice(copse_graph *g, const copse_batch *in, void *user)
{
    const struct job *j = user;
    copse_tensor *y = copse_input(in, "x");
    y = copse_dense(g, y, j->m.w[0], j->m.b[0], COPSE_LINEAR);
    return y;
}

static void call_read(struct job *j)
{
    float b[MODEL_CLASSES];
    OK(copse_variable_read(j->m.variables[5], 0, b));
}

static void call_step(struct job *j)
{
    const struct copse_host_batch b = BATCH_OF(1);
    OK(copse_trainer_step(j->t, &b));
}

static void call_evaluate(struct job *j)
{
    const struct copse_host_batch b = BATCH_OF(1);
    struct copse_step_result r;
    OK(copse_trainer_evaluate(j->t, &b, &r));
}

static void call_predict(struct job *j)
{
    float rows[BATCH * 32];
    const struct copse_host_batch b = BATCH_OF(1);
    OK(copse_trainer_predict(j->t, twice, j, &b, rows, sizeof rows));
}

static void call_save(struct job *j)
{
    OK(copse_trainer_checkpoint(j->t, "build_advance.checkpoint", NULL));
    remove("build_advance.checkpoint");
}

static void call_another(struct job *j)
{
    struct copse_trainer_params p = { .loss = loss_of, .user = j };
    copse_trainer *other;
    OK(copse_trainer_create(j->st, &p, &other));
    copse_trainer_release(&other);
}

static void call_assign(struct job *j)
{
    const float b[MODEL_CLASSES] = { 1, 2, 3, 4, 5 };
    OK(copse_variable_assign(j->m.variables[5], b));
}

static void call_value(struct job *j)
{
    float b[MODEL_CLASSES];
    copse_value *v;
    OK(copse_variable_value(j->m.variables[5], &v));
    OK(copse_value_read(v, b));
    copse_value_release(&v);
}

static void other_calls_finish_the_step(void **state)
{
    static const struct {
        void (*call)(struct job *j);
        uint64_t steps;
    } calls[] = {
        { call_read, 1 }, { call_step, 2 },    { call_evaluate, 1 }, { call_predict, 1 },
        { call_save, 1 }, { call_another, 1 }, { call_assign, 1 },   { call_value, 1 },
    };
    static float want[VALUES], got[VALUES];
    const struct how how = { FAKES, .replicas = 2 };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(calls); i++) {
        for (uint32_t slices = 0; slices <= 30; slices += 6) {
            struct job j;
            struct copse_step_result r;
            job_open(&j, &how);
            if (slices > 0)
                begin(&j, slices);
            else {
                const struct copse_host_batch b = BATCH_OF(0);
                OK(copse_trainer_step(j.t, &b));
            }
            if (slices > 0)
                FAILS(COPSE_ERR_END, copse_trainer_result(j.t, true, &r), "no step");
            calls[i].call(&j);
            assert_int_equal(copse_trainer_steps(j.t), calls[i].steps);
            for (uint64_t k = 0; k < calls[i].steps; k++)
                OK(copse_trainer_result(j.t, true, &r));
            values_of(&j, 0, slices == 0 ? want : got);
            if (slices > 0)
                assert_memory_equal(got, want, sizeof want);
            job_close(&j);
        }
    }
}

/* ---- what is recorded already computes with the values after the step ---- */

struct asked {
    copse_strategy *st;
    copse_dataset *data;
    copse_model *m;
    copse_trainer *t;
    float numbers[MODEL_ROWS * MODEL_CLASSES];
};

static void ask_outputs(struct asked *a)
{
    OK(copse_model_predict(a->m, a->data, a->numbers));
}

static void ask_loss(struct asked *a)
{
    struct copse_evaluation e;
    OK(copse_model_evaluate(a->m, a->data, NULL, &e));
    memcpy(a->numbers, &e.loss, sizeof e.loss);
}

static copse_tensor *sum_of_squares(copse_graph *g, const copse_batch *in, void *user)
{
    size_t count;
    copse_variable *const *list = copse_model_variables(user, &count);
    copse_tensor *sum = copse_scalar(g, 0);
    (void)in;
    for (size_t i = 0; i < count; i++) {
        copse_tensor *x = copse_variable_tensor(list[i]);
        x = copse_mul(g, x, x);
        x = copse_sum(g, x, NULL, 0, false);
        sum = copse_add(g, sum, x);
    }
    return sum;
}

static void ask_call(struct asked *a)
{
    copse_value *v;
    OK(copse_scope_enter(a->st));
    OK(copse_call(sum_of_squares, a->m, NULL, &v));
    OK(copse_scope_leave(a->st));
    OK(copse_value_read(v, a->numbers));
    copse_value_release(&v);
}

static void ask_map(struct asked *a)
{
    copse_value *v, *each[2];
    size_t count;
    OK(copse_strategy_map(a->st, sum_of_squares, a->m, NULL, &v));
    copse_local_results(v, each, 2, &count);
    for (size_t i = 0; i < count; i++)
        OK(copse_value_read(each[i], a->numbers + i));
    copse_value_release(&v);
}

static void ask_saved(struct asked *a)
{
    size_t count;
    float *to = a->numbers;
    copse_checkpoint *file;
    OK(copse_model_save(a->m, "build_advance.model", NULL));
    OK(copse_checkpoint_read(a->st->ctx, "build_advance.model", &file));
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const struct copse_array_view *v = &list[i].array;
        const size_t n = v->shape[0] * (v->rank > 1 ? v->shape[1] : 1);
        memcpy(to, v->data, n * sizeof *to);
        to += n;
    }
    copse_checkpoint_release(&file);
    remove("build_advance.model");
}

/* Asks before the step, and again after `slices` of it; 0: after all. False: it has fewer. */
static bool ask_within(copse_context *ctx, void (*ask)(struct asked *a), uint32_t slices,
                       struct asked *a)
{
    const char *const ids[] = { "fake:0", "fake:1" };
    const struct copse_host_batch b = BATCH_OF(0);
    const struct copse_array_view x = { COPSE_F32, 2, { MODEL_ROWS, MODEL_IN }, data_x },
                                  y = { COPSE_I32, 1, { MODEL_ROWS }, data_y };
    struct copse_advance at = { .is_in_progress = true };
    memset(a, 0, sizeof *a);
    OK(copse_mirrored_create(ctx, ids, 2, &(struct copse_strategy_params){ .bucket_bytes = 64 },
                             &a->st));
    OK(copse_dataset_create(ctx, &x, &y, NULL, &a->data));
    OK(copse_model_create(a->st, copse_dataset_schema(a->data),
                          &(struct copse_model_params){ .network = "dense 16 relu; dense out" },
                          &a->m));
    OK(copse_trainer_create(
        a->st,
        &(struct copse_trainer_params){
            .loss = copse_model_loss, .user = a->m, .optimizer = { .learning_rate = 0.5f } },
        &a->t));
    ask(a);
    memset(a->numbers, 0, sizeof a->numbers);
    for (uint32_t i = 0; at.is_in_progress && (slices == 0 || i < slices); i++)
        OK(copse_trainer_advance(a->t, &b, 0, &at));
    ask(a);
    assert_int_equal(copse_trainer_steps(a->t), 1);
    copse_trainer_release(&a->t);
    copse_model_release(&a->m);
    copse_dataset_release(&a->data);
    copse_strategy_release(&a->st);
    return at.is_in_progress;
}

static void recorded_functions_finish_the_step(void **state)
{
    static void (*const asks[])(struct asked *) = { ask_outputs, ask_loss, ask_call, ask_map,
                                                    ask_saved };
    static struct asked want, got;
    copse_context *ctx;
    (void)state;
    fake_reset();
    copse_fake.device_count = 2;
    model_data(data_x, data_y);
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    for (size_t i = 0; i < COPSE_COUNT(asks); i++) {
        uint32_t slices = 1;
        ask_within(ctx, asks[i], 0, &want);
        while (ask_within(ctx, asks[i], slices, &got)) {
            assert_memory_equal(got.numbers, want.numbers, sizeof want.numbers);
            slices += slices < 10 ? 3 : 1; /* updates are last */
        }
        assert_true(slices > 12);
    }
    copse_context_release(&ctx);
}

static void release_within_a_step_is_clean(void **state)
{
    (void)state;
    for (uint32_t slices = 1; slices <= 29; slices += 7) {
        struct job j;
        job_open(&j, &(struct how){ FAKES, .replicas = 2 });
        begin(&j, slices);
        job_close(&j);
    }
}

/* ---- cancelled, failed, refused ---- */

static void cancelled_step_has_changed_nothing(void **state)
{
    static float before[VALUES], after[VALUES];
    const struct copse_host_batch b = BATCH_OF(0);
    struct copse_advance a;
    struct job j;
    (void)state;
    job_open(&j, &(struct how){ FAKES, .replicas = 2 });
    values_of(&j, 0, before);
    begin(&j, 4);
    copse_trainer_cancel(j.t);
    FAILS(COPSE_ERR_CANCELLED, copse_trainer_advance(j.t, NULL, 0, &a), "cancelled");
    assert_false(a.is_in_progress);
    assert_int_equal(copse_trainer_steps(j.t), 0);
    values_of(&j, 0, after);
    assert_memory_equal(before, after, sizeof before);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_advance(j.t, NULL, 0, &a), "NULL");
    OK(copse_trainer_advance(j.t, &b, UINT64_MAX, &a));
    assert_int_equal(copse_trainer_steps(j.t), 1);
    job_close(&j);
}

static void failed_device_ends_the_step(void **state)
{
    struct copse_advance a;
    struct job j;
    (void)state;
    job_open(&j, &(struct how){ FAKES, .replicas = 2 });
    begin(&j, 4);
    fake_fail(1, FAKE_REPLAY, 1, COPSE_ERR_INTERNAL, false);
    FAILS(COPSE_ERR_INTERNAL, copse_trainer_advance(j.t, NULL, 0, &a), "in step 1");
    assert_int_equal(copse_trainer_steps(j.t), 0);
    begin(&j, 3);
    fake_fail(0, FAKE_REPLAY, 1, COPSE_ERR_INTERNAL, false);
    float b[MODEL_CLASSES];
    FAILS(COPSE_ERR_INTERNAL, copse_variable_read(j.m.variables[5], 0, b), "had begun");
    OK(copse_variable_read(j.m.variables[5], 0, b));
    begin(&j, 1);
    job_close(&j);
}

static void parameter_servers_are_refused(void **state)
{
    const char *const id = "fake:0";
    const struct copse_host_batch b = BATCH_OF(0);
    struct job j = { .m.dropout = 0 };
    (void)state;
    fake_reset();
    OK(copse__context_create_with(NULL, fake_backends, &j.ctx));
    OK(copse_parameter_server_create(j.ctx, NULL, &id, 1, NULL, &j.st));
    OK(model_create(&j.m, j.st));
    OK(copse_trainer_create(j.st, &(struct copse_trainer_params){ .loss = loss_of, .user = &j },
                            &j.t));
    FAILS(COPSE_ERR_UNSUPPORTED, copse_trainer_advance(j.t, &b, 1000, NULL),
          "use copse_trainer_step");
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_trainer_prepare(j.t, &b, &(struct copse_prepare_params){ .advances = true }),
          "use copse_trainer_step");
    OK(copse_trainer_prepare(j.t, &b, NULL));
    OK(copse_trainer_step(j.t, &b));
    job_close(&j);
}

/* ---- preparation ---- */

struct made {
    uint32_t kernels, buffers, segments, calls;
    size_t allocations;
};

static struct made made_by(const struct job *j)
{
    struct made m = { .calls = j->calls, .allocations = j->allocations };
    for (uint32_t d = 0; d < 3; d++) {
        m.kernels += fake_calls(d, FAKE_KERNEL_INIT);
        m.buffers += fake_calls(d, FAKE_BUFFER_INIT);
        m.segments += fake_calls(d, FAKE_SEGMENT_INIT);
    }
    return m;
}

static void nothing_is_made_after_preparation(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 6; kind++) {
        const struct how how = { FAKES, .replicas = 1 + kind / 2,
                                 .params = { .accumulate = kind % 2 ? 2 : 1 } };
        const struct copse_host_batch b = BATCH_OF(0);
        struct copse_advance a;
        struct copse_step_result r;
        struct job j;
        job_open(&j, &how);
        OK(copse_trainer_prepare(
            j.t, &b, &(struct copse_prepare_params){ .advances = kind >= 2, .evaluates = true }));
        assert_int_equal(copse_trainer_steps(j.t), 0);
        assert_int_equal(copse_trainer_accumulated(j.t), 0);
        FAILS(COPSE_ERR_END, copse_trainer_result(j.t, true, &r), "no step");
        OK(copse_trainer_audit(j.t, &(struct copse_audit_params){ .is_off = true }));
        const struct made before = made_by(&j);
        for (uint32_t i = 0; i < 2; i++)
            OK(kind >= 2 ? copse_trainer_advance(j.t, &b, UINT64_MAX, &a)
                         : copse_trainer_step(j.t, &b));
        OK(copse_trainer_flush(j.t));
        OK(copse_trainer_evaluate(j.t, &b, &r));
        const struct made after = made_by(&j);
        assert_int_equal(after.kernels, before.kernels);
        assert_int_equal(after.buffers, before.buffers);
        assert_int_equal(after.segments, before.segments);
        assert_int_equal(after.calls, before.calls);
        assert_int_equal(after.allocations, before.allocations);
        job_close(&j);
    }
}

static size_t bytes_to_prepare(uint32_t deep)
{
    const struct copse_host_batch b = BATCH_OF(0);
    struct job j;
    job_open(&j, &(struct how){ FAKES, .replicas = 1 });
    j.deep = deep;
    const size_t before = j.bytes;
    OK(copse_trainer_prepare(j.t, &b, &(struct copse_prepare_params){ .advances = true }));
    const size_t bytes = j.bytes - before;
    job_close(&j);
    return bytes;
}

/* Memory grows with the launches, not with their square. */
static void slices_take_memory_by_their_number(void **state)
{
    const size_t few = bytes_to_prepare(100), many = bytes_to_prepare(400);
    (void)state;
    assert_true(many < 6 * few);
}

static void preparation_is_cancelled_between_recordings(void **state)
{
    static float before[VALUES], after[VALUES];
    const struct copse_host_batch b = BATCH_OF(0);
    struct job j;
    (void)state;
    job_open(&j, &(struct how){ FAKES, .replicas = 3 });
    values_of(&j, 0, before);
    copse_trainer_cancel(j.t);
    FAILS(COPSE_ERR_CANCELLED, copse_trainer_prepare(j.t, &b, NULL), "cancelled");
    assert_int_equal(j.calls, 0);
    j.cancel_at = 2;
    FAILS(COPSE_ERR_CANCELLED, copse_trainer_prepare(j.t, &b, NULL), "while preparing steps");
    assert_int_equal(j.calls, 2);
    OK(copse_trainer_prepare(j.t, &b, NULL));
    assert_int_equal(j.calls, 3);
    values_of(&j, 0, after);
    assert_memory_equal(before, after, sizeof before);
    OK(copse_trainer_step(j.t, &b));
    job_close(&j);
}

static void preparation_spares_accumulated_gradients(void **state)
{
    const struct copse_host_batch b = BATCH_OF(0);
    struct job j;
    (void)state;
    job_open(&j, &(struct how){ FAKES, .replicas = 1, .params = { .accumulate = 2 } });
    OK(copse_trainer_step(j.t, &b));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_prepare(j.t, &b, NULL), "copse_trainer_flush");
    OK(copse_trainer_step(j.t, &b));
    OK(copse_trainer_prepare(j.t, &b, NULL));
    job_close(&j);
}

/* ---- memory ---- */

static void record_sizes(struct job *j)
{
    for (uint32_t i = 0; i < 3; i++) { /* two recordings: the sizes of BATCH_OF(1) and (2) */
        const struct copse_host_batch b = BATCH_OF(i);
        OK(copse_trainer_step(j->t, &b));
    }
}

/* Recordings are given, the least recently used first, until the device has what is wanted. */
static void trimmed_memory_follows_the_budget(void **state)
{
    static float want[VALUES], got[VALUES];
    const struct copse_host_batch b = BATCH_OF(1);
    const struct how how = { FAKES, .replicas = 1 };
    struct job j;
    uint64_t freed, free_bytes, total, first;
    (void)state;
    job_open(&j, &how);
    record_sizes(&j);
    OK(copse_trainer_step(j.t, &b));
    values_of(&j, 0, want);
    job_close(&j);

    job_open(&j, &how);
    record_sizes(&j);
    copse_device *dev = j.st->replicas[0].dev;
    copse_fake.devices[0].memory_budget = 64 << 20;
    OK(copse_trainer_trim(j.t, 0, &freed));
    OK(copse_device_memory(dev, &free_bytes, &total));
    assert_int_equal(j.calls, 2);
    OK(copse_trainer_trim(j.t, free_bytes, &freed)); /* it is free already */
    assert_int_equal(freed, 0);
    OK(copse_trainer_trim(j.t, free_bytes + 1, &freed));
    assert_true(freed > 0);
    first = free_bytes;
    OK(copse_device_memory(dev, &free_bytes, &total));
    assert_true(free_bytes > first);
    OK(copse_trainer_step(j.t, &b)); /* the other size was dropped */
    assert_int_equal(j.calls, 3);
    values_of(&j, 0, got);
    assert_memory_equal(got, want, sizeof want);
    OK(copse_trainer_trim(j.t, UINT64_MAX, &freed));
    assert_true(freed > 0);
    OK(copse_trainer_trim(j.t, UINT64_MAX, &freed));
    assert_int_equal(freed, 0);
    OK(copse_trainer_step(j.t, &b));
    assert_int_equal(j.calls, 4);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_have_the_bits_of_steps),
        cmocka_unit_test(slices_have_the_bits_whatever_the_settings),
        cmocka_unit_test(slices_have_the_bits_on_devices),
        cmocka_unit_test(other_calls_finish_the_step),
        cmocka_unit_test(recorded_functions_finish_the_step),
        cmocka_unit_test(release_within_a_step_is_clean),
        cmocka_unit_test(cancelled_step_has_changed_nothing),
        cmocka_unit_test(failed_device_ends_the_step),
        cmocka_unit_test(parameter_servers_are_refused),
        cmocka_unit_test(nothing_is_made_after_preparation),
        cmocka_unit_test(preparation_is_cancelled_between_recordings),
        cmocka_unit_test(slices_take_memory_by_their_number),
        cmocka_unit_test(trimmed_memory_follows_the_budget),
        cmocka_unit_test(preparation_spares_accumulated_gradients),
    };
    return cmocka_run_group_tests_name("advance", tests, NULL, NULL);
}
