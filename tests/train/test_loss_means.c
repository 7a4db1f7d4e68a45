/* SPDX-License-Identifier: MIT */
/* Means over the weights of examples: several replicas with unequal shards take the step of one
   replica with the whole batch. */
#include "copse/ops/losses.h"
#include "tests/rig/train/step_rig.h"

enum { ROWS = 10, CLASSES = 3 };

struct model {
    copse_variable *w;
    struct copse_cross_entropy_params params;
    const float *class_weights; /* or NULL */
};

/* Logits x w, labels from the first column. */
static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    struct copse_cross_entropy_params p = m->params;
    copse_tensor *x = rig_x(in), *labels, *logits;
    const uint32_t rows = copse_tensor_shape(x).dims[0];
    const uint32_t start[2] = { 0, 0 }, size[2] = { rows, 1 };
    labels = copse_slice(g, x, start, size);
    labels = copse_reshape(g, labels, COPSE_SHAPE(rows));
    labels = copse_cast(g, labels, COPSE_I32);
    logits = copse_matmul(g, x, copse_variable_tensor(m->w), false, false);
    if (m->class_weights)
        p.class_weights = copse_constant(g, COPSE_F32, COPSE_SHAPE(CLASSES), m->class_weights);
    return copse_cross_entropy(g, logits, labels, &p);
}

static double step_of(size_t replicas, const struct model *like, size_t rows, float *after)
{
    static const float start[CLASSES * CLASSES] = { 0.5f, -0.25f, 0.125f, 1, -1,
                                                    0.5f, -0.75f, 0.25f,  1 };
    static float x[ROWS * CLASSES];
    for (int i = 0; i < ROWS * CLASSES; i++)
        x[i] = i % CLASSES == 0 ? (float)(i / CLASSES % 3) : sinf((float)(i * i));
    copse_strategy *st = rig_strategy(replicas, NULL);
    struct model m = *like;
    struct copse_step_result r;
    copse_trainer *t;
    m.w = rig_variable(st, "w", COPSE_SHAPE(CLASSES, CLASSES), start);
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = loss_of, .user = &m, .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } },
        &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(CLASSES, x), .count = rows }));
    OK(copse_trainer_result(t, true, &r));
    OK(copse_variable_read(m.w, 0, after));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return r.loss;
}

static void replicas_take_the_step_of_one(const struct model *m)
{
    static const size_t rows[] = { 10, 7, 2 }; /* with an example for some replicas only */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float one[CLASSES * CLASSES], many[CLASSES * CLASSES];
        const double loss = step_of(1, m, rows[i], one);
        for (size_t n = 2; n <= 3; n++) {
            rig_near(step_of(n, m, rows[i], many), loss, 1e-5);
            for (int k = 0; k < CLASSES * CLASSES; k++)
                rig_near((double)many[k], (double)one[k], 1e-5);
        }
    }
}

static void means_are_over_the_weights_of_the_global_batch(void **state)
{
    static const float weights[] = { 0.125f, 3, 1 };
    (void)state;
    replicas_take_the_step_of_one(&(struct model){ .class_weights = weights });
    replicas_take_the_step_of_one(&(struct model){
        .class_weights = weights,
        .params = { .label_smoothing = 0.25f, .ignores = true, .ignored_label = 1 } });
}

static void ignored_examples_count_nothing_on_any_replica(void **state)
{
    (void)state;
    replicas_take_the_step_of_one(
        &(struct model){ .params = { .ignores = true, .ignored_label = 0 } });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_over_the_weights_of_the_global_batch),
        cmocka_unit_test(ignored_examples_count_nothing_on_any_replica)
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
