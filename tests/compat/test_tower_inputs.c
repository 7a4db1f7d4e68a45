/* SPDX-License-Identifier: MIT */
/* Tower optimizers: inputs by name and of every type, derivatives that begin with given ones,
   updates and outputs of a loss function. */
#include <math.h>

#include "copse/ops/functions.h"
#include "copse/train/update.h"
#include "tests/rig/train/tower_rig.h"

struct task {
    copse_variable *w, *seen;
    copse_tower_optimizer *t;
    copse_value *x, *y, *grad_loss;
    copse_loss_fn *loss;
    struct copse_tower_gradient pair;
    copse_value *result;
};

static copse_value *array(copse_type type, uint32_t count, const void *values)
{
    copse_value *v;
    OK(copse_value_create(ctx, type, COPSE_SHAPE(count), values, &v));
    return v;
}

/* On every replica the loss and the gradient by w. */
static copse_status compute(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    struct task *k = user;
    const struct copse_tower_loss of = { k->loss, k, k->x, k->y, k->grad_loss };
    struct copse_tower_gradient pair = { NULL, k->w };
    copse_value *loss;
    (void)rc, (void)args, (void)count;
    COPSE_TRY(copse_tower_compute(k->t, &of, &pair, 1, &loss));
    copse_value *const both[] = { loss, pair.gradient };
    const copse_status s = copse_value_list(ctx, both, 2, result);
    copse_value_release(&loss);
    copse_value_release(&pair.gradient);
    return s;
}

static copse_status run(copse_strategy *st, struct task *k)
{
    copse_value_release(&k->result);
    return copse_strategy_run(st, compute, NULL, 0, k, &k->result);
}

/* Element `i` of what replica r has; item 0: the loss, 1: the gradient. */
static float element(const struct task *k, size_t item, uint32_t r, size_t i)
{
    copse_value *local[MAX_RANKS];
    float x[8];
    size_t count;
    copse_local_results(copse_value_item(k->result, item), local, MAX_RANKS, &count);
    OK(copse_value_read(local[r], x));
    return x[i];
}

static void begin_task(struct task *k, copse_strategy *st, copse_loss_fn *loss)
{
    static const float w[] = { 1, 2, 3 };
    *k = (struct task){ .w = make(st, COPSE_SHAPE(3), w), .loss = loss };
    k->t = optimizer(st, COPSE_SGD, 1);
}

static void end_task(struct task *k)
{
    copse_value_release(&k->x);
    copse_value_release(&k->y);
    copse_value_release(&k->grad_loss);
    copse_value_release(&k->result);
    copse_tower_release(&k->t);
}

/* ---- names and types ---- */

/* The sum of w[token] mask / 255 + y. */
static copse_tensor *of_tokens(copse_graph *g, const copse_batch *in, void *user)
{
    const struct task *k = user;
    copse_tensor *mask = copse_cast(g, copse_input(in, "mask.0"), COPSE_F32);
    copse_tensor *rows = copse_gather(g, copse_variable_tensor(k->w), copse_input(in, "token"));
    copse_tensor *weighted = copse_mul(g, rows, copse_mul(g, mask, copse_scalar(g, 1.0 / 255)));
    copse_tensor *labels = copse_cast(g, copse_input(in, "y"), COPSE_F32);
    return copse_sum(g, copse_add(g, weighted, labels), NULL, 0, false);
}

static void inputs_have_names_and_types(void **unused)
{
    static const int32_t tokens[] = { 2, 0, 2, 1 }, labels[] = { 10, 20, 30, -40 };
    static const uint8_t mask[] = { 255, 51, 0, 255 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct task k;
        copse_value *masks, *items[2];
        begin_task(&k, st, of_tokens);
        items[0] = array(COPSE_I32, 4, tokens);
        masks = array(COPSE_U8, 4, mask);
        OK(copse_value_list(ctx, &masks, 1, &items[1]));
        OK(copse_value_dict(ctx, (const char *const[]){ "token", "mask" }, items, 2, &k.x));
        k.y = array(COPSE_I32, 4, labels);
        OK(run(st, &k));
        const float want[] = { 0.2f, 1, 1 }; /* 51 / 255, and 255 / 255 of token 1 and of token 2 */
        for (uint32_t r = 0; r < n; r++) {
            assert_true(fabsf(element(&k, 0, r, 0) - (3 + 0.2f + 2 + 20)) < 1e-5f);
            for (size_t i = 0; i < 3; i++)
                assert_true(fabsf(element(&k, 1, r, i) - want[i] / (float)n) < 1e-6f);
        }
        for (int i = 0; i < 2; i++)
            copse_value_release(&items[i]);
        copse_value_release(&masks);
        end_task(&k);
    }
}

/* ---- the derivative of what follows ---- */

static copse_tensor *cubes(copse_graph *g, const copse_batch *in, void *user)
{
    const struct task *k = user;
    copse_tensor *w = copse_variable_tensor(k->w);
    return copse_mul(g, copse_mul(g, w, w), copse_mul(g, w, copse_input(in, "x")));
}

static void derivatives_begin_with_those_given(void **unused)
{
    static const float ones[] = { 1, 1, 1 }, from[] = { 1, -2, INFINITY };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct task k;
        begin_task(&k, st, cubes);
        k.x = row(ones, 3);
        k.grad_loss = row(from, 3);
        OK(run(st, &k));
        for (uint32_t r = 0; r < n; r++) {
            assert_true(element(&k, 0, r, 2) == 27); /* the loss is not scaled */
            assert_true(fabsf(element(&k, 1, r, 0) - 3 / (float)n) < 1e-5f);
            assert_true(fabsf(element(&k, 1, r, 1) + 24 / (float)n) < 1e-5f);
            assert_true(element(&k, 1, r, 2) == INFINITY);
        }
        /* without it, and with one of another shape, or of a structure */
        copse_value_release(&k.grad_loss);
        FAILS(COPSE_ERR_SHAPE, run(st, &k), "the loss must be an f32 scalar");
        k.grad_loss = row(from, 2);
        FAILS(COPSE_ERR_SHAPE, run(st, &k), "grad_loss");
        copse_value *one = k.grad_loss;
        OK(copse_value_list(ctx, &one, 1, &k.grad_loss));
        copse_value_release(&one);
        FAILS(COPSE_ERR_ARGUMENT, run(st, &k), "grad_loss must be an array");
        end_task(&k);
    }
}

/* Sets an output and returns no tensor. */
static copse_tensor *set_output(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_output(g, "y", copse_input(in, "x"));
    return NULL;
}

static void functions_without_a_loss_are_refused(void **unused)
{
    static const float ones[] = { 1, 1, 1 };
    static const int32_t whole[] = { 1, 1, 1 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct task k;
        begin_task(&k, st, set_output);
        k.x = row(ones, 3);
        FAILS(COPSE_ERR_ARGUMENT, run(st, &k), "returned no tensor");
        k.grad_loss = row(ones, 3);
        FAILS(COPSE_ERR_ARGUMENT, run(st, &k), "returned no tensor");
        copse_value_release(&k.grad_loss);
        k.loss = cubes;
        k.grad_loss = array(COPSE_I32, 3, whole);
        FAILS(COPSE_ERR_SHAPE, run(st, &k), "(grad_loss) is i32");
        end_task(&k);
        (void)n;
    }
}

static void two_inputs_of_one_name_are_refused(void **unused)
{
    static const float ones[] = { 1, 1, 1 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct task k;
        copse_value *one = row(ones, 3);
        begin_task(&k, st, cubes);
        k.x = row(ones, 3);
        OK(copse_value_dict(ctx, (const char *const[]){ "x" }, &one, 1, &k.y));
        copse_value_release(&one);
        FAILS(COPSE_ERR_ARGUMENT, run(st, &k), "both named 'x'");
        end_task(&k);
        (void)n;
    }
}

/* ---- updates and outputs ---- */

static copse_tensor *counted(copse_graph *g, const copse_batch *in, void *user)
{
    const struct task *k = user;
    copse_tensor *seen = copse_variable_tensor(k->seen), *x = copse_input(in, "x");
    copse_update(g, k->seen, copse_add(g, seen, copse_sum(g, x, NULL, 0, false)));
    copse_tensor *y = copse_mul(g, copse_variable_tensor(k->w), x);
    if (in->is_training)
        return copse_sum(g, y, NULL, 0, false);
    copse_output(g, "y", y);
    copse_output(g, "x", x);
    return NULL;
}

static copse_status forward(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    struct task *k = user;
    const struct copse_tower_loss of = { .loss = k->loss, .user = k, .x = k->x };
    (void)rc, (void)args, (void)count;
    return copse_tower_forward(k->t, &of, result);
}

static void updates_are_assigned_and_outputs_given(void **unused)
{
    static const float x[] = { 1, 2, 4 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct task k;
        copse_value *outputs, *local[MAX_RANKS];
        size_t count;
        float y[3];
        begin_task(&k, st, counted);
        const struct copse_variable_params local_sum = { .name = fresh("tower"),
                                                         .synchronization = COPSE_SYNC_ON_READ,
                                                         .aggregation = COPSE_AGGREGATION_SUM };
        OK(copse_variable_create(st, &local_sum, &k.seen));
        k.x = row(x, 3);
        OK(run(st, &k));
        OK(run(st, &k));
        OK(copse_strategy_run(st, forward, NULL, 0, &k, &outputs));
        for (uint32_t r = 0; r < n; r++)
            assert_true(component(k.seen, r) == 21);
        copse_local_results(copse_value_find(outputs, "y"), local, MAX_RANKS, &count);
        OK(copse_value_read(local[n - 1], y));
        for (size_t i = 0; i < 3; i++)
            assert_true(y[i] == (float)(i + 1) * x[i]);
        copse_value_release(&outputs);
        end_task(&k);
    }
}

/* ---- the reduction ---- */

struct seen {
    struct task k;
    copse_loss_reduction model, loss;
};

static copse_tensor *seeing(copse_graph *g, const copse_batch *in, void *user)
{
    struct seen *s = user;
    s->loss = copse_current_loss_reduction();
    return copse_sum(g, cubes(g, in, &s->k), NULL, 0, false);
}

static copse_status seeing_model(copse_replica_context *rc, const struct copse_model_call *call,
                                 struct copse_model_spec *spec)
{
    struct seen *s = call->user;
    const struct copse_tower_loss of = { .loss = seeing, .user = s, .x = s->k.x };
    (void)rc;
    s->model = copse_current_loss_reduction();
    return copse_tower_minimize(s->k.t, &of, &s->k.w, 1, false, &spec->loss);
}

/* The second run records its loss function anew: the graph may depend on the reduction. */
static void functions_see_the_reduction_of_the_model(void **unused)
{
    static const float x[] = { 1, 1, 1 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct seen s;
        struct copse_replicated_result result;
        begin_task(&s.k, st, NULL);
        s.k.x = row(x, 3);
        for (int k = 0; k < 2; k++) {
            const copse_loss_reduction given = k ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN;
            const struct copse_replicated_params p = { seeing_model, &s, given };
            s.model = s.loss = k ? COPSE_LOSS_MEAN : COPSE_LOSS_SUM;
            OK(copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, NULL, NULL, &result));
            assert_int_equal(s.model, given);
            assert_int_equal(s.loss, given);
            assert_int_equal(copse_current_loss_reduction(), COPSE_LOSS_SUM);
        }
        end_task(&s.k);
        (void)n;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_have_names_and_types),
        cmocka_unit_test(derivatives_begin_with_those_given),
        cmocka_unit_test(functions_without_a_loss_are_refused),
        cmocka_unit_test(two_inputs_of_one_name_are_refused),
        cmocka_unit_test(updates_are_assigned_and_outputs_given),
        cmocka_unit_test(functions_see_the_reduction_of_the_model),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
