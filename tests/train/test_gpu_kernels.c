/* SPDX-License-Identifier: MIT */
/* The kernels that GPUs use by default, on the drivers of CPUs: a device that is described as a GPU
   gets them. Training gives the same bits twice, and the weights of the device's own kernels within
   the bound of all drivers. */
#include <math.h>

#include "copse/device/tuning.h"
#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/ops/attention.h"
#include "core/base/random.h"
#include "core/device/device.h"
#include "core/graph/variant.h"
#include "tests/rig/data/batch_rig.h"
#include "tests/rig/rig.h"

enum { IN = 20, WIDE = 640, CLASSES = 5, ROWS = 96, BATCH = 32, STEPS = 12, VARIABLES = 6 };

static const copse_shape shapes[VARIABLES] = { { 2, { IN, WIDE } },      { 1, { WIDE } },
                                               { 1, { WIDE } },          { 1, { WIDE } },
                                               { 2, { WIDE, CLASSES } }, { 1, { CLASSES } } };

struct net {
    copse_variable *v[VARIABLES];
};

/* A hidden layer with layer norm, whose values of all rows are 320 positions of two heads with causal
   attention; 640 terms are two parts of a product. The temperature comes from a softmax, so that its
   derivative is used. */
static copse_tensor *net_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *m = user;
    copse_tensor *t[VARIABLES], *h, *p, *y = copse_input(in, "y");
    for (int i = 0; i < VARIABLES; i++)
        t[i] = copse_variable_tensor(m->v[i]);
    h = copse_dense(g, copse_input(in, "x"), t[0], t[1], COPSE_LINEAR);
    h = copse_layer_norm(g, h, t[2], t[3], 1e-5f);
    h = copse_gelu(g, h);
    const struct copse_attention_params causal = { .is_causal = true };
    copse_tensor *heads = copse_reshape(g, h, COPSE_SHAPE(1, BATCH * WIDE / 64, 2, 32));
    heads = copse_attention(g, heads, heads, heads, &causal);
    heads = copse_reshape(g, heads, h->shape);
    h = copse_add(g, h, heads);
    h = copse_dense(g, h, t[4], t[5], COPSE_LINEAR);
    p = copse_softmax(g, h);
    h = copse_add(g, h, p);
    p = copse_log_softmax(g, h);
    h = copse_add(g, h, p);
    return copse_sparse_cross_entropy(g, h, y, COPSE_MEAN);
}

static void make_data(float *x, int32_t *y)
{
    struct copse_stream s;
    copse__stream_init(&s, 9, 0);
    for (int i = 0; i < ROWS; i++) {
        y[i] = (int32_t)copse__stream_below(&s, CLASSES);
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = copse__stream_normal(&s) + (k == y[i] ? 2.0f : 0.0f);
    }
}

static size_t net_values(void)
{
    size_t n = 0;
    for (int i = 0; i < VARIABLES; i++)
        n += copse__elements(shapes[i]);
    return n;
}

static float *train_net(copse_context *ctx, const char *id)
{
    static float x[ROWS * IN];
    static int32_t y[ROWS];
    struct net m;
    copse_strategy *st;
    copse_trainer *t;
    make_data(x, y);
    OK(copse_mirrored_create(ctx, &id, 1, NULL, &st));
    for (int i = 0; i < VARIABLES; i++) {
        const char name[3] = { 'v', (char)('0' + i), 0 };
        const struct copse_variable_params p = { .name = name,
                                                 .shape = shapes[i],
                                                 .initializer = i % 4 == 0 ? COPSE_INIT_HE_NORMAL
                                                                : i == 2   ? COPSE_INIT_ONES
                                                                           : COPSE_INIT_ZEROS,
                                                 .seed = 11 };
        OK(copse_variable_create(st, &p, &m.v[i]));
    }
    const struct copse_trainer_params params = {
        .loss = net_loss,
        .user = &m,
        .optimizer = { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f },
    };
    OK(copse_trainer_create(st, &params, &t));
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t first = i * BATCH % ROWS;
        OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_XY(IN, x + first * IN, y + first),
                                                             .count = BATCH }));
    }
    float *values = malloc(net_values() * sizeof *values), *at = values;
    for (int i = 0; i < VARIABLES; at += copse__elements(shapes[i]), i++)
        OK(copse_variable_read(m.v[i], 0, at));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return values;
}

/* Largest ||a - b|| / ||a|| over the variables. */
static double distance_of(const float *a, const float *b)
{
    double worst = 0;
    for (int v = 0; v < VARIABLES; v++) {
        double difference = 0, norm = 0;
        for (uint64_t i = copse__elements(shapes[v]); i > 0; i--, a++, b++) {
            difference += pow((double)*a - (double)*b, 2);
            norm += pow((double)*a, 2);
        }
        worst = fmax(worst, sqrt(difference / norm));
    }
    return worst;
}

static void kernel_is(copse_context *ctx, const char *id, const char *family, const char *size,
                      const char *kernel, bool is_chosen)
{
    struct copse_kernel_variant v;
    copse_device *dev;
    OK(copse_device_open(ctx, id, NULL, &dev));
    OK(copse_kernel_choice(dev, NULL, family, size, &v));
    if ((strcmp(v.kernel, kernel) == 0) != is_chosen)
        fail_msg("%s: %s of %s is %s", id, family, size, v.kernel);
    copse_device_release(&dev);
}

/* The kernel of GPUs of each family that has one. */
static const struct {
    const char *family, *size, *kernel;
} of_gpus[] = {
    { "matmul", "nn-32-32-32", "matmul_tile" },
    { "matmul", "tn-512-512-512", "matmul_tile" },
    { "row_stats", "10", "row_stats_held" },
    { "softmax", "1000", "softmax_held" },
    { "softmax_grad", "10", "softmax_grad_held" },
    { "cross_entropy_grad", "1000", "cross_entropy_grad_held" },
    { "layer_norm", "forward-2048", "layer_norm_held" },
    { "layer_norm", "gradient-32", "layer_norm_held" },
    { "attention", "forward-512", "attention_tile" },
    { "attention", "gradient-128", "attention_tile" },
};

static void gpu_kernels_train_like_others(void **state)
{
    copse_context *plain, *gpu;
    unsigned devices = 0;
    (void)state;
    OK(copse_context_create(NULL, &plain));
    OK(copse_context_create(NULL, &gpu));
    for (size_t d = 0; d < gpu->device_count; d++) {
        const struct copse_device_info *info = &gpu->devices[d];
        if (!info->is_usable || info->kind != COPSE_DEVICE_CPU || info->limits.is_gpu)
            continue;
        gpu->devices[d].limits.is_gpu = true;
        for (size_t i = 0; i < COPSE_COUNT(of_gpus); i++) {
            kernel_is(gpu, info->id, of_gpus[i].family, of_gpus[i].size, of_gpus[i].kernel, true);
            kernel_is(plain, info->id, of_gpus[i].family, of_gpus[i].size, of_gpus[i].kernel,
                      false);
        }
        float *own = train_net(plain, info->id), *first = train_net(gpu, info->id),
              *again = train_net(gpu, info->id);
        const double distance = distance_of(own, first);
        print_message("  %s: ||a-b||/||a|| = %.2e\n", info->id, distance);
        assert_memory_equal(first, again, net_values() * sizeof *first);
        assert_true(distance > 0 && distance <= 1e-5);
        free(own);
        free(first);
        free(again);
        devices++;
    }
    copse_context_release(&gpu);
    copse_context_release(&plain);
    if (devices == 0) {
        print_message("skipped: no device of a CPU driver\n");
        skip();
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_kernels_train_like_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
