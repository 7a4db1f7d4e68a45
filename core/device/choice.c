/* SPDX-License-Identifier: MIT */
/* See choice.h. */
#include "core/device/choice.h"

#include <math.h>
#include <stdio.h>

#include "copse/device/tuning.h"

#define FASTER 1.03 /* a smaller difference is none */

/* ---- physical devices ---- */

static bool is_gpu(const struct copse_device_info *d)
{
    return d->kind != COPSE_DEVICE_CPU && d->kind != COPSE_DEVICE_REFERENCE;
}

/* All CPU drivers use the one processor. */
static bool is_one_device(const struct copse_device_info *a, const struct copse_device_info *b)
{
    return a->kind == COPSE_DEVICE_CPU || b->kind == COPSE_DEVICE_CPU ? a->kind == b->kind
                                                                      : copse__device_is_same(a, b);
}

/* One entry may have the UUID, another the PCI address, and a third one both: all are one device,
   in any order. */
static void find_physical(const copse_context *ctx, struct copse_candidate *at)
{
    const size_t count = ctx->device_count;
    bool is_changed = true;
    for (size_t i = 0; i < count; i++)
        at[i].physical = i;
    while (is_changed) {
        is_changed = false;
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < i; k++) {
                const size_t first = COPSE_MIN(at[i].physical, at[k].physical);
                if (at[i].physical == at[k].physical ||
                    !is_one_device(&ctx->devices[i], &ctx->devices[k]))
                    continue;
                at[i].physical = at[k].physical = first;
                is_changed = true;
            }
        }
    }
}

static bool has_several_drivers(const struct copse_choices *c, size_t index)
{
    size_t drivers = 0;
    for (size_t i = 0; i < c->ctx->device_count; i++)
        drivers += c->ctx->devices[i].is_usable && c->at[i].physical == c->at[index].physical;
    return drivers > 1;
}

static copse_status choices_fill(struct copse_choices *c)
{
    copse_context *ctx = c->ctx;
    const bool allows_all = atomic_load(&ctx->allowed) & COPSE_ALLOW_UNRELIABLE;
    find_physical(ctx, c->at);
    for (size_t i = 0; i < ctx->device_count; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        struct copse_candidate *x = &c->at[i];
        x->is_trusted = d->is_usable &&
                        (allows_all || !copse__is_unreliable(ctx, d, x->fault, sizeof x->fault));
        if (d->is_usable && is_gpu(d) && has_several_drivers(c, i))
            COPSE_TRY(copse__tuning_copy(&ctx->trust, d, &x->tuning));
    }
    return COPSE_OK;
}

copse_status copse__choices_open(copse_context *ctx, struct copse_choices *out)
{
    *out =
        (struct copse_choices){ ctx, copse__alloc(&ctx->base.mem, COPSE_MAX(ctx->device_count, 1),
                                                  sizeof *out->at) };
    if (!out->at)
        return copse_no_memory("devices");
    const copse_status s = choices_fill(out);
    if (s != COPSE_OK)
        copse__choices_close(out);
    return s;
}

void copse__choices_close(struct copse_choices *c)
{
    for (size_t i = 0; c->at && i < c->ctx->device_count; i++)
        copse__free(&c->ctx->base.mem, c->at[i].tuning.at);
    copse__free(&c->ctx->base.mem, c->at);
    c->at = NULL;
}

/* ---- the drivers of a physical device ---- */

/* Those that products take without measurement. */
static bool has_matrix_units(const struct copse_device_info *d)
{
    return (d->limits.matrix_units & COPSE_MATRIX_PREFERRED) != 0;
}

/* The fastest variant of the same work; 0: not measured. */
static uint64_t choice_rate(const struct copse_tuning *t, const struct copse_tuning_entry *work)
{
    uint64_t best = 0;
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->at[i].size_class, work->size_class) == 0 &&
            strcmp(t->at[i].family, work->family) == 0)
            best = COPSE_MAX(best, t->at[i].rate);
    return best;
}

/* Whether an earlier entry is of the same work. */
static bool is_counted(const struct copse_tuning *t, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(t->at[i].size_class, t->at[index].size_class) == 0 &&
            strcmp(t->at[i].family, t->at[index].family) == 0)
            return true;
    return false;
}

/* How many times as fast as b a was measured to be: the geometric mean over the work that both were
   measured in. 0: there is none. */
static double measured_ratio(const struct copse_tuning *a, const struct copse_tuning *b)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t of_a = choice_rate(a, &a->at[i]), of_b = choice_rate(b, &a->at[i]);
        if (of_b == 0 || is_counted(a, i) || strcmp(a->at[i].family, COPSE_TUNED_SHARES) == 0)
            continue;
        sum += log((double)of_a / (double)of_b);
        count++;
    }
    return count > 0 ? exp(sum / (double)count) : 0.0;
}

/* Whether the driver `b` is better than `a`, which is earlier in the list; what the better one is
   better in. */
static bool choice_replaces(const struct copse_choices *c, size_t a, size_t b, char why[96])
{
    const struct copse_device_info *x = &c->ctx->devices[a], *y = &c->ctx->devices[b];
    const bool is_cpu = x->kind == COPSE_DEVICE_CPU;
    if (c->at[a].is_trusted != c->at[b].is_trusted) {
        snprintf(why, 96, "is reliable");
        return c->at[b].is_trusted;
    }
    if (!is_cpu && has_matrix_units(x) != has_matrix_units(y)) {
        snprintf(why, 96, "has matrix units");
        return has_matrix_units(y);
    }
    const double ratio = is_cpu ? 0.0 : measured_ratio(&c->at[b].tuning, &c->at[a].tuning);
    if (ratio > FASTER || (ratio > 0.0 && 1.0 / ratio > FASTER)) {
        snprintf(why, 96, "was measured %.3g times as fast", ratio > 1.0 ? ratio : 1.0 / ratio);
        return ratio > 1.0;
    }
    if (is_cpu && x->limits.has_wide_vectors != y->limits.has_wide_vectors) {
        snprintf(why, 96, "has wide vectors");
        return y->limits.has_wide_vectors;
    }
    snprintf(why, 96, "%s",
             is_cpu        ? "is listed first"
             : ratio > 0.0 ? "is listed first: both were measured equally fast"
                           : "is listed first: `copse tune` has not measured both");
    return false;
}

size_t copse__choices_best(const struct copse_choices *c, size_t physical, const char *backend,
                           char why[96])
{
    size_t best = SIZE_MAX;
    *why = '\0';
    for (size_t i = 0; i < c->ctx->device_count; i++) {
        const struct copse_device_info *d = &c->ctx->devices[i];
        if (!d->is_usable || c->at[i].physical != physical ||
            (backend && strcmp(d->backend, backend) != 0))
            continue;
        if (best == SIZE_MAX || choice_replaces(c, best, i, why))
            best = i;
    }
    return best;
}

/* ---- auto ---- */

/* Devices of the lowest rank are taken. */
static int rank_of(const struct copse_device_info *d)
{
    return d->kind == COPSE_DEVICE_DISCRETE     ? 0
           : d->kind == COPSE_DEVICE_INTEGRATED ? 1
           : d->kind == COPSE_DEVICE_OTHER      ? 2
           : d->kind == COPSE_DEVICE_CPU        ? 3
                                                : 4;
}

/* The first device that is taken; SIZE_MAX: none. */
static size_t first_taken(const struct copse_choices *c)
{
    size_t best = SIZE_MAX;
    char why[96];
    for (size_t i = 0; i < c->ctx->device_count; i++)
        if (c->at[i].is_trusted &&
            (best == SIZE_MAX || rank_of(&c->ctx->devices[i]) < rank_of(&c->ctx->devices[best])))
            best = i;
    return best == SIZE_MAX ? best : copse__choices_best(c, c->at[best].physical, NULL, why);
}

static const char *kind_alone(const struct copse_device_info *d)
{
    return d->kind == COPSE_DEVICE_DISCRETE ? "a discrete GPU"
           : d->kind == COPSE_DEVICE_INTEGRATED
               ? "an integrated GPU, and no discrete one can be used"
           : d->kind == COPSE_DEVICE_OTHER ? "an accelerator, and no GPU can be used"
           : d->kind == COPSE_DEVICE_CPU   ? "the processor, and no GPU can be used"
                                           : "nothing else can be used";
}

static void judge_kind(const struct copse_choices *c, const struct copse_device_info *d, size_t top,
                       struct copse_device_choice *out)
{
    const struct copse_device_info *first = &c->ctx->devices[top];
    if (d->kind == COPSE_DEVICE_REFERENCE) {
        snprintf(out->reason, sizeof out->reason,
                 "slow and exact, in double precision: only where there is nothing else");
    } else if (d->kind == COPSE_DEVICE_CPU) {
        snprintf(out->reason, sizeof out->reason, "the processor, and there is a GPU: %s",
                 first->id);
    } else {
        out->can_join = true;
        snprintf(out->reason, sizeof out->reason,
                 "an %s beside the %s %s, which would wait for it in each step; a run with "
                 "--devices %s,%s measures whether it pays",
                 copse_device_kind_name(d->kind), copse_device_kind_name(first->kind), first->id,
                 first->id, d->id);
    }
}

void copse__choices_judge(const struct copse_choices *c, size_t index,
                          struct copse_device_choice *out)
{
    const struct copse_device_info *d = &c->ctx->devices[index];
    const struct copse_candidate *x = &c->at[index];
    const size_t top = first_taken(c);
    char why[96];
    *out = (struct copse_device_choice){ .is_taken = false };
    if (!x->is_trusted) {
        snprintf(out->reason, sizeof out->reason, "%s: %.180s",
                 d->is_usable ? "unreliable" : "not usable", d->is_usable ? x->fault : d->reason);
        return;
    }
    const size_t best = copse__choices_best(c, x->physical, NULL, why);
    if (best != index) {
        (void)choice_replaces(c, COPSE_MIN(best, index), COPSE_MAX(best, index), why);
        snprintf(out->reason, sizeof out->reason, "the same %s as %s, which %s",
                 d->kind == COPSE_DEVICE_CPU ? "processor" : "device", c->ctx->devices[best].id,
                 why);
    } else if (rank_of(d) != rank_of(&c->ctx->devices[top])) {
        judge_kind(c, d, top, out);
    } else {
        out->is_taken = true;
        snprintf(out->reason, sizeof out->reason, "%s%s%s", kind_alone(d),
                 *why ? "; of its drivers this one " : "", why);
    }
}

bool copse__choices_misses(const struct copse_choices *c, size_t index)
{
    const struct copse_device_info *d = &c->ctx->devices[index];
    const size_t top = first_taken(c);
    return d->is_usable && !c->at[index].is_trusted &&
           (top == SIZE_MAX || rank_of(d) <= rank_of(&c->ctx->devices[top]));
}

copse_status copse_device_choice(copse_context *ctx, const char *device,
                                 struct copse_device_choice *out)
{
    struct copse_choices c;
    size_t i = 0;
    COPSE_TRY(copse_need("choice of devices", ctx, device, out));
    while (i < ctx->device_count && strcmp(ctx->devices[i].id, device) != 0)
        i++;
    if (i == ctx->device_count)
        return copse_fail(COPSE_ERR_NO_DEVICE, "choice of devices: no device '%s'", device);
    COPSE_TRY(copse__choices_open(ctx, &c));
    copse__choices_judge(&c, i, out);
    copse__choices_close(&c);
    return COPSE_OK;
}
