/* SPDX-License-Identifier: MIT */
/* An op of the application: swish, x sigmoid(beta x), with its gradient, checked by conformance and
   used on a device: user_op [DEVICE [FOLDER]]. On Vulkan devices FOLDER has swish.spv and
   swish_slope.spv: user_op --glsl NAME writes GLSL for glslangValidator -V --target-env vulkan1.1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/device/conformance.h"
#include "copse/device/function.h"
#include "copse/ops/user_op.h"

/* ---- the kernels, for OpenCL and for Vulkan ---- */

static const char swish_text[] =
    "GROUP(256, 1)\n"
    "PARAMS(uint n; float beta;)\n"
    "#include \"math.clh\"\n"
    "KERNEL2(swish, IN(real, from), OUT(real, to))\n"
    "{\n"
    "    const uint i = INDEX();\n"
    "    if (i < p.n)\n"
    "        STORE(to, i, LOAD(from, i) * m_sigmoid(p.beta * LOAD(from, i)));\n"
    "}\n";
static const char slope_text[] =
    "GROUP(256, 1)\n"
    "PARAMS(uint n; float beta;)\n"
    "#include \"math.clh\"\n"
    "KERNEL3(swish_slope, IN(real, from), IN(real, slope), OUT(real, to))\n"
    "{\n"
    "    const uint i = INDEX();\n"
    "    if (i < p.n) {\n"
    "        const float bx = p.beta * LOAD(from, i), s = m_sigmoid(bx);\n"
    "        STORE(to, i, LOAD(slope, i) * s * (1.0f + bx * m_sigmoid(-bx)));\n"
    "    }\n"
    "}\n";

struct params { /* PARAMS of both kernels */
    uint32_t n;
    float beta;
};

static void swish(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    const struct params *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const double x = copse_host_load(&buffers[0], i);
        copse_host_store(&buffers[1], i, x / (1 + exp(-(double)p->beta * x)));
    }
}

static void slope(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    const struct params *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const double bx = (double)p->beta * copse_host_load(&buffers[0], i), s = 1 / (1 + exp(-bx));
        copse_host_store(&buffers[2], i, copse_host_load(&buffers[1], i) * s * (1 + bx * (1 - s)));
    }
}

/* One invocation for each element; beta is the settings. */
static copse_status launch(void *user, const struct copse_user_call *call,
                           struct copse_user_launch *out)
{
    struct params p = { 1, 0 };
    (void)user;
    for (uint32_t i = 0; i < call->shape.rank; i++)
        p.n *= call->shape.dims[i];
    memcpy(&p.beta, call->settings, sizeof p.beta);
    memcpy(out->params, &p, sizeof p);
    out->groups = ((uint64_t)p.n + call->group_size - 1) / call->group_size;
    return COPSE_OK;
}

/* `user` is the op swish_slope. */
static void gradient(void *user, copse_graph *g, const struct copse_user_call *call,
                     copse_tensor *dy, copse_tensor **dx)
{
    copse_tensor *operands[] = { call->operands[0], dy };
    dx[0] = copse_user_op_add(g, *(copse_user_op **)user, operands, 2, call->settings);
}

/* ---- registration ---- */

static const float one = 1, two = 2;
static const struct copse_user_sample samples[] = {
    { .name = "a matrix",
      .shapes = { { 2, { 20, 30 } }, { 2, { 20, 30 } } },
      .settings = &one,
      .low = -4,
      .high = 4 },
    { .name = "beta 2", .shapes = { { 1, { 7 } }, { 1, { 7 } } }, .settings = &two },
};
static struct copse_user_op_params ops[] = {
    { .name = "swish_slope",
      .operands = 2,
      .text = slope_text,
      .reference = slope,
      .ulp = 16,
      .ratio = 16 },
    { .name = "swish",
      .operands = 1,
      .text = swish_text,
      .reference = swish,
      .ulp = 8,
      .gradient_ulp = 16,
      .gradient_ratio = 16,
      .gradient = gradient },
};
static copse_user_op *made[2];

/* The SPIR-V of an op, if there is a folder. */
static copse_status read_spirv(const char *folder, struct copse_user_op_params *p)
{
    static uint32_t words[2][16384];
    static int count;
    char path[600];
    snprintf(path, sizeof path, "%s/%s.spv", folder, p->name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "cannot open %s\n", path);
        return COPSE_ERR_IO;
    }
    p->spirv_bytes = fread(words[count], 1, sizeof words[count], f);
    p->spirv = words[count++];
    fclose(f);
    return COPSE_OK;
}

static copse_status register_ops(copse_context *ctx, const char *folder)
{
    for (int i = 0; i < 2; i++) {
        struct copse_user_op_params p = ops[i];
        p.params = 2;
        p.settings_size = sizeof(float);
        p.launch = launch;
        p.samples = samples;
        p.sample_count = 2;
        p.any_rows = true;
        p.user = &made[0];
        if (folder)
            COPSE_TRY(read_spirv(folder, &p));
        COPSE_TRY(copse_user_op_register(ctx, &p, &made[i]));
    }
    return COPSE_OK;
}

/* ---- use ---- */

static void tell(void *user, const struct copse_case_result *r)
{
    (void)user;
    if (r->verdict == COPSE_VERDICT_FAIL)
        printf("FAIL %s %s: %s: %s\n", r->mode, r->op, r->name, r->text);
}

static copse_status check(copse_context *ctx, const char *device)
{
    struct copse_conformance_summary s;
    const struct copse_conformance_params p = {
        .device = device, .ops = "swish,swish_slope", .tier = COPSE_CONFORM_STANDARD, .result = tell
    };
    COPSE_TRY(copse_conformance_run(ctx, &p, &s));
    printf("%s: %llu cases passed, %llu failed\n", device,
           (unsigned long long)s.counts[COPSE_VERDICT_PASS],
           (unsigned long long)s.counts[COPSE_VERDICT_FAIL]);
    return COPSE_OK;
}

static copse_status use(copse_context *ctx, const char *device)
{
    static const float values[] = { -1, 0, 1, 2 };
    float y[4], dx[4];
    copse_tensor *out[2];
    copse_device *dev = NULL;
    copse_graph *g;
    copse_function *f = NULL;
    COPSE_TRY(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *dy = copse_fill(g, COPSE_F32, COPSE_SHAPE(4), 1);
    out[0] = copse_user_op_add(g, made[1], &x, 1, &one);
    copse_gradients(g, out[0], dy, &x, 1, &out[1]);
    const struct copse_function_params params = { .graph = g, .outputs = out, .output_count = 2 };
    copse_status s = copse_device_open(ctx, device, NULL, &dev);
    s = s ? s : copse_function_create(dev, &params, &f);
    s = s ? s : copse_function_write(f, x, values);
    s = s ? s : copse_function_run(f);
    s = s ? s : copse_function_read(f, 0, y);
    s = s ? s : copse_function_read(f, 1, dx);
    for (int i = 0; s == COPSE_OK && i < 4; i++)
        printf("swish(%g) = %.6f, slope %.6f\n", (double)values[i], (double)y[i], (double)dx[i]);
    copse_function_release(&f);
    copse_graph_release(&g);
    copse_device_release(&dev);
    return s;
}

static int print_glsl(const char *name)
{
    char text[65536];
    size_t needed;
    const char *kernel = strcmp(name, "swish") == 0 ? swish_text : slope_text;
    if (copse_kernel_complete(COPSE_KERNEL_GLSL, kernel, text, sizeof text, &needed) != COPSE_OK)
        return 2;
    return fputs(text, stdout) < 0;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "host:0";
    copse_context *ctx = NULL;
    if (argc > 2 && strcmp(argv[1], "--glsl") == 0)
        return print_glsl(argv[2]);
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : register_ops(ctx, argc > 2 ? argv[2] : NULL);
    s = s ? s : check(ctx, device);
    s = s ? s : use(ctx, device);
    if (s != COPSE_OK)
        fprintf(stderr, "user_op: %s\n", copse_last_error());
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
