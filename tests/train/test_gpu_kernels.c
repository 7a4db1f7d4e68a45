/* SPDX-License-Identifier: MIT */
/* The kernels that GPUs use by default, on the drivers of CPUs: a device that is described as a GPU
   gets them, and CLBlast's large products as a discrete one. Training gives the same bits twice, and
   the weights of the device's own kernels within the bound of all drivers. */
#include <math.h>

#include "copse/device/tuning.h"
#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/ops/attention.h"
#include "copse/ops/conv.h"
#include "core/base/random.h"
#include "core/device/device.h"
#include "core/graph/variant.h"
#include "tests/rig/data/batch_rig.h"
#include "tests/rig/rig.h"

enum { WIDE = 640, WIDER = 2048, CLASSES = 5, ROWS = 96, BATCH = 32, MOST_VARIABLES = 8 };

struct net {
    const char *name;
    uint32_t variables, steps;
    copse_shape in, shapes[MOST_VARIABLES];
    copse_initializer initializers[MOST_VARIABLES];
    copse_tensor *(*logits)(copse_graph *g, copse_tensor *x, copse_tensor *const *t);
};

/* A hidden layer with layer norm, whose values of all rows are 320 positions of two heads with causal
   attention; 640 terms are two parts of a product. The temperature comes from a softmax, so that its
   derivative is used. */
static copse_tensor *attention_logits(copse_graph *g, copse_tensor *x, copse_tensor *const *t)
{
    copse_tensor *h, *p;
    h = copse_dense(g, x, t[0], t[1], COPSE_LINEAR);
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
    return copse_add(g, h, p);
}

/* Convolutions of 36, 180 and 1,152 terms, the last of them in two parts; of stride 2, whose gradient has
   gaps, of two groups and with dilation. Images of 6 x 6 and 3 x 3; gradients of the weights are in
   parts, too. */
static copse_tensor *conv_logits(copse_graph *g, copse_tensor *x, copse_tensor *const *t)
{
    copse_tensor *h;
    const struct copse_conv_params relu = { .padding = COPSE_PADDING_SAME,
                                            .activation = COPSE_RELU },
                                   halves = { .padding = COPSE_PADDING_SAME,
                                              .stride = { 2, 2 },
                                              .groups = 2,
                                              .activation = COPSE_TANH },
                                   apart = { .padding = COPSE_PADDING_SAME, .dilation = { 2, 1 } };
    h = copse_conv(g, x, t[0], t[1], &relu);
    h = copse_conv(g, h, t[2], t[3], &halves);
    h = copse_conv(g, h, t[4], t[5], &apart);
    h = copse_reshape(g, h, COPSE_SHAPE(h->shape.dims[0], 9 * 18));
    return copse_dense(g, h, t[6], t[7], COPSE_LINEAR);
}

#define ZEROS COPSE_INIT_ZEROS
#define SOME  COPSE_INIT_HE_NORMAL

static const struct net nets[] = {
    { "attention",
      6,
      12,
      { 1, { 20 } },
      { { 2, { 20, WIDE } },
        { 1, { WIDE } },
        { 1, { WIDE } },
        { 1, { WIDE } },
        { 2, { WIDE, CLASSES } },
        { 1, { CLASSES } } },
      { SOME, ZEROS, COPSE_INIT_ONES, ZEROS, SOME, ZEROS },
      attention_logits },
    { "convolutions",
      8,
      12,
      { 3, { 6, 6, 4 } },
      { { 4, { 3, 3, 4, 40 } },
        { 1, { 40 } },
        { 4, { 3, 3, 20, 128 } },
        { 1, { 128 } },
        { 4, { 3, 3, 128, 18 } },
        { 1, { 18 } },
        { 2, { 9 * 18, CLASSES } },
        { 1, { CLASSES } } },
      { SOME, ZEROS, SOME, ZEROS, SOME, ZEROS, SOME, ZEROS },
      conv_logits },
};

/* Products of 32 x 2,048 x 2,048 and, of the gradient of the weights, 2,048 x 2,048 x 32. */
static copse_tensor *wide_logits(copse_graph *g, copse_tensor *x, copse_tensor *const *t)
{
    copse_tensor *h = copse_dense(g, x, t[0], t[1], COPSE_TANH);
    h = copse_dense(g, h, t[2], t[3], COPSE_TANH);
    return copse_dense(g, h, t[4], t[5], COPSE_LINEAR);
}

static const struct net wide_net = {
    "wide layers",
    6,
    3,
    { 1, { 20 } },
    { { 2, { 20, WIDER } },
      { 1, { WIDER } },
      { 2, { WIDER, WIDER } },
      { 1, { WIDER } },
      { 2, { WIDER, CLASSES } },
      { 1, { CLASSES } } },
    { SOME, ZEROS, SOME, ZEROS, SOME, ZEROS },
    wide_logits,
};

struct trained {
    const struct net *net;
    copse_variable *v[MOST_VARIABLES];
};

static copse_tensor *net_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct trained *m = user;
    copse_tensor *t[MOST_VARIABLES], *y = copse_input(in, "y");
    for (uint32_t i = 0; i < m->net->variables; i++)
        t[i] = copse_variable_tensor(m->v[i]);
    copse_tensor *logits = m->net->logits(g, copse_input(in, "x"), t);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

/* One number of each example is larger, by its class. */
static void make_data(const struct net *n, float *x, int32_t *y)
{
    const uint32_t each = (uint32_t)copse__elements(n->in);
    struct copse_stream s;
    copse__stream_init(&s, 9, 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        y[i] = (int32_t)copse__stream_below(&s, CLASSES);
        for (uint32_t k = 0; k < each; k++)
            x[i * each + k] = copse__stream_normal(&s) + (k == (uint32_t)y[i] ? 2.0f : 0.0f);
    }
}

static size_t net_values(const struct net *n)
{
    size_t values = 0;
    for (uint32_t i = 0; i < n->variables; i++)
        values += copse__elements(n->shapes[i]);
    return values;
}

static float *train_net(const struct net *n, copse_context *ctx, const char *id)
{
    static float x[ROWS * 6 * 6 * 4];
    static int32_t y[ROWS];
    const uint32_t each = (uint32_t)copse__elements(n->in);
    struct trained m = { .net = n };
    copse_strategy *st;
    copse_trainer *t;
    make_data(n, x, y);
    OK(copse_mirrored_create(ctx, &id, 1, NULL, &st));
    for (uint32_t i = 0; i < n->variables; i++) {
        const char name[3] = { 'v', (char)('0' + i), 0 };
        const struct copse_variable_params p = {
            .name = name, .shape = n->shapes[i], .initializer = n->initializers[i], .seed = 11
        };
        OK(copse_variable_create(st, &p, &m.v[i]));
    }
    const struct copse_trainer_params params = {
        .loss = net_loss,
        .user = &m,
        .optimizer = { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f },
    };
    OK(copse_trainer_create(st, &params, &t));
    for (uint32_t i = 0; i < n->steps; i++) {
        const uint32_t first = i * BATCH % ROWS;
        OK(copse_trainer_step(t, &(struct copse_host_batch){
                                     COPSE_COLUMNS({ "x", COPSE_F32, n->in, x + first * each },
                                                   { "y", COPSE_I32, COPSE_SCALAR, y + first }),
                                     .count = BATCH }));
    }
    float *values = malloc(net_values(n) * sizeof *values), *at = values;
    for (uint32_t i = 0; i < n->variables; at += copse__elements(n->shapes[i]), i++)
        OK(copse_variable_read(m.v[i], 0, at));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return values;
}

/* Largest ||a - b|| / ||a|| over the variables. */
static double distance_of(const struct net *n, const float *a, const float *b)
{
    double worst = 0;
    for (uint32_t v = 0; v < n->variables; v++) {
        double difference = 0, norm = 0;
        for (uint64_t i = copse__elements(n->shapes[v]); i > 0; i--, a++, b++) {
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
    { "blocks", "forward-32", "blocks_tile" },
    { "blocks", "gradient-512", "blocks_tile" },
    { "conv", "32-128", "conv_tile" },
    { "conv_weight", "128-32", "conv_weight_tile" },
    { "row_stats", "10", "row_stats_held" },
    { "softmax", "1000", "softmax_held" },
    { "softmax_grad", "10", "softmax_grad_held" },
    { "cross_entropy_grad", "1000", "cross_entropy_grad_held" },
    { "layer_norm", "forward-2048", "layer_norm_held" },
    { "layer_norm", "gradient-32", "layer_norm_held" },
    { "attention", "forward-512", "attention_tile" },
    { "attention", "gradient-128", "attention_tile" },
};

static void compare_training(const struct net *n, copse_context *plain, copse_context *gpu,
                             const char *id)
{
    float *own = train_net(n, plain, id), *first = train_net(n, gpu, id),
          *again = train_net(n, gpu, id);
    const double distance = distance_of(n, own, first);
    print_message("  %s, %s: ||a-b||/||a|| = %.2e\n", id, n->name, distance);
    assert_memory_equal(first, again, net_values(n) * sizeof *first);
    assert_true(distance > 0 && distance <= 1e-5);
    free(own);
    free(first);
    free(again);
}

static bool is_of_cpu(const struct copse_device_info *info)
{
    return info->is_usable && info->kind == COPSE_DEVICE_CPU && !info->limits.is_gpu;
}

/* Without COPSE_TEST_ALL two devices have one network each, in turn. */
static void gpu_kernels_train_like_others(void **state)
{
    copse_context *plain, *gpu;
    size_t count = 0, devices = 0;
    (void)state;
    OK(copse_context_create(NULL, &plain));
    OK(copse_context_create(NULL, &gpu));
    for (size_t d = 0; d < gpu->device_count; d++)
        count += is_of_cpu(&gpu->devices[d]);
    for (size_t d = 0; d < gpu->device_count; d++) {
        const struct copse_device_info *info = &gpu->devices[d];
        if (!is_of_cpu(info))
            continue;
        gpu->devices[d].limits.is_gpu = true;
        for (size_t i = 0; i < COPSE_COUNT(of_gpus); i++) {
            kernel_is(gpu, info->id, of_gpus[i].family, of_gpus[i].size, of_gpus[i].kernel, true);
            kernel_is(plain, info->id, of_gpus[i].family, of_gpus[i].size, of_gpus[i].kernel,
                      false);
        }
        for (size_t n = 0; n < COPSE_COUNT(nets); n++)
            if (count == 1 || rig_takes(n + devices, COPSE_COUNT(nets)))
                compare_training(&nets[n], plain, gpu, info->id);
        devices++;
    }
    copse_context_release(&gpu);
    copse_context_release(&plain);
    if (devices == 0) {
        print_message("skipped: no device of a CPU driver\n");
        skip();
    }
}

/* ---- CLBlast ---- */

static unsigned repeated;

static void note_repeats(void *user, copse_log_level level, const char *line)
{
    (void)user;
    repeated += level == COPSE_LOG_DEBUG && strncmp(line, "repeated: matmul_clblast", 24) == 0;
}

/* A context whose first device with CLBlast is a discrete GPU. NULL: there is none. */
static copse_context *open_discrete(bool no_self_test, const char **id)
{
    const struct copse_context_params p = { .log = note_repeats,
                                            .log_level = COPSE_LOG_DEBUG,
                                            .no_self_test = no_self_test };
    copse_context *ctx;
    OK(copse_context_create(&p, &ctx));
    for (size_t i = 0; i < ctx->device_count; i++) {
        struct copse_device_info *info = &ctx->devices[i];
        if (!is_of_cpu(info) || !info->limits.has_library_gemm)
            continue;
        info->limits.is_gpu = true;
        info->kind = COPSE_DEVICE_DISCRETE;
        *id = info->id;
        return ctx;
    }
    copse_context_release(&ctx);
    return NULL;
}

static void clblast_leads_on_discrete_gpus(void **state)
{
    const char *id;
    copse_context *ctx = open_discrete(false, &id), *plain;
    (void)state;
    if (!ctx) {
        print_message("skipped: no OpenCL device, or no CLBlast (Debian package libclblast1)\n");
        skip();
    }
    kernel_is(ctx, id, "matmul", "nn-512-512-512", "matmul_clblast", true);
    kernel_is(ctx, id, "matmul", "tn-128-512-512", "matmul_tile", true);
    OK(copse_context_create(NULL, &plain));
    kernel_is(plain, id, "matmul", "nn-512-512-512", "matmul_clblast", false);
    repeated = 0;
    compare_training(&wide_net, plain, ctx, id);
    const unsigned once = repeated;
    assert_true(once > 0);
    free(train_net(&wide_net, ctx, id)); /* opens the device again */
    assert_int_equal(repeated, once);
    copse_context_release(&plain);
    copse_context_release(&ctx);

    ctx = open_discrete(true, &id); /* what is not tested is not preferred */
    kernel_is(ctx, id, "matmul", "nn-512-512-512", "matmul_tile", true);
    copse_context_release(&ctx);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_kernels_train_like_others),
        cmocka_unit_test(clblast_leads_on_discrete_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
