/* SPDX-License-Identifier: MIT */
/* See portable_probe.h. The truth is computed here, in f32, by the steps of the kernels. */
#include "core/replica/portable_probe.h"

#include <math.h>
#include <stdio.h>

#include "copse/device/function.h"
#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/base/half.h"

#define ROWS  32u /* of the product, [32, 2] by [2, 32] */
#define COUNT (ROWS * ROWS)

struct operation {
    const char *name; /* "the quotient" of a and b */
    copse_tensor *(*build)(copse_graph *g, copse_tensor *a, copse_tensor *b);
    float (*truth)(float a, float b);
    float scale; /* of the operands, which are from -4 to 4 */
    int operands;
};

static float probe_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* ---- operations ---- */

/* The kernel adds products one after the other, to 0. */
static float two_products(const float *a, const float *b)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < 2; k++) {
        const float product = a[k] * b[k * ROWS];
        sum = sum + product;
    }
    return sum;
}

static float truth_quotient(float a, float b)
{
    return a / b;
}

static float truth_product(float a, float b)
{
    return a * b;
}

static float truth_sum(float a, float b)
{
    return a + b;
}

static copse_tensor *build_root(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    (void)b;
    return copse_sqrt(g, copse_abs(g, a));
}

/* m_sqrt of kernels/math.clh. */
static float truth_root(float a, float b)
{
    const float x = fabsf(a), s = sqrtf(x), high = probe_float(copse__bits_of(s) & 0xfffff000u);
    const float low = s - high;
    const float rest = ((x - high * high) - 2.0f * high * low) - low * low;
    const float fix = 0.5f * rest / s;
    (void)b;
    return fabsf(fix) < 1e-5f * s ? s + fix : s;
}

static copse_tensor *build_inverse(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    (void)b;
    return copse_rsqrt(g, copse_abs(g, a));
}

static float truth_inverse(float a, float b)
{
    (void)b;
    return 1.0f / sqrtf(fabsf(a));
}

static copse_tensor *build_exp(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    (void)b;
    return copse_exp(g, a);
}

/* m_exp of kernels/math.clh, for numbers that are far from its limits. */
static float truth_exp(float a, float b)
{
    const float t = a * 1.44269504f + 12582912.0f, k = t - 12582912.0f;
    const float r = (a - k * 0.693359375f) - k * -2.12194440e-4f;
    const float q =
        (((0.00138145604f * r + 0.0083687352f) * r + 0.041668389f) * r + 0.166665211f) * r +
        0.49999994f;
    const int n = (int)copse__bits_of(t) - 0x4b400000, n1 = n >> 1;
    const float tail = r + r * r * q;
    (void)b;
    return (1.0f + tail) * probe_float((uint32_t)(n1 + 127) << 23) *
           probe_float((uint32_t)(n - n1 + 127) << 23);
}

static const struct operation operations[] = {
    { "the quotient", copse_div, truth_quotient, 1.0f, 2 },
    { "the square root of the size", build_root, truth_root, 1.0f, 1 },
    { "the reciprocal square root of the size", build_inverse, truth_inverse, 1.0f, 1 },
    { "the exponential", build_exp, truth_exp, 8.0f, 1 },
    { "the product, of subnormal size,", copse_mul, truth_product, 2e-20f, 2 },
    { "the sum, of subnormal numbers,", copse_add, truth_sum, 1e-39f, 2 },
};
#define OPERATIONS COPSE_COUNT(operations)

/* ---- the run ---- */

struct probed {
    float a[COUNT], b[COUNT], scaled[2][OPERATIONS][COUNT];
    float got[OPERATIONS + 1][COUNT];
};

/* From -4 to 4, never 0, with all bits of a fraction. */
static float probe_operand(uint32_t i)
{
    uint32_t x = (i + 1) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    const float size =
        probe_float(0x3f800000u | (x & 0x007fffffu)) * (x & 0x800000u ? 2.0f : 0.25f);
    return x & 0x1000000u ? -size : size;
}

/* `what`: the computation and all its operands, so that it can be repeated by hand. */
static copse_status probe_refuse(const copse_device *dev, const char *what, float got, float truth)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "device: %s (driver %.64s) has no portable bits: it computes %s as %.9g "
                      "(%08x), but with each operation rounded to f32 it is %.9g (%08x); use "
                      "another device, or fast bits",
                      dev->info.id, dev->info.driver, what, (double)got,
                      (unsigned)copse__bits_of(got), (double)truth,
                      (unsigned)copse__bits_of(truth));
}

static copse_status probe_refuse_products(const copse_device *dev, const float *a, const float *b,
                                          float got, float truth)
{
    char what[128];
    snprintf(what, sizeof what, "%.9g * %.9g + %.9g * %.9g", (double)a[0], (double)b[0],
             (double)a[1], (double)b[ROWS]);
    return probe_refuse(dev, what, got, truth);
}

static copse_status probe_refuse_operation(const copse_device *dev, const struct operation *o,
                                           float a, float b, float got, float truth)
{
    char what[128];
    if (o->operands == 2)
        snprintf(what, sizeof what, "%s of %.9g and %.9g", o->name, (double)a, (double)b);
    else
        snprintf(what, sizeof what, "%s of %.9g", o->name, (double)a);
    return probe_refuse(dev, what, got, truth);
}

static copse_status probe_judge(const copse_device *dev, const struct probed *p)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        const float *a = p->a + i / ROWS * 2, *b = p->b + i % ROWS;
        const float truth = two_products(a, b), got = p->got[OPERATIONS][i];
        if (copse__bits_of(truth) != copse__bits_of(got))
            return probe_refuse_products(dev, a, b, got, truth);
    }
    for (size_t o = 0; o < OPERATIONS; o++)
        for (uint32_t i = 0; i < COUNT; i++) {
            const float a = p->scaled[0][o][i], b = p->scaled[1][o][i];
            const float truth = operations[o].truth(a, b);
            if (copse__bits_of(truth) != copse__bits_of(p->got[o][i]))
                return probe_refuse_operation(dev, &operations[o], a, b, p->got[o][i], truth);
        }
    return COPSE_OK;
}

static copse_status probe_run(copse_function *f, copse_tensor *const *in, struct probed *p)
{
    COPSE_TRY(copse_function_write(f, in[0], p->a));
    COPSE_TRY(copse_function_write(f, in[1], p->b));
    for (size_t o = 0; o < OPERATIONS; o++) {
        COPSE_TRY(copse_function_write(f, in[2 + 2 * o], p->scaled[0][o]));
        COPSE_TRY(copse_function_write(f, in[3 + 2 * o], p->scaled[1][o]));
    }
    COPSE_TRY(copse_function_run(f));
    for (size_t o = 0; o <= OPERATIONS; o++)
        COPSE_TRY(copse_function_read(f, o, p->got[o]));
    return COPSE_OK;
}

/* A graph with all operations. */
static copse_status probe_graph(copse_device *dev, copse_graph *g, struct probed *p)
{
    copse_tensor *in[2 + 2 * OPERATIONS], *out[OPERATIONS + 1];
    copse_function *f;
    in[0] = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(ROWS, 2));
    in[1] = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(2, ROWS));
    out[OPERATIONS] = copse_matmul(g, in[0], in[1], false, false);
    for (size_t o = 0; o < OPERATIONS; o++) {
        char name[2][16];
        for (int k = 0; k < 2; k++) {
            snprintf(name[k], sizeof name[k], "%c%zu", "ab"[k], o);
            in[2 + 2 * o + k] = copse_graph_input(g, name[k], COPSE_F32, COPSE_SHAPE(COUNT));
        }
        out[o] = operations[o].build(g, in[2 + 2 * o], in[3 + 2 * o]);
    }
    const struct copse_function_params params = { .graph = g,
                                                  .outputs = out,
                                                  .output_count = OPERATIONS + 1 };
    COPSE_TRY(copse_function_create(dev, &params, &f));
    const copse_status s = probe_run(f, in, p);
    copse_function_release(&f);
    return s;
}

copse_status copse__portable_probe(copse_device *dev)
{
    struct copse_mem *mem = &dev->base->mem;
    copse_graph *g = NULL;
    struct probed *p = copse__alloc(mem, 1, sizeof *p);
    COPSE_TRY(copse_need_memory(p, "device"));
    for (uint32_t i = 0; i < COUNT; i++) {
        p->a[i] = probe_operand(2 * i);
        p->b[i] = probe_operand(2 * i + 1);
        for (size_t o = 0; o < OPERATIONS; o++) {
            p->scaled[0][o][i] = p->a[i] * operations[o].scale;
            p->scaled[1][o][i] = p->b[i] * operations[o].scale;
        }
    }
    copse_status s = copse_graph_create(dev->ctx, &g);
    if (s == COPSE_OK)
        s = probe_graph(dev, g, p);
    if (s == COPSE_OK)
        s = probe_judge(dev, p);
    copse_graph_release(&g);
    copse__free(mem, p);
    return copse_note(s, "while probing how %s rounds", dev->info.id);
}
