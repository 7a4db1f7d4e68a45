/* SPDX-License-Identifier: MIT */
/* Mode launch: the cases, and one case on a device. Each buffer of a launch is between two guard
   bands of NaN, or between one and a page without access (fence.h). */
#include <stdio.h>

#include "prover/conformance/launch/launch.h"
#include "prover/conformance/rig/fence.h"
#include "prover/conformance/verdict/own_launch.h"

#define TEXEL_BYTES 16u

/* Bytes of all buffers of a launch. The references take several times as much. */
#define MANY_BYTES ((size_t)2 << 20)
#define AXIS_BYTES ((size_t)24 << 20)
#define PER        32u /* as update rules and reductions launch their kernels */

const char *const copse_regime_names[COPSE_REGIME_COUNT] = {
    "one group", "few groups", "tail", "one short", "many groups", "more than an axis",
};

const struct copse_launch_list *const copse_launch_lists[] = {
    &copse_launch_elementwise,
    &copse_launch_moves,
    &copse_launch_optim,
    &copse_launch_sums,
    &copse_launch_rows,
    &copse_launch_held,
    &copse_launch_sorts,
    &copse_launch_products,
    &copse_launch_panels,
    &copse_launch_convs,
    &copse_launch_pools,
    &copse_launch_channels,
    &copse_launch_attention,
    &copse_launch_recurrent,
    &copse_launch_decoders,
    &copse_launch_blocks,
    NULL,
};

/* ---- sizes ---- */

static size_t bytes_of(const struct copse_launch *l, uint32_t arg)
{
    return (size_t)copse__round_up(COPSE_WORD_BYTES * l->counts[arg], 16);
}

static size_t all_bytes(const struct copse_launch *l)
{
    size_t sum = 0;
    for (uint32_t a = 0; a < COPSE_MAX_BINDINGS; a++)
        sum += bytes_of(l, a);
    return sum;
}

static void mode_launch_plan(struct copse_launch *l, const struct copse_limits *limits)
{
    const struct copse_launch_form *f = l->form;
    copse__kernel_group(limits, f->kernel, &l->group_x, &l->group_y);
    memcpy(l->spec, f->spec, sizeof l->spec);
    if (!f->is_stream) {
        l->per = 1;
    } else {
        l->spec[0] = (int32_t)l->per;
        l->spec[1] = limits->has_wide_vectors && l->regime != COPSE_REGIME_AXIS; /* both orders */
    }
    memset(l->counts, 0, sizeof l->counts);
    f->plan(l);
}

size_t copse__launch_size(struct copse_launch *l, struct copse_limits *limits)
{
    static const uint32_t counts[COPSE_REGIME_COUNT] = { 1, 3, 5, 32, 1021, 0 };
    const bool is_axis = l->regime == COPSE_REGIME_AXIS;
    l->want = counts[l->regime];
    l->per = PER;
    if (is_axis) {
        limits->max_group_count = COPSE_MIN(limits->max_group_count, COPSE_AXIS_GROUPS);
        l->want = limits->max_group_count + (uint64_t)6;
    }
    mode_launch_plan(l, limits);
    while (l->regime == COPSE_REGIME_MANY && all_bytes(l) > MANY_BYTES && l->want > 64) {
        l->want /= 2;
        mode_launch_plan(l, limits);
    }
    while (is_axis && all_bytes(l) > AXIS_BYTES &&
           copse__launch_group(l) > COPSE_MAX(l->form->least_group, 1)) {
        limits->max_group_size = COPSE_MIN(limits->max_group_size, copse__launch_group(l)) / 2;
        mode_launch_plan(l, limits);
    }
    while (l->regime >= COPSE_REGIME_MANY && all_bytes(l) > (is_axis ? AXIS_BYTES : MANY_BYTES) &&
           l->per > 1) {
        l->per /= 2;
        mode_launch_plan(l, limits);
    }
    return all_bytes(l);
}

/* ---- a device with lower limits ---- */

/* The devices of a run of this mode: the run's own one, and those with smaller groups, which open
   with their first case. */
struct bench {
    copse_device *small[16]; /* by the logarithm of the group size */
    struct copse_own_row *own[16];
};

static void close_bench(struct copse_conform_run *r, struct bench *b)
{
    for (size_t i = 0; i < COPSE_COUNT(b->small); i++) {
        copse_device_release(&b->small[i]);
        copse__own_kernel_close(r->ctx, &b->own[i]);
    }
}

static copse_status device_for(struct copse_conform_run *r, struct bench *b,
                               const struct copse_limits *limits, copse_device **out)
{
    size_t i = 0;
    while (i + 1 < COPSE_COUNT(b->small) && (2u << i) <= limits->max_group_size)
        i++;
    if (b->small[i] && copse__device_check(b->small[i])) { /* lost */
        copse_device_release(&b->small[i]);
        copse__own_kernel_close(r->ctx, &b->own[i]);
    }
    if (!b->small[i]) {
        COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, &b->small[i]));
        COPSE_TRY(copse__device_limit(b->small[i], limits));
        b->small[i]->tries_blocked = true;
        if (r->params->own)
            COPSE_TRY(copse__own_kernel_open(r->ctx, b->small[i], r->params->own, &b->own[i]));
    }
    *out = b->small[i];
    return COPSE_OK;
}

/* ---- one launch ---- */

struct work {
    struct copse_launch launch;
    struct bench *bench;
};

/* Whether the device can bind the buffers of the launch; UNSUPPORTED with the reason if not. */
static bool mode_launch_fits(const copse_device *dev, const struct copse_launch *l,
                             const struct copse_kernel_row *row, struct copse_conform_outcome *out)
{
    const struct copse_limits *limits = dev->limits;
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const bool is_texel = row->args[a].kind == COPSE_ARG_TEXEL;
        const unsigned long long size =
            is_texel ? bytes_of(l, a) / TEXEL_BYTES : copse__fence_room(dev, l->counts[a]);
        const unsigned long long most =
            is_texel ? limits->max_texel_elements
                     : COPSE_MIN(limits->max_binding_bytes, limits->max_buffer_bytes);
        if (size <= most)
            continue;
        copse__conform_set(out, COPSE_VERDICT_UNSUPPORTED,
                           "buffer %u has %llu %s, %s binds at most %llu", a, size,
                           is_texel ? "texels" : "bytes", dev->info.id, most);
        return false;
    }
    return true;
}

static copse_status mode_launch_check(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out)
{
    struct work *w = user;
    struct copse_launch *l = &w->launch;
    struct copse_limits limits = *r->dev->limits;
    copse_device *dev = r->dev;
    struct copse_kernel *k;
    struct copse_launch_rig g = { .queue = NULL };
    l->seed = out->result.seed;
    out->result.metric = "";
    copse__launch_size(l, &limits);
    if (l->regime == COPSE_REGIME_AXIS)
        COPSE_TRY(device_for(r, w->bench, &limits, &dev));
    if (dev != r->dev && r->own) /* the run checks that this device compiled the user kernel */
        COPSE_TRY(copse__kernel_get(r->dev, l->form->kernel, l->spec, &k));
    COPSE_TRY(copse__kernel_get(dev, l->form->kernel, l->spec, &k));
    if (!mode_launch_fits(dev, l, k->row, out))
        return COPSE_OK;
    copse_status s = copse__launch_open(r, dev, l, k->row->arg_count, &g);
    if (!s)
        s = copse__launch_run(l, k, &g);
    if (!s) {
        struct copse_launch_image image = { .launch = l,
                                            .row = &copse_kernel_table[l->form->kernel] };
        for (uint32_t a = 0; a < k->row->arg_count; a++) {
            image.before[a] = copse__launch_words(g.before[a]);
            image.after[a] = copse__launch_words(g.after[a]);
        }
        copse__launch_check_untouched(l, k->row, &g, out);
        s = copse__launch_judge(r, &image, dev->limits->keeps_denormals, out);
    }
    copse__launch_close(r, &g);
    return s;
}

/* ---- the cases ---- */

/* Small launches have a case for each class of values, larger ones all classes in one; those of few
   groups, whose sums are the longest, also usual numbers alone. */
static bool is_taken(const struct copse_launch_form *f, unsigned regime, unsigned values)
{
    const bool is_small = regime == COPSE_REGIME_ONE || regime == COPSE_REGIME_TAIL;
    if (f->no_regimes & COPSE_BIT(regime))
        return false;
    if (values == COPSE_VALUES_MIXED)
        return !is_small;
    return !(f->no_values & COPSE_BIT(values)) &&
           (is_small || (f->apart & COPSE_BIT(values)) ||
            (regime == COPSE_REGIME_FEW && values == COPSE_VALUES_USUAL));
}

static void visit_form(const struct copse_launch_form *form, copse_launch_case_fn *visit,
                       void *user)
{
    for (unsigned regime = 0; regime < COPSE_REGIME_COUNT; regime++)
        for (unsigned values = 0; values <= COPSE_VALUES_COUNT; values++) {
            struct copse_launch_case c = { .form = form,
                                           .regime = (enum copse_regime)regime,
                                           .values = (enum copse_values)values };
            if (!is_taken(form, regime, values))
                continue;
            snprintf(c.name, sizeof c.name, "%s%s%s, %s", form->name, form->name[0] ? ": " : "",
                     copse_regime_names[regime], copse_values_names[values]);
            c.tier = regime == COPSE_REGIME_AXIS ? COPSE_CONFORM_STANDARD : COPSE_CONFORM_QUICK;
            c.tier = COPSE_MAX(c.tier, form->tier);
            visit(user, &c);
        }
}

void copse__launch_cases_of(const struct copse_launch_list *const *lists,
                            enum copse_kernel_id kernel, copse_launch_case_fn *visit, void *user)
{
    for (size_t i = 0; lists[i]; i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            if (lists[i]->forms[k].kernel == kernel)
                visit_form(&lists[i]->forms[k], visit, user);
}

void copse__launch_cases(const struct copse_launch_list *const *lists, copse_launch_case_fn *visit,
                         void *user)
{
    for (size_t i = 0; lists[i]; i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            visit_form(&lists[i]->forms[k], visit, user);
}

struct walk {
    struct copse_conform_run *run;
    struct bench bench;
};

/* The kernel is the forced variant: a failure blocks it. */
static void mode_launch_take(void *user, const struct copse_launch_case *c)
{
    struct walk *w = user;
    struct work work = { .launch = { .form = c->form, .regime = c->regime, .values = c->values },
                         .bench = &w->bench };
    const char *kernel = copse_kernel_table[c->form->kernel].name;
    const struct copse_own_kernel *own = w->run->params->own;
    /* a user kernel takes no part in the launches of others */
    if (own && strcmp(own->kernel, kernel) != 0)
        return;
    if ((c->tier > w->run->params->tier && !w->run->params->case_name) || w->run->is_stopped)
        return;
    copse__conform_one(w->run, &(struct copse_conform_case){ "launch", kernel, c->name, kernel },
                       mode_launch_check, &work);
}

copse_status copse__conform_launch(struct copse_conform_run *r)
{
    struct walk w = { .run = r };
    if (copse__own_launch_is(r->params->own))
        return copse__own_launch_cases(r);
    copse__launch_cases(copse_launch_lists, mode_launch_take, &w);
    close_bench(r, &w.bench);
    return COPSE_OK;
}
