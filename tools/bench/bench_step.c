/* SPDX-License-Identifier: MIT */
/* Training: the update of a large variable, and whole steps of two perceptrons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/device/trace.h"
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "copse/train/audit.h"

#include "tools/bench/bench_loop.h"
#include "tools/train/train.h"

/* How a step gets its batches. Zeroed: each step writes its own batch. */
struct way {
    uint32_t per_run;  /* of an accelerator */
    uint32_t prefetch; /* uploaded ahead */
    bool is_loop;      /* of calls, without a trainer */
};

struct steps {
    copse_trainer *trainer;
    struct copse_host_batch batch;
    int32_t *labels;
    uint32_t classes;
    uint32_t random;
    uint32_t pending; /* results that were not taken */
    struct way way;
};

#define STEPS_PER_RUN 16
#define BATCHES_AHEAD 2

/* Take the results that are there, and wait until at most `most` are left. */
static copse_status bench_step_take(struct steps *r, uint32_t most)
{
    struct copse_step_result result;
    for (;;) {
        const bool wait = r->pending > most;
        const copse_status s = copse_trainer_result(r->trainer, wait, &result);
        if (s == COPSE_ERR_END || (!wait && s == COPSE_ERR_TIMEOUT))
            return COPSE_OK;
        COPSE_TRY(s);
        r->pending--;
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* New labels every step: a memorized batch leads to denormal numbers, which are slow. */
static void draw_labels(void *user)
{
    struct steps *r = user;
    for (size_t k = 0; r->labels && k < r->batch.count; k++)
        r->labels[k] = (int32_t)(next_random(&r->random) % r->classes);
}

static const struct copse_host_batch *next_batch(struct steps *r)
{
    draw_labels(r);
    return &r->batch;
}

static copse_status run_steps(void *user, unsigned count)
{
    struct steps *r = user;
    const uint32_t ahead = r->way.per_run ? r->way.per_run : r->way.prefetch;
    /* what a trainer keeps after one more */
    const uint32_t most = r->way.per_run ? r->way.per_run : COPSE_STEPS_IN_PROGRESS - 1;
    unsigned fed = 0;
    for (unsigned i = 0; i < count; i++) {
        COPSE_TRY(bench_step_take(r, most));
        if (ahead == 0)
            COPSE_TRY(copse_trainer_step(r->trainer, next_batch(r)));
        for (; fed < count && copse_trainer_fed(r->trainer) < ahead; fed++)
            COPSE_TRY(copse_trainer_feed(r->trainer, next_batch(r)));
        if (r->way.prefetch > 0)
            COPSE_TRY(copse_trainer_step(r->trainer, NULL));
        if (r->way.per_run == 0) {
            r->pending++;
        } else if (i + 1 == fed) {
            r->pending += copse_trainer_fed(r->trainer);
            COPSE_TRY(copse_trainer_run(r->trainer));
        }
    }
    return bench_step_take(r, 0);
}

/* ---- the update ---- */

/* One element of the variable. Its gradient is zero except in one place, so it costs only the
   write. */
static copse_tensor *one_element(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t first[] = { 0 }, one[] = { 1 };
    (void)in;
    copse_tensor *element = copse_slice(g, copse_variable_tensor(user), first, one);
    return copse_sum(g, element, NULL, 0, false);
}

static copse_status time_update(const struct bench *b, const char *id, uint32_t elements,
                                struct timing *t)
{
    static const float x[] = { 1.0f };
    struct steps steps = { .batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x }),
                                      .count = 1 } };
    copse_strategy *st = NULL;
    copse_variable *v;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_one_device_create(b->ctx, id, NULL, &st));
    COPSE_TRY_OR(
        done, s,
        copse_variable_create(
            st, &(struct copse_variable_params){ .name = "large", .shape = COPSE_SHAPE(elements) },
            &v));
    COPSE_TRY_OR(done, s,
                 copse_trainer_create(st,
                                      &(struct copse_trainer_params){
                                          .loss = one_element,
                                          .user = v,
                                          .optimizer = { .kind = COPSE_ADAM },
                                      },
                                      &steps.trainer));
    COPSE_TRY_OR(done, s,
                 copse_trainer_audit(
                     steps.trainer,
                     &(struct copse_audit_params){ .is_off = true, .is_cross_check_off = true }));
    COPSE_TRY_OR(done, s, bench_time(run_steps, &steps, 0.02, bench_budget(b), t));
done:
    copse_trainer_release(&steps.trainer);
    copse_strategy_release(&st);
    return s;
}

copse_status bench_update(struct bench *b, const struct copse_device_info *info, double copy_rate)
{
    static const uint32_t sizes[] = { 1u << 18, 1u << 22 };
    for (size_t i = b->settings.is_quick ? 1 : 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double bytes = (double)UPDATE_BYTES * sizes[i];
        struct figure f = { .device = info->id, .what = "update" };
        struct timing t;
        snprintf(f.size, sizeof f.size, "%u Ki values", sizes[i] >> 10);
        if (!bench_wants(b, &f))
            continue;
        COPSE_TRY(time_update(b, info->id, sizes[i], &t));
        f.best = bytes / t.best;
        f.median = bytes / t.median;
        f.samples = t.samples;
        f.limit = bench_is_cpu(info) ? limits_update(b->limits.threads, sizes[i]) : copy_rate;
        report_figure(b->settings.is_json, &f);
    }
    return COPSE_OK;
}

/* ---- whole steps ---- */

/* The time of arithmetic and update alone at the limits. */
static double step_limit(const struct bench *b, const struct bench_perceptron *m)
{
    double multiplied = 0.0, parameters = 0.0;
    for (uint32_t i = 0; i < m->layers; i++) {
        const double weights = (double)m->widths[i] * m->widths[i + 1];
        /* y = x w, dw = x' dy, and dx = dy w' except for the data */
        multiplied += (i == 0 ? 2.0 : 3.0) * weights;
        parameters += weights + m->widths[i + 1];
    }
    const double update = limits_update(b->limits.threads, (size_t)parameters);
    if (b->limits.multiply_add <= 0.0 || update <= 0.0)
        return 0.0;
    return 2.0 * multiplied * m->batch / b->limits.multiply_add +
           parameters * UPDATE_BYTES / update;
}

static copse_status make_strategy(const struct bench *b, const char *const *ids, size_t count,
                                  const struct way *way, copse_strategy **st)
{
    const struct copse_strategy_params params = { .kernels = b->settings.kernels };
    if (way->per_run > 0)
        return copse_accelerator_create(
            b->ctx, ids, count,
            &(struct copse_accelerator_params){ .strategy = params, .steps_per_run = way->per_run },
            st);
    return count == 1 ? copse_one_device_create(b->ctx, ids[0], &params, st)
                      : copse_mirrored_create(b->ctx, ids, count, &params, st);
}

static copse_status make_trainer(const struct bench *b, const struct bench_perceptron *m,
                                 struct network *network, const struct way *way, copse_strategy *st,
                                 copse_trainer **out)
{
    char text[64], meaning[256];
    /* all have two hidden layers */
    snprintf(text, sizeof text, "mlp:%u,%u", m->widths[1], m->widths[2]);
    snprintf(meaning, sizeof meaning,
             "{\"version\":1,\"kind\":\"array\",\"task\":\"classification\",\"input\":{\"type\":"
             "\"f32\",\"shape\":[%u],\"offset\":0,\"scale\":1},\"classes\":%u,\"numbered\":true}",
             m->widths[0], m->widths[m->layers]);
    copse_schema *schema;
    COPSE_TRY(copse_schema_parse(b->ctx, meaning, &schema));
    const copse_status s = network_create(network, st, b->ctx, schema, text, 0.0f, 1);
    copse_schema_release(&schema);
    COPSE_TRY(s);
    COPSE_TRY(copse_trainer_create(st,
                                   &(struct copse_trainer_params){
                                       .loss = copse_model_loss,
                                       .user = network->model,
                                       .optimizer = { .kind = COPSE_ADAM },
                                       .prefetch = way->prefetch,
                                   },
                                   out));
    /* Audits are rare in a long run, and frequent in its first steps. */
    return copse_trainer_audit(
        *out, &(struct copse_audit_params){ .is_off = true, .is_cross_check_off = true });
}

#define TRACED_STEPS 17 /* the first of a trace does not count */

/* What takes most of a step. */
static copse_status trace_steps(const struct bench *b, struct steps *steps, struct figure *f)
{
    struct copse_trace_summary sum;
    COPSE_TRY(copse_trace_start(b->ctx, &(struct copse_trace_params){ .path = NULL }));
    const copse_status s = run_steps(steps, TRACED_STEPS);
    COPSE_TRY(copse_trace_stop(b->ctx, &sum));
    f->limited_by = sum.limit;
    return s;
}

static copse_status time_steps(const struct bench *b, const struct bench_perceptron *m,
                               const char *const *ids, size_t count, const struct way *way,
                               struct timing *t, struct figure *f)
{
    const size_t values = (size_t)m->batch * m->widths[0];
    struct network network = { 0 };
    struct steps steps = { .classes = m->widths[m->layers], .random = 1, .way = *way };
    copse_strategy *st = NULL;
    float *x = malloc(values * sizeof *x);
    steps.labels = calloc(m->batch, sizeof *steps.labels);
    copse_status s = x && steps.labels
                         ? COPSE_OK
                         : session_set_error(COPSE_ERR_NO_MEMORY, "no memory to measure with");
    if (s != COPSE_OK)
        goto done;
    for (size_t i = 0; i < values; i++)
        x[i] = (float)(next_random(&steps.random) % 256) / 255.0f;
    const struct copse_column columns[] = { { "x", COPSE_F32, COPSE_SHAPE(m->widths[0]), x },
                                            { "y", COPSE_I32, COPSE_SCALAR, steps.labels } };
    steps.batch =
        (struct copse_host_batch){ .columns = columns, .column_count = 2, .count = m->batch };
    COPSE_TRY_OR(done, s, make_strategy(b, ids, count, way, &st));
    if (way->is_loop) {
        const struct bench_batch batch = { b->ctx, x, steps.labels, m->batch, draw_labels, &steps };
        s = bench_loop(st, m, &batch, 2.0 * bench_budget(b), t);
        goto done;
    }
    COPSE_TRY_OR(done, s, make_trainer(b, m, &network, way, st, &steps.trainer));
    COPSE_TRY_OR(done, s, bench_time(run_steps, &steps, 0.05, 2.0 * bench_budget(b), t));
    if (way->per_run == 0)
        COPSE_TRY_OR(done, s, trace_steps(b, &steps, f));
done:
    copse_trainer_release(&steps.trainer);
    copse_model_release(&network.model);
    copse_strategy_release(&st);
    free(steps.labels);
    free(x);
    return s;
}

static copse_status bench_model(struct bench *b, const struct bench_perceptron *m,
                                const char *names, const char *const *ids, size_t count,
                                struct way way, bool is_cpu)
{
    struct figure f = { .device = names,
                        .what = way.per_run    ? "run"
                                : way.prefetch ? "ahead"
                                : way.is_loop  ? "loop"
                                               : "step",
                        .is_time = true };
    struct timing t;
    const int n = snprintf(f.size, sizeof f.size, "%u-%u-%u-%u, ", m->widths[0], m->widths[1],
                           m->widths[2], m->widths[3]);
    snprintf(f.size + n, sizeof f.size - (size_t)n,
             way.per_run    ? "%u to a run"
             : way.prefetch ? "%u ahead"
                            : "batch %u",
             way.per_run    ? way.per_run
             : way.prefetch ? way.prefetch
                            : m->batch);
    if (!bench_wants(b, &f))
        return COPSE_OK;
    COPSE_TRY(time_steps(b, m, ids, count, &way, &t, &f));
    f.best = t.best;
    f.median = t.median;
    f.samples = t.samples;
    f.samples_per_s = m->batch / t.best;
    f.limit = is_cpu ? step_limit(b, m) : 0.0;
    report_figure(b->settings.is_json, &f);
    return COPSE_OK;
}

copse_status bench_steps(struct bench *b, const struct copse_device_info *const *infos,
                         size_t count)
{
    static const struct bench_perceptron models[] = {
        { .layers = 3, .widths = { 64, 128, 64, 10 }, .batch = 64 },
        { .layers = 3, .widths = { 784, 512, 512, 10 }, .batch = 256 },
    };
    const char *ids[COPSE_MAX_REPLICAS];
    char names[256] = "";
    bool is_cpu = true;
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(names);
        ids[i] = infos[i]->id;
        snprintf(names + used, sizeof names - used, "%s%s", i ? "," : "", ids[i]);
        is_cpu = is_cpu && bench_is_cpu(infos[i]);
    }
    /* Single steps of both models; prefetch for the large one, whose batch is 800 kB; runs for the
       small one, whose time is mostly launch overhead. */
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        COPSE_TRY(bench_model(b, &models[i], names, ids, count, (struct way){ 0 }, is_cpu));
    if (models[1].batch % count == 0)
        COPSE_TRY(
            bench_model(b, &models[1], names, ids, count, (struct way){ .is_loop = true }, is_cpu));
    COPSE_TRY(bench_model(b, &models[1], names, ids, count,
                          (struct way){ .prefetch = BATCHES_AHEAD }, is_cpu));
    return count == 1 ? bench_model(b, &models[0], names, ids, count,
                                    (struct way){ .per_run = STEPS_PER_RUN }, is_cpu)
                      : COPSE_OK;
}
