/* SPDX-License-Identifier: MIT */
/* The words after a launch against those that the kernel's reference gives for the words before it. */
#include <math.h>
#include <stdio.h>

#include "core/conformance/launch.h"

#define SMALLEST 0x1p-126
#define FLUSHED  128.0 /* subnormal terms of a sum that a device may have flushed */

static float real_of(uint32_t word)
{
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static uint32_t word_of(float f)
{
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

/* The reference of the kernel: a variant shares that of another kernel, which its self-test names. */
static copse_host_fn *truth_of(struct copse_conform_run *r, const struct copse_launch_image *x)
{
    const struct copse_launch *l = x->launch;
    if (x->row->host)
        return x->row->host;
    struct copse_self_test *t = copse__alloc(&r->ctx->base.mem, 1, sizeof *t);
    struct copse_kernel k = { .row = x->row, .group_x = l->group_x, .group_y = l->group_y };
    memcpy(k.spec, l->spec, sizeof k.spec);
    if (!t)
        return NULL;
    x->row->self_test(&k, t);
    copse_host_fn *truth = t->truth;
    copse__free(&r->ctx->base.mem, t);
    return truth;
}

/* ---- evaluation ---- */

enum change { AS_IS, FLUSHED_SAME, FLUSHED_OTHER, MAGNITUDES };

static double changed(float x, enum change how)
{
    const double y = (double)x;
    if (how == MAGNITUDES)
        return fabs(y);
    if (how == AS_IS || y == 0.0 || !(fabs(y) < SMALLEST))
        return y;
    return copysign(0.0, how == FLUSHED_SAME ? y : -y);
}

struct evaluation {
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
};

static void drop(struct copse_conform_run *r, const struct copse_launch_image *x, struct evaluation *e)
{
    for (uint32_t a = 0; a < x->row->arg_count; a++)
        copse__free(&r->ctx->base.mem, e->args[a].data);
}

/* The reference on the words before the launch. Words of integers and the step buffer stay as they are. */
static copse_status evaluate(struct copse_conform_run *r, const struct copse_launch_image *x, copse_host_fn *truth,
                             enum change how, struct evaluation *e)
{
    const struct copse_launch *l = x->launch;
    memset(e, 0, sizeof *e);
    for (uint32_t a = 0; a < x->row->arg_count; a++) {
        const bool is_real = copse__content_is_real(l->form->contents[a]);
        const bool is_double = is_real && !l->form->is_single;
        e->args[a] = (struct copse_host_arg){ .count = l->counts[a], .is_double = is_double };
        COPSE_TRY(copse__conform_memory(r, l->counts[a], is_double ? sizeof(double) : sizeof(uint32_t),
                                        &e->args[a].data));
        for (size_t i = 0; i < l->counts[a]; i++) {
            const uint32_t word = x->before[a][i];
            const double y = is_real ? changed(real_of(word), how) : 0.0;
            if (is_double)
                ((double *)e->args[a].data)[i] = y;
            else
                ((uint32_t *)e->args[a].data)[i] = is_real && how != AS_IS ? word_of((float)y) : word;
        }
    }
    truth(l->params, l->spec, e->args);
    return COPSE_OK;
}

static double value_at(const struct evaluation *e, uint32_t arg, size_t i)
{
    return copse__load(&e->args[arg], i);
}

/* ---- comparison ---- */

static bool is_same(double a, double b)
{
    return (float)a == (float)b || (isnan(a) && isnan(b));
}

/* A device that flushes may flush operands: the nearest of the results is expected. */
static void take_nearest(double *expected, const struct evaluation *other, uint32_t arg, const uint32_t *got,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double y = value_at(other, arg, i), g = (double)real_of(got[i]);
        if (is_same(g, expected[i]))
            continue;
        if (is_same(g, y) || (!isnan(y) && !(fabs(g - y) >= fabs(g - expected[i]))))
            expected[i] = y;
    }
}

static bool has_bits(uint32_t got, double expected, bool flushes)
{
    const double g = (double)real_of(got);
    if (isnan(expected) || isnan(g))
        return isnan(expected) && isnan(g);
    return got == word_of((float)expected) || (flushes && fabs(g - expected) <= FLUSHED * SMALLEST &&
                                               fabs(g) <= FLUSHED * SMALLEST);
}

/* The same bits, including the sign of zero. */
static void compare_bits(const double *expected, const uint32_t *got, size_t count, bool flushes,
                         struct copse_comparison *out)
{
    size_t wrong = 0;
    static const struct copse_case_limit exact;
    copse__compare(&exact, expected, NULL, expected, count, false, out);
    for (size_t i = 0; i < count; i++)
        if (!has_bits(got[i], expected[i], flushes) && wrong++ == 0) {
            out->index = i;
            out->got = (double)real_of(got[i]);
            out->expected = (double)(float)expected[i];
        }
    out->metric = "bits";
    out->worst = (double)wrong;
    out->limit = 0.0;
    out->is_within = wrong == 0;
}

static void compare_whole(const int32_t *expected, const uint32_t *got, size_t count, struct copse_comparison *out)
{
    size_t wrong = 0;
    *out = (struct copse_comparison){ .metric = "bits" };
    for (size_t i = 0; i < count; i++)
        if (got[i] != (uint32_t)expected[i] && wrong++ == 0) {
            out->index = i;
            out->got = (double)(int32_t)got[i];
            out->expected = (double)expected[i];
        }
    out->worst = (double)wrong;
    out->is_within = wrong == 0;
}

static bool is_exact(const struct copse_case_limit *l)
{
    return !(l->ulp > 0) && !(l->ratio > 0) && !(l->of_max > 0);
}

/* Numbers of one result, as doubles: expected, the basis of the ratio, the device's. */
struct columns {
    double *expected, *size, *got;
};

static copse_status compare_real(struct copse_conform_run *r, const struct copse_launch_image *x, uint32_t arg,
                                 const struct evaluation *e, const struct evaluation *flushed, size_t flushed_count,
                                 const struct evaluation *size, bool flushes, struct copse_comparison *c)
{
    const struct copse_launch_form *f = x->launch->form;
    const size_t count = x->launch->counts[arg];
    const bool exact = is_exact(&f->limit);
    double *room;
    COPSE_TRY(copse__conform_memory(r, count, (exact ? 1 : 3) * sizeof *room, &room));
    const struct columns n = { room, room + count, room + 2 * count };
    for (size_t i = 0; i < count; i++)
        n.expected[i] = value_at(e, arg, i);
    for (size_t w = 0; w < flushed_count; w++)
        take_nearest(n.expected, &flushed[w], arg, x->after[arg], count);
    for (size_t i = 0; i < count && !exact; i++) {
        n.got[i] = (double)real_of(x->after[arg][i]);
        n.size[i] = f->limit.ratio > 0 ? value_at(size, arg, i) : 0.0;
    }
    if (exact)
        compare_bits(n.expected, x->after[arg], count, flushes, c);
    else
        copse__compare(&f->limit, n.expected, n.size, n.got, count, flushes, c);
    copse__free(&r->ctx->base.mem, room);
    return COPSE_OK;
}

static void report(const struct copse_launch_image *x, uint32_t arg, const struct copse_comparison *c,
                   struct copse_conform_outcome *out)
{
    const struct copse_launch *l = x->launch;
    struct copse_case_result *o = &out->result;
    if (o->verdict == COPSE_VERDICT_PASS && (!c->is_within || !(c->worst <= o->worst) || !o->metric[0])) {
        o->metric = c->metric;
        o->worst = c->worst;
        o->limit = c->limit;
        o->index = c->index;
        o->got = c->got;
        o->expected = c->expected;
    }
    o->nmse = fmax(o->nmse, c->nmse);
    if (!c->is_within)
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "buffer %u is outside the tolerance; %llu groups of %u, the result has %zu words", arg,
                           (unsigned long long)l->groups, copse__launch_group(l), l->counts[arg]);
    if (c->is_poor && !l->form->is_poor && l->values == COPSE_VALUES_USUAL)
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED, "buffer %u is nearly all zero or all the same: proves little",
                           arg);
}

copse_status copse__launch_judge(struct copse_conform_run *r, const struct copse_launch_image *x,
                                 bool keeps_subnormals, struct copse_conform_outcome *out)
{
    const struct copse_launch_form *f = x->launch->form;
    const bool flushes = !keeps_subnormals && !f->keeps_subnormals;
    const bool has_subnormals = x->launch->values == COPSE_VALUES_SUBNORMALS ||
                                x->launch->values == COPSE_VALUES_MIXED;
    copse_host_fn *truth = truth_of(r, x);
    struct evaluation e = { .args = { { 0 } } }, flushed[2] = { e, e }, size = e;
    size_t flushed_count = 0;
    copse_status s = COPSE_OK;
    if (!truth)
        return copse_fail(COPSE_ERR_INTERNAL, "conformance: %s has no reference", x->row->name);
    COPSE_TRY_OR(done, s, evaluate(r, x, truth, AS_IS, &e));
    for (; flushes && has_subnormals && flushed_count < 2; flushed_count++)
        COPSE_TRY_OR(done, s, evaluate(r, x, truth, flushed_count ? FLUSHED_OTHER : FLUSHED_SAME,
                                       &flushed[flushed_count]));
    if (f->limit.ratio > 0)
        COPSE_TRY_OR(done, s, evaluate(r, x, f->size ? f->size : truth, f->size ? AS_IS : MAGNITUDES, &size));
    for (uint32_t a = 0; a < x->row->arg_count; a++) {
        struct copse_comparison c;
        if (!x->row->args[a].is_written)
            continue;
        if (copse__content_is_real(f->contents[a]))
            COPSE_TRY_OR(done, s, compare_real(r, x, a, &e, flushed, flushed_count, &size, flushes, &c));
        else
            compare_whole(e.args[a].data, x->after[a], x->launch->counts[a], &c);
        report(x, a, &c, out);
    }
done:
    drop(r, x, &e);
    drop(r, x, &flushed[0]);
    drop(r, x, &flushed[1]);
    drop(r, x, &size);
    return s;
}
