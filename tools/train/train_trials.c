/* SPDX-License-Identifier: MIT */
/* Trials: a few steps of the run on some of its devices, with throw-away weights, to measure which
   devices help and which shares they get. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/train/train_run.h"

#define ROUNDS        3    /* the fastest counts */
#define ROUND_SECONDS 0.15 /* at least one step */
#define MOST_SECONDS  3.0  /* of all rounds */
#define SHORTEST      1e-5 /* of a step, in seconds: a clock may be coarse */
#define PAYS          1.05 /* a device that makes steps less than 5 % faster gets no examples */

/* Devices of one kind are as fast as each other: one of them is measured. */
struct kind {
    size_t first;                 /* of the list */
    bool has[COPSE_MAX_REPLICAS]; /* which of the list are of this kind */
    double speed;                 /* samples/s of one device alone */
};

struct trials {
    struct run *r;
    struct mixture *m;
    struct copse_host_batch batch;
    struct kind kinds[COPSE_MAX_REPLICAS];
    size_t kind_count;
};

/* ---- one trial ---- */

static copse_status run_steps_of(struct run *trial, const struct copse_host_batch *batch,
                                 unsigned steps)
{
    struct copse_step_result result;
    for (unsigned i = 0; i < steps; i++) {
        if (signals_caught())
            return session_set_error(COPSE_ERR_CANCELLED,
                                     "stopped while the devices were measured");
        COPSE_TRY(copse_trainer_step(trial->trainer, batch));
        if (copse_trainer_steps(trial->trainer) >= 4) /* a few steps may be under way */
            COPSE_TRY(copse_trainer_result(trial->trainer, true, &result));
    }
    copse_status s = COPSE_OK;
    while (s == COPSE_OK)
        s = copse_trainer_result(trial->trainer, true, &result);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

/* The first two steps compile kernels and fill caches. */
static copse_status time_steps(struct run *trial, const struct copse_host_batch *batch,
                               double *speed)
{
    double start = run_now(), step, best = INFINITY;
    COPSE_TRY(run_steps_of(trial, batch, 1));
    start = run_now();
    COPSE_TRY(run_steps_of(trial, batch, 1));
    step = fmax(run_now() - start, SHORTEST);
    const double begin = run_now();
    for (int i = 0; i < ROUNDS && (i == 0 || run_now() - begin < MOST_SECONDS); i++) {
        const unsigned steps = step < ROUND_SECONDS ? (unsigned)(ROUND_SECONDS / step) + 1 : 1;
        start = run_now();
        COPSE_TRY(run_steps_of(trial, batch, steps));
        step = (run_now() - start) / steps;
        best = step < best ? step : best;
        step = fmax(step, SHORTEST);
    }
    *speed = (double)batch->count / (best > 1e-9 ? best : 1e-9);
    return COPSE_OK;
}

/* The trial shares the data of the run; what is on devices is its own. */
static copse_status trials_try(struct trials *t, const float *weights, double *speed)
{
    struct run trial = {
        .settings = t->r->settings,
        .ctx = t->r->ctx,
        .all = t->r->all,
        .train = t->r->train,
        .held_out = t->r->held_out,
        .batches = t->r->batches,
        .model = t->r->model,
        .test = t->r->test,
        .fold = t->r->fold,
        .mixture = *t->m,
    };
    trial.model.model = NULL;
    trial.settings.is_quiet = true;
    trial.settings.is_json = false;
    trial.settings.audit = 0;
    trial.settings.has_no_cross_check = true;
    trial.mixture.source = SHARES_GIVEN;
    memcpy(trial.mixture.weights, weights, sizeof trial.mixture.weights);
    copse_status s = run_open_strategy(&trial);
    if (s == COPSE_OK)
        s = run_make_trainer(&trial);
    if (s == COPSE_OK)
        s = time_steps(&trial, &t->batch, speed);
    run_drop_trainer(&trial);
    return s;
}

/* The speed of the run with these devices [samples/s]; 0: the trial failed, and a line says why. Only
   a signal ends the run here. */
static copse_status trials_run(struct trials *t, const float *weights, double *speed)
{
    const copse_status s = trials_try(t, weights, speed);
    if (s == COPSE_OK)
        return COPSE_OK;
    if (signals_caught())
        return session_set_error(COPSE_ERR_CANCELLED, "stopped while the devices were measured");
    fprintf(stderr, "copse train: warning: a measurement of the shares failed on");
    for (size_t i = 0, shown = 0; i < t->m->count; i++)
        if (weights[i] > 0.0f)
            fprintf(stderr, "%s %s", shown++ ? "," : "", t->m->ids[i]);
    fprintf(stderr, ": %s\n", session_error());
    t->m->has_failures = true;
    *speed = 0.0;
    return COPSE_OK;
}

/* ---- the list ---- */

static const struct copse_device_info *info_of(const struct trials *t, size_t index)
{
    const struct copse_device_info *list;
    size_t count, i = 0;
    copse_context_devices(t->r->ctx, &list, &count);
    while (i < count && strcmp(list[i].id, t->m->ids[index]) != 0)
        i++;
    return i < count ? &list[i] : NULL;
}

bool shares_are_alike(const struct copse_device_info *a, const struct copse_device_info *b)
{
    return a && b && a->kind == b->kind && strcmp(a->backend, b->backend) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->driver, b->driver) == 0 &&
           a->memory_bytes == b->memory_bytes && a->limits.compute_units == b->limits.compute_units;
}

static void find_kinds(struct trials *t)
{
    for (size_t i = 0; i < t->m->count; i++) {
        size_t k = 0;
        while (k < t->kind_count && strcmp(t->m->ids[i], t->m->ids[t->kinds[k].first]) != 0 &&
               !shares_are_alike(info_of(t, i), info_of(t, t->kinds[k].first)))
            k++;
        if (k == t->kind_count)
            t->kinds[t->kind_count++] = (struct kind){ .first = i };
        t->kinds[k].has[i] = true;
    }
}

static double parts_of(const struct mixture *m, size_t index)
{
    double parts = 0.0;
    for (size_t i = 0; i < m->count; i++)
        parts += strcmp(m->ids[i], m->ids[index]) == 0;
    return parts;
}

/* Each device alone; then the fastest kind first. */
static copse_status measure_kinds(struct trials *t)
{
    for (size_t k = 0; k < t->kind_count; k++) {
        struct kind *x = &t->kinds[k];
        float weights[COPSE_MAX_REPLICAS] = { 0 };
        weights[x->first] = SHARE_STEPS;
        COPSE_TRY(trials_run(t, weights, &x->speed));
        for (size_t i = 0; i < t->m->count; i++)
            t->m->alone[i] = x->has[i] ? x->speed : t->m->alone[i];
    }
    for (size_t i = 1; i < t->kind_count; i++)
        for (size_t k = i; k > 0 && t->kinds[k].speed > t->kinds[k - 1].speed; k--) {
            const struct kind slower = t->kinds[k - 1];
            t->kinds[k - 1] = t->kinds[k];
            t->kinds[k] = slower;
        }
    return COPSE_OK;
}

/* The shares of the devices that have one, and of the kind: in proportion to the speed of each; n
   replicas on one device have an nth of its speed each. False: the kind gets none. */
static bool weigh_with(const struct trials *t, const struct kind *kind, float *weights)
{
    const struct mixture *m = t->m;
    double speeds[COPSE_MAX_REPLICAS] = { 0 }, most = 0.0;
    bool is_used = false;
    for (size_t i = 0; i < m->count; i++) {
        speeds[i] = kind->has[i] || m->weights[i] > 0.0f ? m->alone[i] / parts_of(m, i) : 0.0;
        most = speeds[i] > most ? speeds[i] : most;
    }
    for (size_t i = 0; i < COPSE_MAX_REPLICAS; i++) {
        weights[i] = i < m->count ? (float)rint(SHARE_STEPS * speeds[i] / most) : 0.0f;
        is_used |= kind->has[i] && weights[i] > 0.0f;
    }
    return is_used;
}

/* Add kind after kind to the fastest device, and keep what makes steps faster. */
static copse_status trials_choose(struct trials *t)
{
    struct mixture *m = t->m;
    memset(m->weights, 0, sizeof m->weights);
    m->weights[t->kinds[0].first] = SHARE_STEPS;
    m->together = t->kinds[0].speed;
    for (size_t k = 0; k < t->kind_count; k++) {
        float weights[COPSE_MAX_REPLICAS];
        double speed;
        if (!weigh_with(t, &t->kinds[k], weights) ||
            memcmp(weights, m->weights, sizeof weights) == 0)
            continue;
        COPSE_TRY(trials_run(t, weights, &speed));
        if (speed >= PAYS * m->together) {
            memcpy(m->weights, weights, sizeof weights);
            m->together = speed;
            continue;
        }
        for (size_t i = 0; i < m->count; i++)
            m->with[i] = t->kinds[k].has[i] ? speed : m->with[i];
    }
    return COPSE_OK;
}

static void take_equal(struct mixture *m)
{
    fprintf(stderr,
            "copse train: warning: no device could be measured with a whole batch; shares are "
            "equal\n");
    for (size_t i = 0; i < m->count; i++)
        m->weights[i] = 1.0f;
    m->source = SHARES_EQUAL;
}

copse_status shares_measure(struct run *r, struct mixture *m)
{
    static struct trials t; /* one run at a time */
    t = (struct trials){ .r = r, .m = m };
    find_kinds(&t);
    COPSE_TRY(copse_loader_next(r->batches, &t.batch));
    copse_status s = measure_kinds(&t);
    m->source = SHARES_MEASURED;
    if (s == COPSE_OK && !(t.kinds[0].speed > 0.0))
        take_equal(m);
    else if (s == COPSE_OK)
        s = trials_choose(&t);
    const copse_status again = copse_loader_start(r->batches, 0, 0);
    return s ? s : again;
}
