/* SPDX-License-Identifier: MIT */
/* A network of layers computes the same bits as the same network written by hand: losses, reports
   and all variables after 40 steps, on every device that is found, with one and with three
   replicas. */
#include "core/base/base.h"
#include "core/base/random.h"
#include "tests/rig/found.h"
#include "tests/rig/one_context.h"

enum { ROWS = 192, SIDE = 6, INPUTS = SIDE * SIDE, WIDE = 24, CLASSES = 5, BATCH = 48, STEPS = 40 };

static float pixels[ROWS * INPUTS];
static int32_t labels[ROWS];

static void make_data(void)
{
    struct copse_stream s;
    copse__stream_init(&s, 8, 0);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (int32_t)copse__stream_below(&s, CLASSES);
        for (int k = 0; k < INPUTS; k++)
            pixels[i * INPUTS + k] =
                copse__stream_normal(&s) + (k % CLASSES == labels[i] ? 1.0f : 0.0f);
    }
}

static struct copse_host_batch batch_of(int step)
{
    const size_t first = (size_t)(step % (ROWS / BATCH)) * BATCH;
    return rig_kept((struct copse_host_batch){
        COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(SIDE, SIDE), pixels + first * INPUTS },
                      { "y", COPSE_I32, COPSE_SCALAR, labels + first }),
        .count = BATCH, .first = first });
}

static copse_tensor *end(copse_graph *g, copse_tensor *logits, copse_tensor *y)
{
    copse_tensor *guess = copse_argmax(g, logits, 1);
    copse_tensor *is_right = copse_equal(g, guess, y);
    copse_tensor *accuracy = copse_mean(g, is_right, NULL, 0, false);
    copse_report(g, "accuracy", accuracy);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

/* ---- with layers ---- */

static const char description[] =
    "flatten; dense 24 relu; dropout 0.2; residual { dense 24 gelu; dense 24 bias=no }; "
    "layer_norm; dense 24 tanh; dense out";

static copse_tensor *layers_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *logits = copse_layer_apply(user, g, in, x);
    return end(g, logits, y);
}

/* ---- by hand ---- */

struct hand {
    copse_tensor *w[5], *b[5], *scale, *offset;
};

static copse_status variable(copse_strategy *st, const char *name, copse_shape shape,
                             copse_initializer initializer, copse_tensor **out)
{
    copse_variable *v;
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){
            .name = name, .shape = shape, .seed = 9, .initializer = initializer },
        &v));
    *out = copse_variable_tensor(v);
    return COPSE_OK;
}

static copse_status make_hand(copse_strategy *st, struct hand *m)
{
    const copse_shape square = COPSE_SHAPE(WIDE, WIDE), wide = COPSE_SHAPE(WIDE);
    COPSE_TRY(
        variable(st, "dense1.weight", COPSE_SHAPE(INPUTS, WIDE), COPSE_INIT_HE_NORMAL, &m->w[0]));
    COPSE_TRY(variable(st, "dense1.bias", wide, COPSE_INIT_ZEROS, &m->b[0]));
    COPSE_TRY(variable(st, "dense2.weight", square, COPSE_INIT_HE_NORMAL, &m->w[1]));
    COPSE_TRY(variable(st, "dense2.bias", wide, COPSE_INIT_ZEROS, &m->b[1]));
    COPSE_TRY(variable(st, "dense3.weight", square, COPSE_INIT_GLOROT_UNIFORM, &m->w[2]));
    COPSE_TRY(variable(st, "layer_norm1.scale", wide, COPSE_INIT_ONES, &m->scale));
    COPSE_TRY(variable(st, "layer_norm1.offset", wide, COPSE_INIT_ZEROS, &m->offset));
    COPSE_TRY(variable(st, "dense4.weight", square, COPSE_INIT_GLOROT_UNIFORM, &m->w[3]));
    COPSE_TRY(variable(st, "dense4.bias", wide, COPSE_INIT_ZEROS, &m->b[3]));
    COPSE_TRY(variable(st, "dense5.weight", COPSE_SHAPE(WIDE, CLASSES), COPSE_INIT_GLOROT_UNIFORM,
                       &m->w[4]));
    return variable(st, "dense5.bias", COPSE_SHAPE(CLASSES), COPSE_INIT_ZEROS, &m->b[4]);
}

static copse_tensor *hand_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct hand *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *h = copse_reshape(g, x, COPSE_SHAPE(copse_tensor_shape(x).dims[0], INPUTS));
    h = copse_dense(g, h, m->w[0], m->b[0], COPSE_RELU);
    h = copse_dropout(g, h, 0.2f, in->is_training);
    copse_tensor *inner = copse_dense(g, h, m->w[1], m->b[1], COPSE_GELU);
    inner = copse_dense(g, inner, m->w[2], NULL, COPSE_LINEAR);
    h = copse_add(g, h, inner);
    h = copse_layer_norm(g, h, m->scale, m->offset, 1e-5f);
    h = copse_dense(g, h, m->w[3], m->b[3], COPSE_TANH);
    h = copse_dense(g, h, m->w[4], m->b[4], COPSE_LINEAR);
    return end(g, h, y);
}

/* ---- both ---- */

struct run {
    double results[STEPS][2], evaluated[2];
    float values[8192];
    size_t count;
};

static void train(copse_strategy *st, copse_loss_fn *fn, void *user, struct run *out)
{
    copse_variable *const *list;
    struct copse_step_result r;
    copse_trainer *t;
    size_t count;
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = fn, .user = user, .seed = 4, .optimizer = { .learning_rate = 0.01f } },
        &t));
    for (int i = 0; i < STEPS; i++) {
        const struct copse_host_batch b = batch_of(i);
        OK(copse_trainer_step(t, &b));
        OK(copse_trainer_result(t, true, &r));
        out->results[i][0] = r.loss;
        out->results[i][1] = r.reports[0];
    }
    const struct copse_host_batch b = batch_of(0);
    OK(copse_trainer_evaluate(t, &b, &r));
    out->evaluated[0] = r.loss;
    out->evaluated[1] = r.reports[0];
    copse_strategy_variables(st, &list, &count);
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        const copse_shape s = copse_variable_shape(list[i]);
        OK(copse_variable_read(list[i], 0, out->values + out->count));
        out->count += (size_t)s.dims[0] * (s.rank > 1 ? s.dims[1] : 1);
        assert_true(out->count < COPSE_COUNT(out->values));
    }
    copse_trainer_release(&t);
}

static void same_on(const char *const *ids, size_t count)
{
    static struct run by_hand, by_layers;
    struct hand m;
    copse_strategy *st;
    copse_layer *l;
    memset(&by_hand, 0, sizeof by_hand);
    memset(&by_layers, 0, sizeof by_layers);
    OK(copse_mirrored_create(ctx, ids, count, NULL, &st));
    OK(make_hand(st, &m));
    train(st, hand_loss, &m, &by_hand);
    copse_strategy_release(&st);

    OK(copse_mirrored_create(ctx, ids, count, NULL, &st));
    OK(copse_nn_parse(ctx, description, &l));
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){
                             .shape = COPSE_SHAPE(SIDE, SIDE), .outputs = CLASSES, .seed = 9 }));
    train(st, layers_loss, l, &by_layers);
    copse_layer_release(&l);
    copse_strategy_release(&st);

    printf("%s, %zu: loss %.6f -> %.6f, accuracy %.3f\n", ids[0], count, by_layers.results[0][0],
           by_layers.results[STEPS - 1][0], by_layers.evaluated[1]);
    assert_int_equal(by_hand.count, by_layers.count);
    assert_memory_equal(&by_hand, &by_layers, sizeof by_hand);
    assert_true(by_layers.results[STEPS - 1][0] < 0.7 * by_layers.results[0][0]); /* it learns */
}

static void layers_and_hand_written_ops_give_the_same_bits(void **state)
{
    (void)state;
    const char *three[3];
    make_data();
    find_devices(ctx);
    for (uint32_t i = 0; i < found_count; i++)
        same_on(&found[i], 1);
    for (uint32_t i = 0; i < 3; i++)
        three[i] = found[i % found_count];
    same_on(three, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        layers_and_hand_written_ops_give_the_same_bits) };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
