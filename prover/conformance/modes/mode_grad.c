/* SPDX-License-Identifier: MIT */
/* Mode grad: gradients on the device against those of the reference, and the reference's gradients
   against central differences in double. */
#include <math.h>

#include "prover/conformance/every/every.h"
#include "prover/conformance/modes/modes.h"

#define STEP  1e-5
#define LIMIT 1e-6
#define MOST  24u        /* elements of an input that are varied */
#define WORK  (1u << 20) /* limit of elements evaluated for them; large cases vary fewer */

/* Differences are meaningful only where values are neither huge nor at kinks. */
static bool takes_differences(const struct copse_case *c)
{
    for (size_t i = 0; i < c->in_count; i++) {
        const enum copse_fill_kind fill = c->in[i].fill;
        if (c->in[i].type == COPSE_F32 &&
            (fill == COPSE_FILL_INTEGERS || fill == COPSE_FILL_SPREAD ||
             fill == COPSE_FILL_SPECIAL || fill == COPSE_FILL_PATTERNS))
            return false;
    }
    return !c->skips_differences;
}

struct differences {
    const struct copse_rig *rig;
    double *up, *down; /* results at x + STEP and x - STEP */
    double noise;      /* rounding errors of the results */
};

/* d(sum y dy)/dx of one element. */
static copse_status mode_grad_difference(const struct differences *d, double *x, double *slope)
{
    const struct copse_rig *rig = d->rig;
    const size_t n = (size_t)copse__elements(rig->out[0]->shape);
    const double *dy = rig->values[rig->in_count - 1], x0 = *x;
    *x = x0 + STEP;
    copse_status s = copse__rig_evaluate(rig, rig->values, 1, &(double *){ d->up });
    *x = x0 - STEP;
    if (s == COPSE_OK)
        s = copse__rig_evaluate(rig, rig->values, 1, &(double *){ d->down });
    *x = x0;
    *slope = 0;
    for (size_t i = 0; i < n; i++)
        *slope += (d->up[i] - d->down[i]) * dy[i] / (2 * STEP);
    return s;
}

static copse_status check_gradient(const struct differences *d, size_t o,
                                   struct copse_conform_outcome *out)
{
    const struct copse_rig *rig = d->rig;
    const size_t n = (size_t)copse__elements(rig->out[o]->shape);
    size_t all = (size_t)copse__elements(rig->out[0]->shape);
    for (size_t i = 0; i < rig->in_count; i++)
        all += (size_t)copse__elements(rig->in[i]->shape);
    const size_t count = COPSE_MIN(COPSE_MAX(WORK / COPSE_MAX(all, 1), 2), MOST);
    for (size_t k = 0; k < n; k += n / count + 1) {
        const double g = rig->expected[o][k];
        double slope;
        COPSE_TRY(mode_grad_difference(d, &rig->values[rig->source[o]][k], &slope));
        if (fabs(slope - g) <= LIMIT * (1e-3 + fabs(g)) + d->noise / (2 * STEP))
            continue;
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the reference's own gradient of input %zu, element %zu, is %.12g, a "
                           "central difference says %.12g",
                           rig->source[o], k, g, slope);
        break;
    }
    return COPSE_OK;
}

static copse_status check_differences(const struct copse_rig *rig,
                                      struct copse_conform_outcome *out)
{
    const size_t n = (size_t)copse__elements(rig->out[0]->shape);
    const double *dy = rig->values[rig->in_count - 1];
    struct differences d = { .rig = rig, .noise = 1e-14 };
    copse_status s = COPSE_OK;
    d.up = copse__alloc(rig->mem, n, sizeof *d.up);
    d.down = copse__alloc(rig->mem, n, sizeof *d.down);
    if (!d.up || !d.down)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
    for (size_t i = 0; i < n; i++)
        d.noise += 16 * 0x1p-53 * fabs(rig->expected[0][i] * dy[i]);
    for (size_t o = 1; o < rig->out_count && s == COPSE_OK; o++)
        s = check_gradient(&d, o, out);
    copse__free(rig->mem, d.up);
    copse__free(rig->mem, d.down);
    return s;
}

static copse_status check_gradients(struct copse_conform_run *r, const struct copse_case *c,
                                    const char *variant, struct copse_conform_outcome *out)
{
    struct copse_rig rig;
    struct copse_rig_program *p = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse__rig_open(r->ctx, c, out->result.seed, true, &rig));
    rig.first = 1; /* do not blame a gradient variant for the kernels of the result */
    COPSE_TRY_OR(done, s, copse__rig_program_open(&rig, r->dev, variant, &p));
    COPSE_TRY_OR(done, s, copse__rig_expect(&rig));
    COPSE_TRY_OR(done, s, copse__rig_program_run(p, out));
    COPSE_TRY_OR(done, s, copse__rig_judge(p, rig.first, out));
    if (!*variant && takes_differences(c)) { /* independent of the variant */
        /* what follows is about the reference */
        out->is_excused |= out->result.verdict == COPSE_VERDICT_PASS;
        s = check_differences(&rig, out);
    }
done:
    copse__rig_program_close(&p);
    copse__rig_close(&rig);
    return s;
}

copse_status copse__conform_grad(struct copse_conform_run *r)
{
    copse__conform_walk(r, "grad", copse__case_has_gradient, check_gradients);
    copse__conform_every(r, "grad", COPSE_EVERY_DERIVATIVE);
    return COPSE_OK;
}
