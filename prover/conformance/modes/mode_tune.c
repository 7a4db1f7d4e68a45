/* SPDX-License-Identifier: MIT */
/* Mode tune: the speed of each variant of every family of kernels for each size class. A variant
   counts only if its result was right just before. Each measurement is stored at once, so that a
   run that ends early keeps its measurements. */
#include <math.h>
#include <stdio.h>

#include "core/graph/variant.h"
#include "prover/conformance/modes/modes.h"

#define ENOUGH 0.012 /* seconds of measuring */
/* times slower than another variant: if runs are long, a second run suffices */
#define FAR     4
#define LONG    3.0 /* seconds: too long for a second run */
#define LARGEST 3   /* of the whole numbers in inputs: every sum of 2^22 products is exact */

struct trial {
    const struct copse_family *family;
    struct copse_tune_job job;
    const struct copse_variant *variant;
    double best; /* seconds of the fastest variant so far, 0 = none */
    copse_graph *graph;
    copse_tensor *in[COPSE_TUNE_INPUTS], *result;
    float *values[COPSE_TUNE_INPUTS], *out;
    double *expected; /* computed for the first variant */
};

static int mode_tune_whole(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u + (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    x ^= x >> 13;
    return (int)(x % (2 * LARGEST + 1)) - LARGEST;
}

static size_t mode_tune_elements(const copse_tensor *t)
{
    return (size_t)copse__elements(t->shape);
}

/* `rate` in operations per second, 0 = do not use it. */
static copse_status mode_tune_keep(struct copse_conform_run *r, const struct trial *t, double rate)
{
    struct copse_tuning_entry e = { .rate = rate > 0.0 ? (uint64_t)(rate * 1e-6) + 1 : 0 };
    if (r->params->own)
        return COPSE_OK; /* unrelated to the library's kernels */
    snprintf(e.family, sizeof e.family, "%s", t->family->name);
    snprintf(e.variant, sizeof e.variant, "%s", copse__variant_kernel(t->variant));
    if (!copse__size_class_of(t->family, t->job.work, e.size_class))
        return copse_fail(COPSE_ERR_INTERNAL, "tune: %s '%s' is of no size class", t->family->name,
                          t->job.name);
    return copse_device_tuning_set(r->ctx, r->dev->info.id, &e, 1);
}

/* ---- whether the result is right ---- */

static copse_status mode_tune_feed(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const struct trial *t = user;
    size_t i = 0;
    while (t->in[i] != leaf)
        i++;
    for (size_t k = 0; k < count; k++)
        ((double *)values)[k] = (double)t->values[i][k];
    return COPSE_OK;
}

static copse_status mode_tune_expect(struct copse_conform_run *r, struct trial *t)
{
    const struct copse_reference_params p = { .graph = t->graph,
                                              .feed = mode_tune_feed,
                                              .user = t };
    if (t->expected)
        return COPSE_OK;
    COPSE_TRY(
        copse__conform_memory(r, mode_tune_elements(t->result), sizeof(double), &t->expected));
    return copse__reference_run(&p, &t->result, 1, &t->expected);
}

static bool is_right(const struct trial *t)
{
    for (size_t i = 0; i < mode_tune_elements(t->result); i++) {
        const double want = t->expected[i], got = (double)t->out[i];
        if (!(fabs(got - want) <= (double)t->family->slack * (1 + fabs(want))))
            return false;
    }
    return true;
}

/* ---- how fast it is ---- */

static copse_status run_once(copse_function *f, double *seconds)
{
    const uint64_t start = copse__now_ns();
    COPSE_TRY(copse_function_run(f));
    COPSE_TRY(copse_function_wait(f));
    *seconds = (double)(copse__now_ns() - start) * 1e-9;
    return COPSE_OK;
}

static copse_status mode_tune_measure(struct copse_conform_run *r, struct trial *t,
                                      copse_function *f, struct copse_conform_outcome *out)
{
    const struct copse_timed timed = { .f = f };
    double seconds;
    for (size_t i = 0; i < t->job.in_count; i++)
        COPSE_TRY(copse_function_write(f, t->in[i], t->values[i]));
    COPSE_TRY(run_once(f, &seconds));
    COPSE_TRY(copse_function_read(f, 0, t->out));
    COPSE_TRY(mode_tune_expect(r, t));
    if (!is_right(t)) {
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the result of whole numbers is wrong; mode run says where");
        return mode_tune_keep(r, t, 0.0);
    }
    if (seconds >= FAR * t->best && seconds < LONG) /* some drivers compile in the first run */
        COPSE_TRY(run_once(f, &seconds));
    /* The time of one short run is mostly the round trip to the device. */
    if (t->best == 0.0 || seconds < FAR * t->best || seconds < ENOUGH)
        COPSE_TRY(copse__conform_time(&timed, ENOUGH, &seconds));
    t->best = t->best == 0.0 ? seconds : COPSE_MIN(t->best, seconds);
    out->result.gflops = t->job.operations * 1e-9 / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GFLOP/s, %.3g ms", out->result.gflops,
             seconds * 1e3);
    return mode_tune_keep(r, t, t->job.operations / seconds);
}

static copse_status make_graph(struct copse_conform_run *r, struct trial *t)
{
    if (t->result)
        return COPSE_OK;
    COPSE_TRY(copse_graph_create(r->ctx, &t->graph));
    for (size_t i = 0; i < t->job.in_count; i++) {
        t->in[i] = copse_graph_input(t->graph, "x", COPSE_F32, t->job.in[i]);
        COPSE_TRY(copse__conform_memory(r, mode_tune_elements(t->in[i]), COPSE_WORD_BYTES,
                                        &t->values[i]));
        for (size_t k = 0; k < mode_tune_elements(t->in[i]); k++)
            t->values[i][k] = (float)mode_tune_whole((uint32_t)i + 1, k);
    }
    t->result = t->family->build(t->graph, &t->job, t->in);
    COPSE_TRY(copse_graph_status(t->graph));
    return copse__conform_memory(r, mode_tune_elements(t->result), COPSE_WORD_BYTES, &t->out);
}

static copse_status tune_family(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    struct trial *t = user;
    char kernels[COPSE_CHOICES_TEXT];
    copse_function *f = NULL;
    copse_status s;
    snprintf(kernels, sizeof kernels, "%s=%s", t->family->name, t->variant->name);
    r->dev->tries_blocked = false; /* the speed of unused kernels is irrelevant */
    copse__verdicts_watch(r, NULL);
    COPSE_TRY_OR(done, s, make_graph(r, t));
    const struct copse_function_params params = {
        .graph = t->graph, .outputs = &t->result, .output_count = 1, .kernels = kernels
    };
    COPSE_TRY_OR(done, s, copse_function_create(r->dev, &params, &f));
    s = mode_tune_measure(r, t, f, out);
done:
    copse__verdicts_watch(r, r->dev);
    r->dev->tries_blocked = true;
    copse_function_release(&f);
    return s;
}

static void mode_tune_release(struct copse_conform_run *r, struct trial *t)
{
    copse_graph_release(&t->graph);
    for (size_t i = 0; i < COPSE_TUNE_INPUTS; i++)
        copse__free(&r->ctx->base.mem, t->values[i]);
    copse__free(&r->ctx->base.mem, t->out);
    copse__free(&r->ctx->base.mem, t->expected);
    copse__free(&r->ctx->base.mem, t->job.work);
}

/* From the last variant to the first, which is usually the slow one. */
static copse_status tune_class(struct copse_conform_run *r, const struct copse_family *f,
                               size_t index)
{
    struct trial t = { .family = f };
    COPSE_TRY(copse__conform_memory(r, 1, COPSE_TUNE_WORK, &t.job.work));
    copse__tune_job(f, index, &t.job);
    for (size_t i = !f->takes_job || f->takes_job(r->dev->limits, t.job.work) ? f->count : 0;
         i-- > 0;) {
        t.variant = &f->variants[i];
        if (f->takes_operands && t.variant->fits && !t.variant->fits(r->dev->limits, t.job.work))
            continue;
        copse__conform_one(r,
                           &(struct copse_conform_case){ "tune", f->name, t.job.name,
                                                         copse__variant_kernel(t.variant) },
                           tune_family, &t);
    }
    mode_tune_release(r, &t);
    return COPSE_OK;
}

copse_status copse__conform_tune(struct copse_conform_run *r)
{
    for (size_t f = 0; copse_families[f]; f++)
        for (size_t i = 0; i < copse__tune_jobs(copse_families[f]); i++)
            COPSE_TRY(tune_class(r, copse_families[f], i));
    return COPSE_OK;
}
