/* SPDX-License-Identifier: MIT */
/* The words after a launch against those that the kernel's reference gives for the words before
   it. */
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/sum_bound.h"
#include "prover/conformance/launch/launch.h"

#define SMALLEST 0x1p-126
#define FLUSHED  128.0 /* subnormal terms of a sum that a device may have flushed */
/* numbers whose product with a usual number may be subnormal */
#define NEAR (FLUSHED * SMALLEST)
#define ROOT 0x1p-59 /* numbers whose square is below NEAR */

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

/* ---- evaluation ---- */

/* Flushed: subnormal operands are zeros, of the same sign or of the other one. Near: so are the
   smallest normal numbers, as if the first product with them was flushed. Squares: so are numbers
   whose square is. */
enum change {
    FLUSHED_SAME,
    FLUSHED_OTHER,
    NEAR_SAME,
    NEAR_OTHER,
    FLUSHES,
    SQUARES,
    AS_IS,
    MAGNITUDES
};

#define ALL UINT32_MAX /* operands */

static double launch_judge_changed(float x, enum change how)
{
    const double y = (double)x;
    if (how == MAGNITUDES)
        return fabs(y);
    if (how == AS_IS || y == 0.0 ||
        !(fabs(y) < (how == SQUARES     ? ROOT
                     : how >= NEAR_SAME ? NEAR
                                        : SMALLEST)))
        return y;
    return copysign(0.0, how == FLUSHED_OTHER || how == NEAR_OTHER ? -y : y);
}

struct evaluation {
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
};

static void launch_judge_drop(struct copse_conform_run *r, const struct copse_launch_image *x,
                              struct evaluation *e)
{
    for (uint32_t a = 0; a < x->row->arg_count; a++)
        copse__free(&r->ctx->base.mem, e->args[a].data);
}

/* Run the reference on the words before the launch. `how` changes the words of operand `only`, or
   of all operands. Integers and the step buffer stay as they are. */
static copse_status launch_judge_evaluate(struct copse_conform_run *r,
                                          const struct copse_launch_image *x, copse_host_fn *truth,
                                          const int32_t *spec, enum change how, uint32_t only,
                                          struct evaluation *e)
{
    const struct copse_launch *l = x->launch;
    memset(e, 0, sizeof *e);
    for (uint32_t a = 0; a < x->row->arg_count; a++) {
        const bool is_real = copse__content_is_real(l->form->contents[a]);
        const bool is_double = is_real && !l->form->is_single;
        e->args[a] = (struct copse_host_arg){ .count = l->counts[a], .is_double = is_double };
        COPSE_TRY(copse__conform_memory(
            r, l->counts[a], is_double ? sizeof(double) : sizeof(uint32_t), &e->args[a].data));
        for (size_t i = 0; i < l->counts[a]; i++) {
            const uint32_t word = x->before[a][i];
            const double y = is_real ? launch_judge_changed(real_of(word),
                                                            only == ALL || only == a ? how : AS_IS)
                                     : 0.0;
            if (is_double)
                ((double *)e->args[a].data)[i] = y;
            else
                ((uint32_t *)e->args[a].data)[i] =
                    is_real && how != AS_IS ? word_of((float)y) : word;
        }
    }
    truth(l->params, spec, e->args);
    for (uint32_t a = 0; a < x->row->arg_count; a++)
        if (!x->row->args[a].is_written) { /* several evaluations are kept */
            copse__free(&r->ctx->base.mem, e->args[a].data);
            e->args[a].data = NULL;
        }
    return COPSE_OK;
}

/* The basis of the ratio. */
static copse_status evaluate_size(struct copse_conform_run *r, const struct copse_launch_image *x,
                                  struct evaluation *e)
{
    const struct copse_law *law = x->row->law;
    int32_t spec[COPSE_MAX_SPECS];
    memcpy(spec, x->launch->spec, sizeof spec);
    if (law->magnitudes)
        law->magnitudes(spec);
    return law->limit.size
               ? launch_judge_evaluate(r, x, law->limit.size, x->launch->spec, AS_IS, ALL, e)
               : launch_judge_evaluate(r, x, law->host, spec, law->has_signs ? AS_IS : MAGNITUDES,
                                       ALL, e);
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

/* Both are so small that flushed terms explain the difference. */
static bool is_flushed(double got, double expected)
{
    return fabs(got - expected) <= NEAR && fabs(got) <= NEAR;
}

/* A device that flushes may flush operands: the nearest of the results is expected. On the others a
   form that underflows may have NaN for infinity. */
static void take_nearest(double *expected, const struct evaluation *other, uint32_t arg,
                         const uint32_t *got, size_t count, bool flushes)
{
    for (size_t i = 0; i < count; i++) {
        const double y = value_at(other, arg, i), g = (double)real_of(got[i]);
        if (is_same(g, expected[i]) || (!flushes && !(isnan(y) && isinf(expected[i]))))
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
    return got == word_of((float)expected) || (flushes && is_flushed(g, expected));
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

/* Zeros of the other sign, where the operands are zeros and usual numbers: no result is 0 because
   it is small. */
static void compare_zeros(const double *expected, const uint32_t *got, size_t count,
                          struct copse_comparison *out)
{
    for (size_t i = 0; i < count && out->is_within; i++)
        if (expected[i] == 0.0 && real_of(got[i]) == 0.0f &&
            got[i] != word_of((float)expected[i])) {
            out->is_within = false;
            out->metric = "bits";
            out->worst = 1.0;
            out->limit = 0.0;
            out->index = i;
            out->got = (double)real_of(got[i]);
            out->expected = expected[i];
        }
}

static bool is_any(uint32_t got, const struct evaluation *flushed, size_t count, uint32_t arg,
                   size_t i)
{
    bool is_one = false;
    for (size_t w = 0; w < count; w++)
        is_one |= got == ((const uint32_t *)flushed[w].args[arg].data)[i];
    return is_one;
}

/* Integers, such as the place of a maximum. A device that flushes may compare flushed operands. */
static void compare_whole(const struct evaluation *e, const struct evaluation *flushed,
                          size_t flushed_count, uint32_t arg, const uint32_t *got, size_t count,
                          struct copse_comparison *out)
{
    const int32_t *expected = e->args[arg].data;
    size_t wrong = 0;
    *out = (struct copse_comparison){ .metric = "bits" };
    for (size_t i = 0; i < count; i++)
        if (got[i] != (uint32_t)expected[i] && !is_any(got[i], flushed, flushed_count, arg, i) &&
            wrong++ == 0) {
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

struct copse_case_limit copse__launch_limit(const struct copse_launch_form *f)
{
    struct copse_limit of;
    copse__law_limit(copse_kernel_table[f->kernel].law, NULL, f->spec, &of);
    return (struct copse_case_limit){
        .ulp = of.ulp, .floor = of.floor, .ratio = of.ratio, .is_proven = f->is_proven
    };
}

static struct copse_case_limit limit_of(const struct copse_launch_image *x)
{
    return x->limit ? *x->limit : copse__launch_limit(x->launch->form);
}

/* Numbers of one result, as doubles: expected, the basis of the ratio, the device's. */
struct columns {
    double *expected, *size, *got;
};

static copse_status compare_real(struct copse_conform_run *r, const struct copse_launch_image *x,
                                 uint32_t arg, const struct evaluation *e,
                                 const struct evaluation *flushed, size_t flushed_count,
                                 const struct evaluation *size, bool flushes,
                                 struct copse_comparison *c)
{
    const struct copse_launch_form *f = x->launch->form;
    const size_t count = x->launch->counts[arg];
    struct copse_case_limit limit = limit_of(x);
    const bool exact = is_exact(&limit);
    double *room;
    COPSE_TRY(copse__conform_memory(r, count, (exact ? 1 : 3) * sizeof *room, &room));
    const struct columns n = { room, room + count, room + 2 * count };
    if (limit.is_proven)
        limit.ratio =
            copse__launch_bound(x->row->law, x->launch->params, x->launch->spec, r->dev->limits);
    for (size_t i = 0; i < count; i++)
        n.expected[i] = value_at(e, arg, i);
    for (size_t w = 0; w < flushed_count; w++)
        take_nearest(n.expected, &flushed[w], arg, x->after[arg], count, flushes);
    for (size_t i = 0; i < count && !exact; i++) {
        n.got[i] = (double)real_of(x->after[arg][i]);
        if (flushes && is_flushed(n.got[i], n.expected[i]))
            n.expected[i] = n.got[i];
        n.size[i] = limit.ratio > 0 ? value_at(size, arg, i) : 0.0;
    }
    if (exact)
        compare_bits(n.expected, x->after[arg], count, flushes, c);
    else
        copse__compare(&limit, n.expected, n.size, n.got, count, flushes, c);
    if (f->has_zero_signs && !flushes && x->launch->values == COPSE_VALUES_ZEROS)
        compare_zeros(n.expected, x->after[arg], count, c);
    copse__free(&r->ctx->base.mem, room);
    return COPSE_OK;
}

static void launch_judge_report(const struct copse_launch_image *x, uint32_t arg,
                                const struct copse_comparison *c, struct copse_conform_outcome *out)
{
    const struct copse_launch *l = x->launch;
    struct copse_case_result *o = &out->result;
    if (o->verdict == COPSE_VERDICT_PASS &&
        (!c->is_within || !(c->worst <= o->worst) || !o->metric[0])) {
        o->metric = c->metric;
        o->worst = c->worst;
        o->limit = c->limit;
        o->index = c->index;
        o->got = c->got;
        o->expected = c->expected;
    }
    o->nmse = fmax(o->nmse, c->nmse);
    if (!c->is_within)
        copse__conform_set(
            out, COPSE_VERDICT_FAIL,
            "buffer %u is outside the tolerance; %llu groups of %u, the result has %zu words", arg,
            (unsigned long long)l->groups, copse__launch_group(l), l->counts[arg]);
    if (c->is_poor && !l->form->is_poor && l->values == COPSE_VALUES_USUAL)
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED,
                           "buffer %u is nearly all zero or all the same: proves little", arg);
}

/* What the words after a launch are compared with. */
struct truths {
    struct evaluation as_is, size, flushed[FLUSHES + 2 * COPSE_MAX_BINDINGS];
    size_t flushed_count;
    /* the device flushes; operands or products of them may be small enough for that */
    bool flushes, has_small;
};

/* Way w to flush. */
static enum change launch_judge_way(const struct copse_launch_form *f, size_t w)
{
    if (w < FLUSHES)
        return (enum change)w;
    return w % 2 == 0 ? FLUSHED_SAME : f->has_squares ? SQUARES : FLUSHED_OTHER;
}

/* Evaluate with the next two ways to flush: all operands, then each alone. Most results agree with
   the first ones. */
static copse_status flush_more(struct copse_conform_run *r, const struct copse_launch_image *x,
                               copse_host_fn *truth, struct truths *t)
{
    for (size_t end = t->flushed_count + 2; t->flushed_count < end; t->flushed_count++) {
        const size_t w = t->flushed_count;
        COPSE_TRY(launch_judge_evaluate(
            r, x, truth, x->launch->spec, launch_judge_way(x->launch->form, w),
            w < FLUSHES ? ALL : (uint32_t)(w - FLUSHES) / 2, &t->flushed[w]));
    }
    return COPSE_OK;
}

static copse_status launch_judge_compare(struct copse_conform_run *r,
                                         const struct copse_launch_image *x, uint32_t arg,
                                         const struct truths *t, struct copse_comparison *c)
{
    if (copse__content_is_real(x->launch->form->contents[arg]))
        return compare_real(r, x, arg, &t->as_is, t->flushed, t->flushed_count, &t->size,
                            t->flushes, c);
    compare_whole(&t->as_is, t->flushed, t->flushes ? t->flushed_count : 0, arg, x->after[arg],
                  x->launch->counts[arg], c);
    return COPSE_OK;
}

static copse_status judge_image(struct copse_conform_run *r, const struct copse_launch_image *x,
                                copse_host_fn *truth, struct truths *t,
                                struct copse_conform_outcome *out)
{
    const struct copse_launch_form *f = x->launch->form;
    COPSE_TRY(launch_judge_evaluate(r, x, truth, x->launch->spec, AS_IS, ALL, &t->as_is));
    if (limit_of(x).ratio > 0)
        COPSE_TRY(evaluate_size(r, x, &t->size));
    for (uint32_t a = 0; a < x->row->arg_count; a++) {
        struct copse_comparison c;
        if (!x->row->args[a].is_written)
            continue;
        COPSE_TRY(launch_judge_compare(r, x, a, t, &c));
        while (!c.is_within && (t->flushes || f->underflows) && t->has_small &&
               t->flushed_count < FLUSHES + (size_t)2 * x->row->arg_count) {
            COPSE_TRY(flush_more(r, x, truth, t));
            COPSE_TRY(launch_judge_compare(r, x, a, t, &c));
        }
        launch_judge_report(x, a, &c, out);
    }
    return COPSE_OK;
}

copse_status copse__launch_judge(struct copse_conform_run *r, const struct copse_launch_image *x,
                                 bool keeps_subnormals, struct copse_conform_outcome *out)
{
    const enum copse_values values = x->launch->values;
    copse_host_fn *truth = x->row->law->host;
    struct truths *t;
    COPSE_TRY(copse__conform_memory(r, 1, sizeof *t, &t));
    t->flushes = !keeps_subnormals && !x->launch->form->keeps_subnormals;
    t->has_small = values == COPSE_VALUES_SUBNORMALS || values == COPSE_VALUES_EXTREMES ||
                   values == COPSE_VALUES_MIXED;
    const copse_status s = judge_image(r, x, truth, t, out);
    launch_judge_drop(r, x, &t->as_is);
    launch_judge_drop(r, x, &t->size);
    for (size_t w = 0; w < COPSE_COUNT(t->flushed); w++)
        launch_judge_drop(r, x, &t->flushed[w]);
    copse__free(&r->ctx->base.mem, t);
    return s;
}
