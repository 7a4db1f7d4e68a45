/* SPDX-License-Identifier: MIT */
/* A case's graph, its inputs, and the expected results. Uses no device. */
#include <math.h>
#include <stdio.h>

#include "core/graph/type.h"
#include "prover/conformance/rig/case_rig.h"

static size_t case_rig_elements(const copse_tensor *t)
{
    return (size_t)copse__elements(t->shape);
}

static copse_status case_rig_numbers(const struct copse_rig *rig, const copse_tensor *t,
                                     double **out)
{
    *out = copse__alloc(rig->mem, case_rig_elements(t), sizeof **out);
    return *out ? COPSE_OK
                : copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for %zu numbers",
                             case_rig_elements(t));
}

bool copse__case_has_gradient(const struct copse_case *c)
{
    bool has_any = false;
    for (size_t i = 0; i < c->in_count; i++)
        has_any = has_any || (c->in[i].type == COPSE_F32 && !c->in[i].is_constant);
    return has_any && !c->has_no_gradient;
}

/* ---- evaluation ---- */

struct feed {
    const struct copse_rig *rig;
    double *const *values;
};

static copse_status case_rig_feed(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const struct feed *f = user;
    size_t i = 0;
    while (i < f->rig->in_count && f->rig->in[i] != leaf)
        i++;
    if (i == f->rig->in_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: a case has one input too many");
    for (size_t k = 0; k < count; k++)
        if (leaf->type == COPSE_F32)
            ((double *)values)[k] = f->values[i][k];
        else
            copse__type(leaf->type)->put(values, k, f->values[i][k]);
    return COPSE_OK;
}

copse_status copse__rig_evaluate(const struct copse_rig *rig, double *const *values, size_t count,
                                 double *const *results)
{
    struct feed f = { rig, values };
    const struct copse_reference_params p = { rig->graph, case_rig_feed, &f, rig->step };
    return copse__reference_run(&p, rig->out, count, results);
}

static double case_rig_magnitude(double x)
{
    return fabs(x);
}

static bool is_subnormal(double x)
{
    return x != 0 && fabs(x) < 0x1p-126;
}

static double case_rig_flush(double x)
{
    return is_subnormal(x) ? copysign(0, x) : x;
}

static double flush_turned(double x)
{
    return is_subnormal(x) ? copysign(0, -x) : x;
}

/* The same graph with other values for the inputs in the mask `which`. */
static copse_status evaluate_changed(struct copse_rig *rig, unsigned which,
                                     double (*change)(double), double **results)
{
    double *values[COPSE_RIG_ROOM] = { NULL };
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < rig->in_count; i++) {
        COPSE_TRY_OR(done, s, case_rig_numbers(rig, rig->in[i], &values[i]));
        for (size_t k = 0; k < case_rig_elements(rig->in[i]); k++)
            values[i][k] = which >> i & 1 ? change(rig->values[i][k]) : rig->values[i][k];
    }
    for (size_t i = 0; i < rig->out_count; i++)
        COPSE_TRY_OR(done, s, case_rig_numbers(rig, rig->out[i], &results[i]));
    s = copse__rig_evaluate(rig, values, rig->out_count, results);
done:
    for (size_t i = 0; i < rig->in_count; i++)
        copse__free(rig->mem, values[i]);
    return s;
}

static bool has_subnormals(const struct copse_rig *rig, size_t i)
{
    for (size_t k = 0; k < case_rig_elements(rig->in[i]); k++)
        if (is_subnormal(rig->values[i][k]))
            return true;
    return false;
}

/* OpenCL C, "Edge case behavior in flush to zero mode": a device that flushes may decide for each
   operand, and the sign of the zero is undefined. A Vulkan device that does not declare to preserve
   subnormals may do the same. So each non-empty set of inputs is flushed, to zeros of the same sign
   and of the opposite one: 6 combinations for two inputs. More inputs are flushed all at once. */
static copse_status evaluate_flushed(struct copse_rig *rig)
{
    unsigned has = 0;
    size_t ways = 0, inputs = 0;
    for (size_t i = 0; i < rig->in_count; i++)
        if (has_subnormals(rig, i)) {
            has |= 1u << i;
            inputs++;
        }
    for (unsigned set = has; set; set = (set - 1) & has) {
        COPSE_TRY(evaluate_changed(rig, set, case_rig_flush, rig->flushed[ways++]));
        COPSE_TRY(evaluate_changed(rig, set, flush_turned, rig->flushed[ways++]));
        if (inputs > 2)
            break;
    }
    return COPSE_OK;
}

/* ---- the graph ---- */

static copse_status add_input(struct copse_rig *rig, uint64_t seed, const char *name,
                              copse_type type, copse_shape shape)
{
    const size_t i = rig->in_count;
    rig->in[i] = copse_graph_input(rig->graph, name, type, shape);
    COPSE_TRY(copse_graph_status(rig->graph));
    COPSE_TRY(case_rig_numbers(rig, rig->in[i], &rig->values[i]));
    rig->in_count++;
    copse__fill(rig->c, (uint32_t)i, seed, case_rig_elements(rig->in[i]), rig->values[i]);
    return COPSE_OK;
}

static copse_status case_rig_build(struct copse_rig *rig, uint64_t seed, bool has_gradient)
{
    const struct copse_case *c = rig->c;
    copse_tensor *x[COPSE_CASE_INPUTS], *dx[COPSE_CASE_INPUTS];
    size_t wanted = 0;
    char name[8];
    for (size_t i = 0; i < c->in_count; i++) {
        snprintf(name, sizeof name, "in%zu", i);
        COPSE_TRY(add_input(rig, seed, name, c->in[i].type, c->in[i].shape));
        if (c->in[i].type == COPSE_F32 && !c->in[i].is_constant) {
            rig->source[1 + wanted] = i;
            x[wanted++] = rig->in[i];
        }
    }
    rig->out[0] = c->build(rig->graph, rig->in, c->user);
    COPSE_TRY(copse_graph_status(rig->graph));
    rig->out_count = 1;
    if (!has_gradient)
        return COPSE_OK;
    COPSE_TRY(add_input(rig, seed, "dy", COPSE_F32, rig->out[0]->shape));
    copse_gradients(rig->graph, rig->out[0], rig->in[rig->in_count - 1], x, wanted, dx);
    COPSE_TRY(copse_graph_status(rig->graph));
    for (size_t i = 0; i < wanted; i++)
        rig->out[rig->out_count++] = dx[i];
    return COPSE_OK;
}

copse_status copse__rig_open(copse_context *ctx, const struct copse_case *c, uint64_t seed,
                             bool has_gradient, struct copse_rig *rig)
{
    *rig = (struct copse_rig){ .mem = &ctx->base.mem, .c = c };
    if (c->step)
        memcpy(rig->step, c->step, sizeof rig->step);
    else
        rig->step[COPSE_STEP_SHARE] = rig->step[COPSE_STEP_SCALE] = 0x3f800000u; /* 1.0f */
    COPSE_TRY(copse_graph_create(ctx, &rig->graph));
    return case_rig_build(rig, seed, has_gradient);
}

/* ---- what is expected ---- */

static copse_case_build *magnitude_of(const struct copse_rig *rig, size_t i)
{
    return i == 0 ? rig->c->magnitude : rig->c->slope_magnitude[rig->source[i]];
}

/* The basis of ratio limits: a graph of the case for each result, or |inputs| in its graph. */
static copse_status evaluate_magnitudes(struct copse_rig *rig)
{
    const struct copse_case *c = rig->c;
    if (!c->magnitude)
        return evaluate_changed(rig, ~0u, case_rig_magnitude, rig->magnitude);
    struct feed f = { rig, rig->values };
    const struct copse_reference_params p = { rig->graph, case_rig_feed, &f, rig->step };
    for (size_t i = 0; i < rig->out_count; i++) {
        if (!((i == 0 ? c->forward : c->backward).ratio > 0))
            continue;
        if (!magnitude_of(rig, i))
            return copse_fail(COPSE_ERR_INTERNAL, "conformance: no magnitude of result %zu", i);
        copse_tensor *y = magnitude_of(rig, i)(rig->graph, rig->in, c->user);
        COPSE_TRY(copse_graph_status(rig->graph));
        if (!copse__shape_equal(y->shape, rig->out[i]->shape))
            return copse_fail(COPSE_ERR_INTERNAL,
                              "conformance: the magnitude of result %zu has another "
                              "shape",
                              i);
        COPSE_TRY(case_rig_numbers(rig, y, &rig->magnitude[i]));
        COPSE_TRY(copse__reference_run(&p, &y, 1, &rig->magnitude[i]));
    }
    return COPSE_OK;
}

/* The reference must return the values that the case states. */
static copse_status check_stated(const struct copse_rig *rig)
{
    const size_t n = case_rig_elements(rig->out[0]);
    struct copse_comparison d;
    double *rounded;
    if (!rig->c->want)
        return COPSE_OK;
    COPSE_TRY(case_rig_numbers(rig, rig->out[0], &rounded));
    for (size_t i = 0; i < n; i++)
        rounded[i] = (double)(float)rig->expected[0][i];
    copse__compare(&rig->c->forward, rig->c->want, rig->magnitude[0], rounded, n, false, &d);
    copse__free(rig->mem, rounded);
    return d.is_within
               ? COPSE_OK
               : copse_fail(COPSE_ERR_INTERNAL,
                            "element %llu of the reference's own result is %.9g, the case states "
                            "%.9g",
                            (unsigned long long)d.index, d.got, d.expected);
}

copse_status copse__rig_expect(struct copse_rig *rig)
{
    const struct copse_case *c = rig->c;
    for (size_t i = 0; i < rig->out_count; i++)
        COPSE_TRY(case_rig_numbers(rig, rig->out[i], &rig->expected[i]));
    COPSE_TRY(copse__rig_evaluate(rig, rig->values, rig->out_count, rig->expected));
    if (c->forward.ratio > 0 || c->backward.ratio > 0 || c->terms > 0)
        COPSE_TRY(evaluate_magnitudes(rig));
    COPSE_TRY(check_stated(rig));
    return evaluate_flushed(rig);
}

void copse__rig_close(struct copse_rig *rig)
{
    for (size_t i = 0; i < COPSE_RIG_ROOM; i++) {
        copse__free(rig->mem, rig->values[i]);
        copse__free(rig->mem, rig->expected[i]);
        copse__free(rig->mem, rig->magnitude[i]);
        for (size_t k = 0; k < COPSE_RIG_FLUSHES; k++)
            copse__free(rig->mem, rig->flushed[k][i]);
    }
    copse_graph_release(&rig->graph);
}
