/* SPDX-License-Identifier: MIT */
/* Mode tune: how fast each variant of a family of kernels is for each class of sizes. A variant counts
   only when its result was right just before, and is kept at once, so that a run that ends early has
   done something. */
#include <stdio.h>

#include "core/conformance/tune.h"

#define ENOUGH 0.012 /* seconds of measuring */
#define FAR    4     /* times slower than another variant: a second run tells enough, where it is long */
#define LONG   3.0   /* seconds: nobody waits for a second one */

/* In this order: what takes less time first, so that the end of the time box takes the fewest. */
static const struct copse_tune_family *const families[] = { &copse_tune_column_sum,
                                                            &copse_tune_matmul };

struct trial {
    const struct copse_tune_family *family;
    struct copse_tune_job job;
    const char *variant;
    double best; /* seconds of the fastest variant so far, 0 = none */
    float *in[2], *out;
    double *scratch;
};

static copse_status make_numbers(struct copse_conform_run *r, struct trial *t)
{
    for (size_t i = 0; i < t->job.in_count; i++) {
        COPSE_TRY(copse__conform_memory(r, t->job.counts[i], sizeof(float), &t->in[i]));
        for (size_t e = 0; e < t->job.counts[i]; e++)
            t->in[i][e] = (float)copse__tune_whole((uint32_t)i + 1, e);
    }
    COPSE_TRY(copse__conform_memory(r, t->job.result, sizeof(float), &t->out));
    return copse__conform_memory(r, t->job.scratch, sizeof(double), &t->scratch);
}

/* `rate` in operations per second, 0 = not to be used. */
static copse_status keep(struct copse_conform_run *r, const struct trial *t, double rate)
{
    struct copse_tuning_entry e = { .rate = rate > 0.0 ? (uint64_t)(rate * 1e-6) + 1 : 0 };
    if (r->params->own)
        return COPSE_OK; /* it says nothing about the library's kernels */
    snprintf(e.family, sizeof e.family, "%s", t->family->name);
    snprintf(e.variant, sizeof e.variant, "%s", t->variant);
    snprintf(e.size_class, sizeof e.size_class, "%s", t->job.size_class);
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

static copse_status measure(struct copse_conform_run *r, struct trial *t, copse_function *f,
                            copse_tensor *const *in, struct copse_conform_outcome *out)
{
    const struct copse_timed timed = { .f = f };
    double seconds;
    for (size_t i = 0; i < t->job.in_count; i++)
        COPSE_TRY(copse_function_write(f, in[i], t->in[i]));
    COPSE_TRY(run_once(f, &seconds));
    COPSE_TRY(copse_function_read(f, 0, t->out));
    if (!t->family->is_right(&t->job, t->in, t->out, t->scratch)) {
        copse__conform_say(out, COPSE_VERDICT_FAIL,
                           "the result of whole numbers is wrong; mode run says where");
        return keep(r, t, 0.0);
    }
    if (seconds >= FAR * t->best && seconds < LONG) /* some drivers compile in the first run */
        COPSE_TRY(run_once(f, &seconds));
    /* One short run is mostly the way to the device and back. */
    if (t->best == 0.0 || seconds < FAR * t->best || seconds < ENOUGH)
        COPSE_TRY(copse__conform_time(&timed, ENOUGH, &seconds));
    t->best = t->best == 0.0 ? seconds : COPSE_MIN(t->best, seconds);
    out->result.gflops = t->job.operations * 1e-9 / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GFLOP/s, %.3g ms", out->result.gflops,
             seconds * 1e3);
    return keep(r, t, t->job.operations / seconds);
}

static copse_status make_function(struct copse_conform_run *r, const struct trial *t, copse_graph *g,
                                  copse_tensor *result, copse_function **out)
{
    const struct copse_choice choice = { t->family->name, t->variant };
    const struct copse_function_params params = { .graph = g, .outputs = &result, .output_count = 1 };
    return copse__function_create(r->dev, &params, &choice, out);
}

static copse_status tune(struct copse_conform_run *r, void *user, struct copse_conform_outcome *out)
{
    struct trial *t = user;
    copse_tensor *in[2], *y;
    copse_graph *g = NULL;
    copse_function *f = NULL;
    copse_status s;
    r->dev->tries_blocked = false; /* what is not used need not be fast */
    COPSE_TRY_OR(done, s, copse_graph_create(r->ctx, &g));
    COPSE_TRY_OR(done, s, t->family->build(g, &t->job, in, &y));
    COPSE_TRY_OR(done, s, make_function(r, t, g, y, &f));
    COPSE_TRY_OR(done, s, make_numbers(r, t));
    s = measure(r, t, f, in, out);
done:
    r->dev->tries_blocked = true;
    for (size_t i = 0; i < COPSE_COUNT(t->in); i++) {
        copse__free(&r->ctx->base.mem, t->in[i]);
        t->in[i] = NULL;
    }
    copse__free(&r->ctx->base.mem, t->out);
    copse__free(&r->ctx->base.mem, t->scratch);
    t->out = NULL;
    t->scratch = NULL;
    copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}

/* From the last variant to the shared body, which most often is the slow one. */
static void tune_class(struct copse_conform_run *r, struct trial *t)
{
    const char *const *variants = copse__case_variants(t->family->name);
    size_t count = 0;
    while (variants[count])
        count++;
    while (count-- > 0) {
        t->variant = variants[count];
        copse__conform_one(
            r, &(struct copse_conform_case){ "tune", t->family->name, t->job.name, t->variant },
            tune, t);
    }
}

copse_status copse__conform_tune(struct copse_conform_run *r)
{
    for (size_t f = 0; f < COPSE_COUNT(families); f++)
        for (size_t i = 0; i < families[f]->count; i++) {
            struct trial t = { .family = families[f] };
            t.family->job(i, &t.job);
            tune_class(r, &t);
        }
    return COPSE_OK;
}
