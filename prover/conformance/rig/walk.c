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

/* A case whose kernels are not found compiles them when it runs, and says what is wrong. */
static void want_kernels(struct copse_conform_run *r, const char *mode, const struct copse_case *c,
                         const char *variant)
{
    struct copse_rig rig;
    const bool has_gradient = strcmp(mode, "grad") == 0;
    if (copse__now_ns() >= r->deadline_ns ||
        !copse__conform_begin(r, mode, c->op, c->name, variant))
        return;
    const copse_status s = copse__rig_open(
        r->ctx, c, copse__run_seed(r->params->seed, c->op, c->name), has_gradient, &rig);
    rig.first = has_gradient;
    if (s == COPSE_OK)
        (void)copse__rig_kernels(&rig, r->dev, variant, r->wants);
    copse__rig_close(&rig);
}

static void want_case(struct copse_conform_run *r, const char *mode, const struct copse_case *c)
{
    const struct copse_family *f = family_of(mode, c);
    want_kernels(r, mode, c, "");
    for (size_t i = 0; f && i < f->count && walk_forces(r, false); i++)
        if (!f->takes_operands || f->takes_operands(&f->variants[i], c->operands))
            want_kernels(r, mode, c, copse__variant_kernel(&f->variants[i]));
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

/* ---- tier quick ---- */

#define LARGE 2048u /* elements: several groups of any kernel, or several parts of a row */

/* The kind of a row: types, size, and sort of values. Tier quick takes one row of each kind. */
struct walk_kind {
    copse_type type, operands;
    bool is_large, is_stated, is_whole;
};

static struct walk_kind walk_kind_of(const struct copse_case *c)
{
    struct walk_kind k = { .type = c->in_count ? c->in[0].type : COPSE_F32,
                           .operands = c->operands,
                           .is_stated = c->want != NULL };
    for (size_t i = 0; i < c->in_count; i++) {
        k.is_large |= copse__elements(c->in[i].shape) > LARGE;
        k.is_stated |= c->in[i].type == COPSE_F32 &&
                       (c->in[i].fill == COPSE_FILL_VALUES || c->in[i].fill == COPSE_FILL_SPECIAL);
        k.is_whole |= c->in[i].type == COPSE_F32 && c->in[i].fill == COPSE_FILL_INTEGERS;
    }
    return k;
}

static bool walk_is_alike(const struct copse_case *a, const struct copse_case *b)
{
    const struct walk_kind x = walk_kind_of(a), y = walk_kind_of(b);
    return strcmp(a->op, b->op) == 0 && x.type == y.type && x.operands == y.operands &&
           x.is_large == y.is_large && x.is_stated == y.is_stated && x.is_whole == y.is_whole &&
           a->family_is_of_gradient == b->family_is_of_gradient;
}

/* Of the rows of tier quick that are alike, tier quick runs the first that the mode takes; the
   others run from tier standard on. An application's op has samples of its own: all of them run. */
static bool walk_is_first(const struct copse_case_table *t, size_t i,
                          bool (*takes)(const struct copse_case *c))
{
    for (size_t k = 0; k < i && !t->is_sampled; k++)
        if (t->cases[k].tier == COPSE_TIER_QUICK && (!takes || takes(&t->cases[k])) &&
            walk_is_alike(&t->cases[k], &t->cases[i]))
            return false;
    return true;
}

static bool walk_selects(const struct copse_conform_run *r, const struct copse_case_table *t,
                         size_t i, bool (*takes)(const struct copse_case *c))
{
    const struct copse_conformance_params *p = r->params;
    if (takes && !takes(&t->cases[i]))
        return false;
    if (p->case_name) /* by name, in any tier */
        return true;
    return (int)t->cases[i].tier <= (int)p->tier &&
           (p->tier > COPSE_CONFORM_QUICK || walk_is_first(t, i, takes));
}

void copse__conform_walk(struct copse_conform_run *r, const char *mode,
                         bool (*takes)(const struct copse_case *c), copse_walk_fn *run)
{
    for (size_t t = 0; r->tables[t]; t++)
        for (size_t i = 0; i < r->tables[t]->count && !r->is_stopped; i++)
            if (!walk_selects(r, r->tables[t], i, takes))
                continue;
            else if (r->wants)
                want_case(r, mode, &r->tables[t]->cases[i]);
            else
                take_case(r, mode, &r->tables[t]->cases[i], false, run);
}
