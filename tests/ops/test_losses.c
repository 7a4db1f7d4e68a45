/* SPDX-License-Identifier: MIT */
/* Losses and their derivatives against the numbers of PyTorch 1.13 in double precision, in the
   reference and on every device found. Where a loss is not averaged, the derivatives 1, 2, 3, ...
   come from above. */
#include <math.h>

#include "copse/ops/losses.h"
#include "tests/rig/conformance/op_harness.h"
#include "tests/rig/graph_rig.h"

enum { X, LABELS, TARGETS, SHARES, INPUTS, MANY = 12 };

typedef copse_tensor *build_fn(copse_graph *g, copse_tensor *const *in, copse_tensor *weights);

static copse_tensor *smooth(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_cross_entropy(g, in[X], in[LABELS],
                               &(struct copse_cross_entropy_params){ .label_smoothing = 0.1f });
}

static copse_tensor *everything(copse_graph *g, copse_tensor *const *in, copse_tensor *weights,
                                copse_averaging averaging)
{
    return copse_cross_entropy(
        g, in[X], in[LABELS],
        &(struct copse_cross_entropy_params){ averaging, 0.1f, weights, true, -100, { 0 } });
}

static copse_tensor *all_mean(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    return everything(g, in, weights, COPSE_MEAN);
}

static copse_tensor *all_sum(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    return everything(g, in, weights, COPSE_SUM);
}

static copse_tensor *all_each(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    return everything(g, in, weights, COPSE_EACH);
}

static copse_tensor *ignored(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_cross_entropy(
        g, in[X], in[LABELS],
        &(struct copse_cross_entropy_params){ .ignores = true, .ignored_label = -100 });
}

static copse_tensor *binary(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_binary_cross_entropy(g, in[X], in[TARGETS], NULL, COPSE_MEAN);
}

static copse_tensor *binary_weighted(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    return copse_binary_cross_entropy(g, in[X], in[TARGETS], weights, COPSE_EACH);
}

static copse_tensor *huber(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_huber_loss(g, in[X], in[TARGETS], 0.75f, COPSE_MEAN);
}

static copse_tensor *smooth_l1(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_smooth_l1_loss(g, in[X], in[TARGETS], 0.5f, COPSE_SUM);
}

static copse_tensor *divergence(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    copse_tensor *log_q = copse_log_softmax(g, in[X]);
    return copse_kl_divergence(g, log_q, in[SHARES], COPSE_MEAN);
}

static copse_tensor *cosine(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    (void)weights;
    return copse_cosine_similarity(g, in[X], in[SHARES]);
}

/* Labels 1, -1, 1 of the classes 1, 3, 1. */
static copse_tensor *embedding(copse_graph *g, copse_tensor *const *in, copse_tensor *weights)
{
    static const int32_t labels[] = { 1, -1, 1 };
    (void)weights;
    copse_tensor *t = copse_constant(g, COPSE_I32, COPSE_SHAPE(3), labels);
    return copse_cosine_embedding_loss(g, in[X], in[SHARES], t, 0.1f, COPSE_MEAN);
}

static const struct loss {
    const char *name;
    build_fn *build;
    double last_label;
    double value[MANY], slope[MANY];
} losses[] = {
    { "cross-entropy, smoothing",
      smooth,
      0,
      { 2.53804274 },
      { 0.0397009471, -0.299986227, 0.206941376, 0.0533439036, 0.0227345711, 0.221229155,
        0.0574374208, -0.301401147, -0.0313491132, 0.0291524046, -0.00326019038, 0.00545689897 } },
    { "cross-entropy, all settings, mean",
      all_mean,
      -100,
      { 3.53783326 },
      { 0.0756851341, -0.514798703, 0.348060414, 0.0910531553, 0.0357072791, 0.27594686,
        0.0760101677, -0.387664307 } },
    { "cross-entropy, all settings, sum",
      all_sum,
      -100,
      { 12.3824164 },
      { 0.26489797, -1.80179546, 1.21821145, 0.318686043, 0.124975477, 0.965814011, 0.266035587,
        -1.35682507 } },
    { "cross-entropy, all settings, each",
      all_each,
      -100,
      { 6.91978901, 5.46262738, 0 },
      { 0.26489797, -1.80179546, 1.21821145, 0.318686043, 0.249950954, 1.93162802, 0.532071174,
        -2.71365015 } },
    { "cross-entropy, ignored",
      ignored,
      -100,
      { 3.78009789 },
      { 0.0720514206, -0.487479341, 0.322912064, 0.0925158554, 0.0466018566, 0.344343733,
        0.0986561311, -0.48960172 } },
    { "binary cross-entropy",
      binary,
      0,
      { 1.34261839 },
      { 0.0518716109, -0.0647749884, 0.0525664232, 0.0149315583, -0.0518716109, 0.0681312063,
        -0.0364852916, -0.0525664232, 0.0793811772, 0.0609215482, -0.0609215482, -0.0416666667 } },
    { "binary cross-entropy, weights",
      binary_weighted,
      0,
      { 0.974076984, 3.00385816, 1.62692801, 0.858588758, 0.487038492, 1.70141328, 0.57593942,
        2.42452602, 3.04858735, 1.31326169, 1.31326169, 1.03972077 },
      { 0.622459331, -3.10919944, 1.89239123, 0.395893496, -1.55614833, 4.90544686, -3.06476449,
        -7.68876786, 8.57316714, 7.31058579, -8.04164436, -9 } },
    { "Huber's loss",
      huber,
      0,
      { 0.872395833 },
      { 0.0416666667, -0.0625, 0.0625, 0.0208333333, -0.0625, 0.0625, -0.0625, -0.0625, 0.0625,
        0.0625, -0.0625, -0.0625 } },
    { "smooth L1", smooth_l1, 0, { 15.3125 }, { 1, -1, 1, 0.5, -1, 1, -1, -1, 1, 1, -1, -1 } },
    { "divergence",
      divergence,
      0,
      { 0.728451748 },
      { 0.0147009471, -0.0583195603, 0.11527471, -0.0716560964, -0.0522654289, 0.146229155,
        0.0657707541, -0.15973448, 0.0436508868, 0.00415240456, -0.0282601904, -0.019543101 } },
    { "cosine",
      cosine,
      0,
      { 0.506171068, -0.478091444, 0.878054111 },
      { 0.032610461, 0.243869534, 0.0581316913, 0.229691073, 0.2458756, 0.537283718, 0.0364260148,
        0.34604714, 0.159646202, -0.114033001, 0.364905604, 0.125436302 } },
    { "cosine embedding",
      embedding,
      0,
      { 0.205258274 },
      { -0.0108701537, -0.0812898448, -0.0193772304, -0.076563691, 0, 0, 0, 0, -0.0177384669,
        0.0126703335, -0.0405450672, -0.0139373668 } },
};

static void compare(const struct loss *l, const char *where, const char *what, const double *got,
                    const double *want, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++)
        if (!(fabs(got[k] - want[k]) <= 3e-6 * fmax(1, fabs(want[k]))))
            fail_msg("%s on %s: %s %u is %.9g, expected %.9g", l->name, where, what, (unsigned)k,
                     got[k], want[k]);
}

static void check(const struct loss *l)
{
    static double x[] = { 0.5, -1.25, 2, 0.75, -0.5, 1.5, 0.25, -2, 3, 1, -1, 0 };
    static double targets[] = { 0, 1, 0.25, 0.5, 1, 0, 1, 0.75, 0, 0, 1, 1 };
    double labels[] = { 1, 3, l->last_label },
           shares[] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.25f, 0.25f, 0, 0.5f, 0.7f, 0.1f, 0.1f, 0.1f };
    static const float weights[] = { 0.5f, 2, 1, 1.5f },
                       from_above[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    double *const values[INPUTS] = { x, labels, targets, shares };
    double y[MANY], slope[MANY], *results[] = { y, slope };
    copse_graph *g;
    copse_tensor *in[INPUTS], *w, *dy, *out[2];
    OK(copse_graph_create(harness_context(), &g));
    in[X] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3, 4));
    in[LABELS] = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(3));
    in[TARGETS] = copse_graph_input(g, "targets", COPSE_F32, COPSE_SHAPE(3, 4));
    in[SHARES] = copse_graph_input(g, "shares", COPSE_F32, COPSE_SHAPE(3, 4));
    w = copse_constant(g, COPSE_F32, COPSE_SHAPE(4), weights);
    out[0] = l->build(g, in, w);
    dy = copse_constant(g, COPSE_F32, copse_tensor_shape(out[0]), from_above);
    copse_gradients(g, out[0], dy, &in[X], 1, &out[1]);
    for (size_t d = 0; d <= harness_device_count(); d++) {
        const char *where = "reference";
        if (d == 0) {
            harness_in_double(g, in, values, INPUTS, out, 2, NULL, results);
        } else {
            where = copse_device_describe(harness_device(d - 1))->id;
            harness_on_device(harness_device(d - 1), g, in, values, INPUTS, out, 2, NULL, results);
        }
        compare(l, where, "value", y, l->value, copse__elements(out[0]->shape));
        compare(l, where, "derivative", slope, l->slope, MANY);
    }
    copse_graph_release(&g);
}

static void losses_are_those_of_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        check(&losses[i]);
}

/* Weights that depend on variables have no derivative, and do not get one of 0. */
static void class_weights_have_no_derivative(void **state)
{
    copse_graph *g;
    copse_tensor *dx;
    struct copse_cross_entropy_params p = { .averaging = COPSE_SUM };
    (void)state;
    OK(copse_graph_create(harness_context(), &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3));
    p.class_weights = copse_graph_input(g, "w", COPSE_F32, COPSE_SHAPE(3));
    copse_tensor *labels = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(2));
    copse_tensor *y = copse_cross_entropy(g, x, labels, &p);
    copse_gradients(g, y, NULL, &x, 1, &dx);
    copse_gradients(g, y, NULL, &p.class_weights, 1, &dx);
    FAILS(COPSE_ERR_UNSUPPORTED, copse__graph_take_failure(g), "class_weights");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_pytorch),
                                        cmocka_unit_test(class_weights_have_no_derivative) };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
