/* SPDX-License-Identifier: MIT */
/* Mode args: public calls with arguments that break a documented rule. Each must return the right
   code and leave its outputs unchanged. One case per header, and args_ops.c. */
#include <math.h>

#include "copse/device/function.h"
#include "copse/ops.h"
#include "copse/trainer.h"
#include "prover/conformance/args/args.h"

#define ARGUMENT COPSE_ERR_ARGUMENT

/* ---- copse/device.h ---- */

static copse_status mode_args_devices(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out)
{
    copse_context *ctx = r->ctx;
    copse_device *dev = r->dev, *opened = NULL;
    copse_buffer *buf = NULL;
    copse_queue *q = NULL;
    char ids[1][32];
    size_t count = 0;
    uint64_t bytes = 7;
    const char *id = dev->info.id;
    const struct copse_device_params third = { .part = 2, .parts = 2 };
    const struct copse_buffer_params empty = { .size = 0 };
    const struct copse_buffer_params huge = { .size = (size_t)dev->limits->max_buffer_bytes + 4 };
    const struct copse_buffer_params wrapped = { .size = SIZE_MAX }, word = { .size = 4 };
    const struct copse_buffer_params crooked = { .size = 4096,
                                                 .host = (void *)((uintptr_t)&bytes | 1) };
    (void)user;
    REFUSED(out, ARGUMENT, opened, copse_device_open(NULL, id, NULL, &opened));
    REFUSED(out, ARGUMENT, opened, copse_device_open(ctx, NULL, NULL, &opened));
    REFUSED(out, ARGUMENT, opened, copse_device_open(ctx, id, &third, &opened));
    REFUSED_PLAIN(out, ARGUMENT, copse_device_open(ctx, id, NULL, NULL));
    REFUSED(out, COPSE_ERR_NO_DEVICE, opened, copse_device_open(ctx, "", NULL, &opened));
    REFUSED(out, COPSE_ERR_NO_DEVICE, opened, copse_device_open(ctx, "none:0", NULL, &opened));
    REFUSED(out, COPSE_ERR_NO_DEVICE, opened, copse_device_open(ctx, "host:99", NULL, &opened));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(NULL, id, ids, 1, &count));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(ctx, id, ids, 1, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(ctx, id, NULL, 1, &count));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(ctx, "host:0,", ids, 1, &count));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(ctx, "gpu", ids, 1, &count));
    REFUSED_PLAIN(out, ARGUMENT, copse_select_devices(ctx, "host:0,host:0", ids, 1, &count));
    REFUSED_PLAIN(out, COPSE_ERR_NO_DEVICE, copse_select_devices(ctx, "host:99", ids, 1, &count));
    REFUSED_PLAIN(out, ARGUMENT, copse_device_memory(NULL, &bytes, &bytes));
    REFUSED_PLAIN(out, ARGUMENT, copse_device_memory(dev, NULL, &bytes));
    REFUSED_PLAIN(out, ARGUMENT, copse_device_memory(dev, &bytes, NULL));
    REFUSED(out, ARGUMENT, buf, copse_buffer_create(NULL, &word, &buf));
    REFUSED(out, ARGUMENT, buf, copse_buffer_create(dev, NULL, &buf));
    REFUSED_PLAIN(out, ARGUMENT, copse_buffer_create(dev, &word, NULL));
    REFUSED(out, ARGUMENT, buf, copse_buffer_create(dev, &empty, &buf));
    REFUSED(out, ARGUMENT, buf, copse_buffer_create(dev, &huge, &buf));
    REFUSED(out, ARGUMENT, buf, copse_buffer_create(dev, &wrapped, &buf));
    REFUSED(out, dev->limits->host_import_alignment ? ARGUMENT : COPSE_ERR_UNSUPPORTED, buf,
            copse_buffer_create(dev, &crooked, &buf));
    REFUSED(out, ARGUMENT, q, copse_queue_create(NULL, &q));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_create(dev, NULL));
    if (bytes != 7 || count != 0)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "a refused call left a number");
    return COPSE_OK;
}

/* ---- queues ---- */

#define WORDS 256u

struct stage {
    copse_queue *q;
    copse_buffer *a, *b, *foreign;
    copse_device *other;
};

static void refuse_transfers(const struct stage *s, uint32_t *room,
                             struct copse_conform_outcome *out)
{
    copse_queue *q = s->q;
    copse_buffer *a = s->a, *b = s->b, *foreign = s->foreign;
    const size_t end = COPSE_WORD_BYTES * WORDS;
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(NULL, a, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, NULL, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, 0, NULL, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, 2, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, 0, room, 6));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, end, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, 4, room, end));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, a, 8, room, SIZE_MAX - 3));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_write(q, foreign, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(NULL, a, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(q, NULL, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(q, a, 0, NULL, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(q, a, 1, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(q, a, 4, room, end));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_read(q, foreign, 0, room, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_fill(NULL, a, 0, 4, 1));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_fill(q, NULL, 0, 4, 1));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_fill(q, a, 2, 4, 1));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_fill(q, a, 0, end + 4, 1));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_copy(NULL, a, 0, b, 0, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_copy(q, a, 0, NULL, 0, COPSE_WORD_BYTES));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_copy(q, a, 0, b, end - 4, 8));
    /* source and destination overlap */
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_copy(q, a, 0, a, 4, 8));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_copy(q, a, 0, foreign, 0, 8));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_submit(NULL, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_wait(NULL, 0, 0));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_wait(q, UINT64_MAX, 0));
    REFUSED_PLAIN(out, ARGUMENT, copse_queue_finish(NULL));
}

static copse_status check_transfers(struct copse_conform_run *r, struct stage *s,
                                    struct copse_conform_outcome *out)
{
    const struct copse_buffer_params how = { .size = COPSE_WORD_BYTES * WORDS };
    uint32_t image[WORDS], room[WORDS], got[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) {
        image[i] = i * 2654435761u;
        room[i] = ~i;
    }
    COPSE_TRY(copse_queue_create(r->dev, &s->q));
    COPSE_TRY(copse_buffer_create(r->dev, &how, &s->a));
    COPSE_TRY(copse_buffer_create(r->dev, &how, &s->b));
    COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, &s->other));
    COPSE_TRY(copse_buffer_create(s->other, &how, &s->foreign));
    COPSE_TRY(copse_queue_write(s->q, s->a, 0, image, sizeof image));
    COPSE_TRY(copse_queue_write(s->q, s->b, 0, image, sizeof image));
    refuse_transfers(s, room, out);
    for (int i = 0; i < 2; i++) {
        COPSE_TRY(copse_queue_read(s->q, i ? s->b : s->a, 0, got, sizeof got));
        COPSE_TRY(copse_queue_finish(s->q));
        if (memcmp(got, image, sizeof got) != 0)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "a refused call changed a buffer");
    }
    for (uint32_t i = 0; i < WORDS; i++)
        if (room[i] != ~i)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "a refused read wrote to the host");
    return COPSE_OK;
}

static copse_status mode_args_queues(struct copse_conform_run *r, void *user,
                                     struct copse_conform_outcome *out)
{
    struct stage s = { .q = NULL };
    (void)user;
    const copse_status status = check_transfers(r, &s, out);
    copse_buffer_release(&s.a);
    copse_buffer_release(&s.b);
    copse_buffer_release(&s.foreign);
    copse_queue_release(&s.q);
    copse_device_release(&s.other);
    return status;
}

/* ---- copse/tensor.h and copse/device/function.h ---- */

static copse_status check_functions(copse_device *dev, copse_graph *g, copse_graph *other,
                                    copse_function **made, struct copse_conform_outcome *out)
{
    copse_tensor *x, *y, *far, *label, *dx = NULL;
    copse_function *f = NULL;
    float values[4] = { 1, 2, 3, 4 };
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 2));
    label = copse_graph_input(g, "label", COPSE_I32, COPSE_SHAPE(2));
    far = copse_graph_input(other, "far", COPSE_F32, COPSE_SHAPE(2, 2));
    y = copse_neg(g, x);
    const copse_shape deep = { COPSE_MAX_RANK + 1, { 1 } };
    REFUSED_PLAIN(out, ARGUMENT, copse_graph_create(NULL, &g));
    REFUSED_PLAIN(out, ARGUMENT, copse_graph_create(dev->ctx, NULL));
    REFUSED_NODE(out, NULL, ARGUMENT, copse_graph_input(NULL, "x", COPSE_F32, COPSE_SCALAR));
    REFUSED_NODE(out, g, ARGUMENT, copse_graph_input(g, NULL, COPSE_F32, COPSE_SCALAR));
    REFUSED_NODE(out, g, ARGUMENT, copse_graph_input(g, "x", (copse_type)9, COPSE_SCALAR));
    REFUSED_NODE(out, g, ARGUMENT, copse_graph_input(g, "x", COPSE_F32, deep));
    REFUSED_NODE(out, g, COPSE_ERR_SHAPE,
                 copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(65536, 65536)));
    REFUSED_VOID(out, NULL, ARGUMENT, copse_gradients(NULL, y, x, &x, 1, &dx));
    REFUSED_VOID(out, g, ARGUMENT, copse_gradients(g, NULL, x, &x, 1, &dx));
    REFUSED_VOID(out, g, ARGUMENT, copse_gradients(g, far, x, &x, 1, &dx));
    REFUSED_VOID(out, g, ARGUMENT, copse_gradients(g, y, x, &far, 1, &dx));
    REFUSED_VOID(out, g, ARGUMENT, copse_gradients(g, y, x, NULL, 1, &dx));
    REFUSED_VOID(out, g, COPSE_ERR_SHAPE, copse_gradients(g, y, NULL, &x, 1, &dx));
    REFUSED_VOID(out, g, COPSE_ERR_SHAPE, copse_gradients(g, y, label, &x, 1, &dx));
    REFUSED_VOID(out, g, COPSE_ERR_SHAPE, copse_gradients(g, y, x, &label, 1, &dx));
    REFUSED_VOID(out, NULL, ARGUMENT, copse_report(NULL, "y", y));
    REFUSED_VOID(out, g, ARGUMENT, copse_report(g, NULL, y));
    REFUSED_VOID(out, g, COPSE_ERR_SHAPE, copse_report(g, "y", y));

    const struct copse_function_params good = { .graph = g, .outputs = &y, .output_count = 1 };
    struct copse_function_params p = good;
    REFUSED(out, ARGUMENT, f, copse_function_create(NULL, &good, &f));
    REFUSED(out, ARGUMENT, f, copse_function_create(dev, NULL, &f));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_create(dev, &good, NULL));
    p.graph = NULL;
    REFUSED(out, ARGUMENT, f, copse_function_create(dev, &p, &f));
    p = good;
    p.output_count = 0;
    REFUSED(out, ARGUMENT, f, copse_function_create(dev, &p, &f));
    p.output_count = 65;
    REFUSED(out, ARGUMENT, f, copse_function_create(dev, &p, &f));
    p = good;
    p.outputs = &far;
    REFUSED(out, ARGUMENT, f, copse_function_create(dev, &p, &f));
    COPSE_TRY(copse_function_create(dev, &good, made));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_write(NULL, x, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_write(*made, NULL, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_write(*made, x, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_write(*made, y, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_run(NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_wait(NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_read(NULL, 0, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_read(*made, 1, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_function_read(*made, 0, NULL));
    if (values[0] != 1 || values[3] != 4)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "a refused read wrote to the host");
    COPSE_TRY(copse_function_write(*made, x, values)); /* the refused calls had no effect */
    COPSE_TRY(copse_function_run(*made));
    COPSE_TRY(copse_function_read(*made, 0, values));
    if (values[0] != -1 || values[3] != -4)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "after refused calls a function is wrong");
    return COPSE_OK;
}

static copse_status mode_args_functions(struct copse_conform_run *r, void *user,
                                        struct copse_conform_outcome *out)
{
    copse_graph *g = NULL, *other = NULL;
    copse_function *f = NULL;
    (void)user;
    copse_status s = copse_graph_create(r->ctx, &g);
    if (!s)
        s = copse_graph_create(r->ctx, &other);
    if (!s)
        s = check_functions(r->dev, g, other, &f, out);
    copse_function_release(&f);
    copse_graph_release(&other);
    copse_graph_release(&g);
    return s;
}

/* ---- copse/strategy.h and copse/trainer.h ---- */

static copse_tensor *mode_args_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *v = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_mul(g, x, copse_variable_tensor(*v));
    return copse_mean(g, y, NULL, 0, false);
}

static void refuse_variables(copse_strategy *st, copse_variable *v,
                             struct copse_conform_outcome *out)
{
    copse_variable *none = NULL;
    struct copse_variable_params p = { .name = "w", .shape = COPSE_SHAPE(2) };
    float values[2] = { 7, 7 };
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, &p, &none)); /* the name is taken */
    p.name = "";
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, &p, &none));
    p.name = "u";
    REFUSED(out, ARGUMENT, none, copse_variable_create(NULL, &p, &none));
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, NULL, &none));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_create(st, &p, NULL));
    p.shape = COPSE_SHAPE(2, 0);
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, &p, &none));
    p.shape = (copse_shape){ COPSE_MAX_RANK + 1, { 1 } };
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, &p, &none));
    p.shape = COPSE_SHAPE(2);
    p.initializer = (copse_initializer)99;
    REFUSED(out, ARGUMENT, none, copse_variable_create(st, &p, &none));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_read(NULL, 0, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_read(v, 1, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_read(v, 0, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_assign(NULL, values));
    REFUSED_PLAIN(out, ARGUMENT, copse_variable_assign(v, NULL));
    if (values[0] != 7 || values[1] != 7)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "a refused read wrote to the host");
}

static void refuse_trainers(copse_strategy *st, const struct copse_trainer_params *good,
                            struct copse_conform_outcome *out)
{
    copse_trainer *t = NULL;
    struct copse_trainer_params p = *good;
    REFUSED(out, ARGUMENT, t, copse_trainer_create(NULL, good, &t));
    REFUSED(out, ARGUMENT, t, copse_trainer_create(st, NULL, &t));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_create(st, good, NULL));
    p.loss = NULL;
    REFUSED(out, ARGUMENT, t, copse_trainer_create(st, &p, &t));
    p = *good;
    p.optimizer.learning_rate = -1.0f;
    REFUSED(out, ARGUMENT, t, copse_trainer_create(st, &p, &t));
    p.optimizer.learning_rate = NAN;
    REFUSED(out, ARGUMENT, t, copse_trainer_create(st, &p, &t));
}

/* Batches of one example with wrong inputs. */
static void refuse_inputs(copse_trainer *t, const struct copse_column *good,
                          struct copse_conform_outcome *out)
{
    struct copse_column c[COPSE_MAX_INPUTS + 1] = { *good, *good };
    struct copse_host_batch b = { .columns = c, .count = 1 };
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    b.column_count = COPSE_MAX_INPUTS + 1;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    b.column_count = 2; /* both are "x" */
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    b.column_count = 1;
    c[0].name = "z";
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    c[0].name = "";
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    c[0].name = NULL;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    c[0] = *good;
    c[0].shape.rank = COPSE_MAX_RANK;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    c[0] = *good;
    c[0].type = (copse_type)99;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    c[0] = *good;
    c[0].data = NULL;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
    b.columns = NULL;
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(t, &b));
}

static copse_status check_training(copse_strategy *st, copse_trainer **t,
                                   struct copse_conform_outcome *out)
{
    const float x[2] = { 1, 2 };
    const struct copse_column good_x = { "x", COPSE_F32, COPSE_SHAPE(2), x };
    const struct copse_host_batch one = { .columns = &good_x, .column_count = 1, .count = 1 };
    const struct copse_host_batch none = { .columns = &good_x, .column_count = 1, .count = 0 };
    struct copse_step_result result;
    copse_variable *w;
    const struct copse_variable_params p = { .name = "w", .shape = COPSE_SHAPE(2) };
    COPSE_TRY(copse_variable_create(st, &p, &w));
    const struct copse_trainer_params good = { .loss = mode_args_loss, .user = &w };
    refuse_variables(st, w, out);
    refuse_trainers(st, &good, out);
    COPSE_TRY(copse_trainer_create(st, &good, t));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(NULL, &one));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(*t, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_step(*t, &none));
    refuse_inputs(*t, &good_x, out);
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_evaluate(NULL, &one, &result));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_evaluate(*t, NULL, &result));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_evaluate(*t, &one, NULL));
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_result(NULL, true, &result));
    REFUSED_PLAIN(out, COPSE_ERR_END, copse_trainer_result(*t, true, &result));
    COPSE_TRY(copse_trainer_step(*t, &one)); /* the refused calls had no effect */
    REFUSED_PLAIN(out, ARGUMENT, copse_trainer_result(*t, true, NULL));
    return copse_trainer_result(*t, true, &result);
}

static copse_status mode_args_training(struct copse_conform_run *r, void *user,
                                       struct copse_conform_outcome *out)
{
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    char own[32];
    const char *ids[] = { own }, *bad[] = { "none:0" };
    static const char *const kernels[] = {
        "",
        "matmul",
        "matmul=",
        "matmul=none",
        "none=wide",
        "matmul=wide,",
        "matmul=wide,matmul=wide",
        "a family with a name that is much longer than others=wide"
    };
    (void)user;
    memcpy(own, r->dev->info.id, sizeof own);
    REFUSED(out, ARGUMENT, st, copse_mirrored_create(NULL, ids, 1, NULL, &st));
    REFUSED(out, ARGUMENT, st, copse_mirrored_create(r->ctx, NULL, 1, NULL, &st));
    REFUSED(out, ARGUMENT, st, copse_mirrored_create(r->ctx, ids, 0, NULL, &st));
    REFUSED(out, ARGUMENT, st, copse_mirrored_create(r->ctx, ids, 65, NULL, &st));
    REFUSED_PLAIN(out, ARGUMENT, copse_mirrored_create(r->ctx, ids, 1, NULL, NULL));
    REFUSED(out, COPSE_ERR_NO_DEVICE, st, copse_mirrored_create(r->ctx, bad, 1, NULL, &st));
    REFUSED(out, COPSE_ERR_NO_DEVICE, st, copse_one_device_create(r->ctx, "", NULL, &st));
    REFUSED(out, ARGUMENT, st, copse_one_device_create(r->ctx, NULL, NULL, &st));
    for (size_t i = 0; i < COPSE_COUNT(kernels); i++) {
        const struct copse_strategy_params p = { .kernels = kernels[i] };
        REFUSED(out, ARGUMENT, st, copse_one_device_create(r->ctx, own, &p, &st));
    }
    copse_status s = copse_one_device_create(r->ctx, own, NULL, &st);
    if (!s)
        s = check_training(st, &t, out);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return s;
}

copse_status copse__conform_args(struct copse_conform_run *r)
{
    static const struct {
        const char *op, *name;
        copse_conform_fn *run;
    } cases[] = { { "device", "opening, memory, buffers", mode_args_devices },
                  { "queue", "transfers and waits", mode_args_queues },
                  { "function", "graphs and functions", mode_args_functions },
                  { "train", "strategies, variables, trainers", mode_args_training } };
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        copse__conform_one(r,
                           &(struct copse_conform_case){ "args", cases[i].op, cases[i].name, NULL },
                           cases[i].run, NULL);
    copse__args_ops(r);
    return COPSE_OK;
}
