/* SPDX-License-Identifier: MIT */
/* Mode tune: how fast each variant of the matrix product is for each class of sizes. A variant counts
   only when its result was right just before, and is kept at once, so that a run that ends early has
   done something. */
#include <math.h>
#include <stdio.h>

#include "copse/matmul.h"
#include "core/conformance/mode.h"
#include "core/ops/product.h"

#define ENOUGH 0.012 /* seconds of measuring */
#define FAR    4     /* times slower than another variant: a second run tells enough */
#define LONG   3.0   /* seconds: nobody waits for a second one */
#define LARGEST 3    /* of the whole numbers that are multiplied: every sum of 512 is exact */

struct job {
    uint32_t m, n, k;
    bool a_transposed, b_transposed;
    const char *variant;
    double best; /* seconds of the fastest variant so far, 0 = none */
};

/* The numbers of a job: a and b as stored, and what is tried of them. */
struct numbers {
    float *a, *b, *c;
    double *by_columns, *by_rows; /* B times weights; weights times A */
};

static int whole(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u + (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    x ^= x >> 13;
    return (int)(x % (2 * LARGEST + 1)) - LARGEST;
}

/* From 1 on, so that no single wrong element goes unseen. */
static double weight(uint32_t seed, size_t i)
{
    return (double)(1 + (whole(seed, i) + LARGEST));
}

/* ---- is the result right? ---- */

static double a_at(const struct job *j, const struct numbers *x, size_t i, size_t l)
{
    return (double)(j->a_transposed ? x->a[l * j->m + i] : x->a[i * j->k + l]);
}

static double b_at(const struct job *j, const struct numbers *x, size_t l, size_t i)
{
    return (double)(j->b_transposed ? x->b[i * j->k + l] : x->b[l * j->n + i]);
}

/* R. Freivalds, Probabilistic machines can use less running time (1977): C w = A (B w), and likewise
   from the left. Whole numbers make every sum exact, so one wrong element is found for certain, and
   several unless they cancel along their row and their column. */
static bool is_right(const struct job *j, struct numbers *x)
{
    for (size_t l = 0; l < j->k; l++) {
        x->by_columns[l] = x->by_rows[l] = 0.0;
        for (size_t i = 0; i < j->n; i++)
            x->by_columns[l] += b_at(j, x, l, i) * weight(3, i);
        for (size_t i = 0; i < j->m; i++)
            x->by_rows[l] += weight(4, i) * a_at(j, x, i, l);
    }
    for (size_t i = 0; i < j->m; i++) {
        double sum = 0.0, expected = 0.0;
        for (size_t o = 0; o < j->n; o++)
            sum += (double)x->c[i * j->n + o] * weight(3, o);
        for (size_t l = 0; l < j->k; l++)
            expected += a_at(j, x, i, l) * x->by_columns[l];
        if (!(sum == expected))
            return false;
    }
    for (size_t o = 0; o < j->n; o++) {
        double sum = 0.0, expected = 0.0;
        for (size_t i = 0; i < j->m; i++)
            sum += weight(4, i) * (double)x->c[i * j->n + o];
        for (size_t l = 0; l < j->k; l++)
            expected += x->by_rows[l] * b_at(j, x, l, o);
        if (!(sum == expected))
            return false;
    }
    return true;
}

/* ---- one variant ---- */

static copse_status make(struct copse_conform_run *r, const struct job *j, struct numbers *x)
{
    const size_t a = (size_t)j->m * j->k, b = (size_t)j->k * j->n;
    COPSE_TRY(copse__conform_memory(r, a, sizeof(float), &x->a));
    COPSE_TRY(copse__conform_memory(r, b, sizeof(float), &x->b));
    COPSE_TRY(copse__conform_memory(r, (size_t)j->m * j->n, sizeof(float), &x->c));
    COPSE_TRY(copse__conform_memory(r, j->k, sizeof(double), &x->by_columns));
    COPSE_TRY(copse__conform_memory(r, j->k, sizeof(double), &x->by_rows));
    for (size_t i = 0; i < a; i++)
        x->a[i] = (float)whole(1, i);
    for (size_t i = 0; i < b; i++)
        x->b[i] = (float)whole(2, i);
    return COPSE_OK;
}

static copse_status keep(struct copse_conform_run *r, const struct job *j, double rate)
{
    struct copse_tuning_entry e = { .family = "matmul", .rate = (uint64_t)(rate * 1e-6) };
    if (r->params->own)
        return COPSE_OK; /* it says nothing about the library's kernels */
    snprintf(e.variant, sizeof e.variant, "%s", j->variant);
    copse__product_class(j->m, j->n, j->k, j->a_transposed, j->b_transposed, e.size_class);
    return copse_device_tuning_set(r->ctx, r->dev->info.id, &e, 1);
}

static copse_status run_once(copse_function *f, double *seconds)
{
    const uint64_t start = copse__now_ns();
    COPSE_TRY(copse_function_run(f));
    COPSE_TRY(copse_function_wait(f));
    *seconds = (double)(copse__now_ns() - start) * 1e-9;
    return COPSE_OK;
}

static copse_status measure(struct copse_conform_run *r, struct job *j, copse_function *f,
                            copse_tensor *const *in, struct numbers *x,
                            struct copse_conform_outcome *out)
{
    const double operations = 2.0 * j->m * j->n * j->k;
    const struct copse_timed t = { .f = f };
    COPSE_TRY(copse_function_write(f, in[0], x->a));
    COPSE_TRY(copse_function_write(f, in[1], x->b));
    double seconds;
    COPSE_TRY(run_once(f, &seconds));
    COPSE_TRY(copse_function_read(f, 0, x->c));
    if (!is_right(j, x)) {
        copse__conform_say(out, COPSE_VERDICT_FAIL,
                           "a product of whole numbers is wrong; mode run says where");
        return keep(r, j, 0.0);
    }
    if (seconds >= FAR * j->best && seconds < LONG) /* some drivers compile in the first run */
        COPSE_TRY(run_once(f, &seconds));
    if (j->best == 0.0 || seconds < FAR * j->best)
        COPSE_TRY(copse__conform_time(&t, ENOUGH, &seconds));
    j->best = j->best == 0.0 ? seconds : COPSE_MIN(j->best, seconds);
    out->result.gflops = operations * 1e-9 / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GFLOP/s, %.3g ms", out->result.gflops,
             seconds * 1e3);
    return keep(r, j, operations / seconds);
}

static copse_status tune(struct copse_conform_run *r, void *user, struct copse_conform_outcome *out)
{
    struct job *j = user;
    struct numbers x = { .a = NULL };
    copse_tensor *in[2], *y;
    copse_graph *g = NULL;
    copse_function *f = NULL;
    copse_status s;
    r->dev->tries_blocked = false; /* what is not used need not be fast */
    COPSE_TRY_OR(done, s, copse_graph_create(r->ctx, &g));
    COPSE_TRY_OR(done, s, copse_input(g, "a", COPSE_F32, j->a_transposed ? COPSE_SHAPE(j->k, j->m)
                                                                      : COPSE_SHAPE(j->m, j->k),
                                      &in[0]));
    COPSE_TRY_OR(done, s, copse_input(g, "b", COPSE_F32, j->b_transposed ? COPSE_SHAPE(j->n, j->k)
                                                                      : COPSE_SHAPE(j->k, j->n),
                                      &in[1]));
    COPSE_TRY_OR(done, s, copse_matmul(g, in[0], in[1], j->a_transposed, j->b_transposed, &y));
    const struct copse_function_params params = { g, &y, 1, j->variant };
    COPSE_TRY_OR(done, s, copse_function_create(r->dev, &params, &f));
    COPSE_TRY_OR(done, s, make(r, j, &x));
    s = measure(r, j, f, in, &x, out);
done:
    r->dev->tries_blocked = true;
    copse__free(&r->ctx->base.mem, x.a);
    copse__free(&r->ctx->base.mem, x.b);
    copse__free(&r->ctx->base.mem, x.c);
    copse__free(&r->ctx->base.mem, x.by_columns);
    copse__free(&r->ctx->base.mem, x.by_rows);
    copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}

/* From the last variant to the shared body, which most often is the slow one. */
static void tune_class(struct copse_conform_run *r, struct job *j)
{
    const char *const *variants = copse__case_variants("matmul");
    char name[96];
    size_t count = 0;
    snprintf(name, sizeof name, "%u x %u x %u%s%s", (unsigned)j->m, (unsigned)j->n, (unsigned)j->k,
             j->a_transposed ? ", a transposed" : "", j->b_transposed ? ", b transposed" : "");
    while (variants[count])
        count++;
    while (count-- > 0) {
        j->variant = variants[count];
        copse__conform_one(r, &(struct copse_conform_case){ "tune", "matmul", name, j->variant },
                           tune, j);
    }
}

/* Small ones first, so that the end of the time box takes the fewest. Of each size: forward, gradient
   of the weights, gradient of the input, which is what a dense layer asks for. */
copse_status copse__conform_tune(struct copse_conform_run *r)
{
    static const uint32_t sizes[] = COPSE_PRODUCT_SIZES;
    static const bool transposes[][2] = { { false, false }, { true, false }, { false, true } };
    const size_t count = COPSE_COUNT(sizes);
    for (size_t i = 0; i < count * count * count; i++)
        for (size_t t = 0; t < COPSE_COUNT(transposes); t++) {
            struct job j = { sizes[i / count % count], sizes[i % count], sizes[i / count / count],
                             transposes[t][0], transposes[t][1], NULL, 0.0 };
            tune_class(r, &j);
        }
    return COPSE_OK;
}
