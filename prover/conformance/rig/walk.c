/* SPDX-License-Identifier: MIT */
/* Iterates over the tables of cases: tier by tier, first with the library's choice of kernels, then
   with every variant of the case's family forced in turn. */
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "prover/conformance/rig/case_rig.h"

struct step {
    const struct copse_case *c;
    const char *variant;
    copse_walk_fn *run;
};

static copse_status walk_take(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    struct step *x = user;
    out->result.type = copse_type_name(x->c->in_count ? x->c->in[0].type : COPSE_F32);
    return x->run(r, x->c, x->variant, out);
}

/* `quick` omits the variants, but when the choice fails it runs each of them to find the faulty
   one. */
static bool walk_forces(const struct copse_conform_run *r, bool has_failed)
{
    const struct copse_conformance_params *p = r->params;
    return p->tier > COPSE_CONFORM_QUICK || (p->variant && *p->variant) || has_failed ||
           !r->is_past;
}

/* A variant is not blamed for other kernels: variants that only gradients use are forced when
   gradients run alone. */
static const struct copse_family *family_of(const char *mode, const struct copse_case *c)
{
    const bool is_used = c->family && (!c->family_is_of_gradient || strcmp(mode, "grad") == 0);
    return is_used ? copse__family(c->family) : NULL;
}

static void take_case(struct copse_conform_run *r, const char *mode, const struct copse_case *c,
                      bool always_forces, copse_walk_fn *run)
{
    const struct copse_family *f = family_of(mode, c);
    struct step x = { .c = c, .run = run, .variant = "" };
    r->has_variants = f != NULL;
    const copse_verdict first = copse__conform_one(
        r, &(struct copse_conform_case){ mode, c->op, c->name, "" }, walk_take, &x);
    r->has_variants = false;
    const bool has_failed = first != COPSE_VERDICT_PASS && first != COPSE_VERDICT_SKIP;
    bool has_failed_variant = false;
    for (size_t i = 0; f && i < f->count && walk_forces(r, has_failed || always_forces); i++) {
        if (f->takes_operands && !f->takes_operands(&f->variants[i], c->operands))
            continue;
        x.variant = copse__variant_kernel(&f->variants[i]);
        const copse_verdict v = copse__conform_one(
            r, &(struct copse_conform_case){ mode, c->op, c->name, x.variant }, walk_take, &x);
        has_failed_variant |=
            v != COPSE_VERDICT_PASS && v != COPSE_VERDICT_SKIP && v != COPSE_VERDICT_UNSUPPORTED;
    }
    if (f)
        copse__verdicts_settle(r, has_failed_variant);
}

void copse__conform_walk_stress(struct copse_conform_run *r, const char *mode, copse_walk_fn *run)
{
    for (size_t t = 0; r->tables[t]; t++)
        for (size_t i = 0; i < r->tables[t]->stress_count && !r->is_stopped; i++)
            take_case(r, mode, &r->tables[t]->stress[i], true, run);
}

void copse__conform_walk(struct copse_conform_run *r, const char *mode,
                         bool (*takes)(const struct copse_case *c), copse_walk_fn *run)
{
    for (size_t t = 0; r->tables[t]; t++)
        for (size_t i = 0; i < r->tables[t]->count && !r->is_stopped; i++) {
            const struct copse_case *c = &r->tables[t]->cases[i];
            const bool is_asked_for = r->params->case_name != NULL; /* by name, in any tier */
            if (((int)c->tier <= (int)r->params->tier || is_asked_for) && (!takes || takes(c)))
                take_case(r, mode, c, false, run);
        }
}
