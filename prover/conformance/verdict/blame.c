/* SPDX-License-Identifier: MIT */
/* The consequence of results for kernels. A case notes the kernels that it uses. A failed case with
   a forced variant blocks the variant's kernel, unless 1 or 2 below explain the failure. Another
   failed case blocks its only kernel, or of several kernels:
     1. those that are blocked already, which explain the failure;
     2. else those that fail their self-test now;
     3. else those that have not passed a case of their own in this run;
     4. else all of them. */
#include <stdio.h>

#include "core/graph/variant.h"
#include "prover/conformance/verdict/conformance.h"

/* A failed case whose variants have not been run yet. */
struct open_case {
    bool is_open, is_late, is_shaky;
    struct copse_kernel_set kernels;
    char mode[32], op[64], name[192], text[512];
};

struct copse_verdicts {
    const struct copse_conformance_params *params;
    struct copse_kernel_uses uses;
    copse_mutex lock;                  /* around the application's callback */
    struct copse_kernel_set good, bad; /* took part in a case that passed, failed */
    struct copse_kernel_set alone;     /* passed a case of their own */
    struct open_case open;
    struct {
        struct passed_case {
            char kernel[48];
            uint64_t id;
        } *at;
        size_t count, room;
    } passed; /* cases that failed in earlier runs */
};

static const char *name_of(uint32_t id)
{
    const struct copse_kernel_row *row = copse__row(id);
    return row ? row->name : COPSE_LIBRARY_PRODUCT;
}

/* ---- the kernels of a case ---- */

static void report_use(void *user, uint32_t id)
{
    struct copse_verdicts *v = user;
    copse__mutex_lock(&v->lock);
    if (v->params->uses)
        v->params->uses(v->params->user, name_of(id));
    copse__mutex_unlock(&v->lock);
}

copse_status copse__verdicts_create(struct copse_conform_run *r, struct copse_verdicts **out)
{
    struct copse_verdicts *v = copse__alloc(&r->ctx->base.mem, 1, sizeof *v);
    *out = NULL;
    if (!v)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
    const copse_status s = copse__mutex_init(&v->lock);
    if (s) {
        copse__free(&r->ctx->base.mem, v);
        return s;
    }
    v->params = r->params;
    v->uses.first = report_use;
    v->uses.user = v;
    *out = v;
    return COPSE_OK;
}

void copse__verdicts_watch(struct copse_conform_run *r, const copse_device *dev)
{
    if (dev)
        r->verdicts->uses.device = dev->block_list;
    atomic_store(&r->ctx->uses, dev && !r->is_listing ? &r->verdicts->uses : NULL);
}

void copse__verdicts_begin(struct copse_conform_run *r)
{
    for (uint32_t k = 0; k < copse__id_count(); k++)
        atomic_store(&r->verdicts->uses.used[k], false);
}

static unsigned count_of(const struct copse_kernel_set *s)
{
    unsigned count = 0;
    for (uint32_t k = 0; k < copse__id_count(); k++)
        count += s->has[k];
    return count;
}

static struct copse_kernel_set blame_used(const struct copse_verdicts *v)
{
    struct copse_kernel_set s;
    for (uint32_t k = 0; k < copse__id_count(); k++)
        s.has[k] = atomic_load(&v->uses.used[k]);
    return s;
}

/* Modes in which a wrong result comes from a kernel. The others are about calls, other limits and
   lent devices. */
static bool is_about_kernels(const char *mode)
{
    static const char *const modes[] = { "run",    "grad",  "bitwise", "opt",
                                         "reduce", "train", "stress",  "launch" };
    for (size_t i = 0; i < COPSE_COUNT(modes); i++)
        if (strcmp(modes[i], mode) == 0)
            return true;
    return false;
}

bool copse__verdicts_is_about(const struct copse_conform_run *r, const char *mode)
{
    const struct copse_kernel_set s = blame_used(r->verdicts);
    return is_about_kernels(mode) && count_of(&s) > 0;
}

/* ---- blame ---- */

/* Keep those of `s` for which `is_so`, unless there are none. */
static bool blame_narrow(struct copse_conform_run *r, struct copse_kernel_set *s,
                         bool (*is_so)(struct copse_conform_run *r, uint32_t k))
{
    struct copse_kernel_set kept;
    for (uint32_t k = 0; k < copse__id_count(); k++)
        kept.has[k] = s->has[k] && is_so(r, k);
    if (count_of(&kept) == 0)
        return false;
    *s = kept;
    return true;
}

static bool is_blocked(struct copse_conform_run *r, uint32_t k)
{
    char reason[192];
    return copse__block_list_has(&r->ctx->trust, r->dev->block_list, name_of(k), reason,
                                 sizeof reason);
}

/* With the specialisation of its first use in the case. */
static bool fails_self_test(struct copse_conform_run *r, uint32_t k)
{
    char reason[192] = "";
    struct copse_kernel *kernel;
    if (k == COPSE_LIBRARY_KERNEL || copse__device_check(r->dev) != COPSE_OK ||
        copse__kernel_get(r->dev, (enum copse_kernel_id)k, r->verdicts->uses.spec[k], &kernel) !=
            COPSE_OK ||
        copse__self_test_ask(kernel, reason, sizeof reason) != COPSE_OK)
        return false;
    return *reason != '\0';
}

static bool is_unproven(struct copse_conform_run *r, uint32_t k)
{
    return !r->verdicts->alone.has[k];
}

static void fail_all(struct copse_conform_run *r, const struct copse_kernel_set *s,
                     struct copse_kernel_case c, bool is_late, const char *text)
{
    for (uint32_t k = 0; k < copse__id_count(); k++) {
        c.kernel = name_of(k);
        if (s->has[k] && copse__device_fail_case(r->dev, &c, is_late, text) != COPSE_OK)
            copse__log(&r->ctx->base.log, COPSE_LOG_DEBUG, "conformance: %s is not blocked: %s",
                       c.kernel, copse_last_error());
    }
}

static void blame_kernels(struct copse_conform_run *r, struct copse_kernel_set s,
                          struct copse_kernel_case c, bool is_late, const char *text)
{
    if (count_of(&s) > 1 && !blame_narrow(r, &s, is_blocked) &&
        (is_late || !blame_narrow(r, &s, fails_self_test)))
        blame_narrow(r, &s, is_unproven);
    fail_all(r, &s, c, is_late, text);
}

/* With a forced variant: its kernel, unless it passes its self-test and another kernel of the case
   explains the failure. */
static void blame_variant(struct copse_conform_run *r, struct copse_kernel_set s,
                          struct copse_kernel_case c, bool is_late, const char *text)
{
    uint32_t forced = 0;
    while (forced < COPSE_LIBRARY_KERNEL && strcmp(name_of(forced), c.kernel) != 0)
        forced++;
    s.has[forced] = false;
    if (is_late || fails_self_test(r, forced) ||
        !(blame_narrow(r, &s, is_blocked) || blame_narrow(r, &s, fails_self_test))) {
        s = (struct copse_kernel_set){ { false } };
        s.has[forced] = true;
    }
    fail_all(r, &s, c, is_late, text);
}

/* ---- evidence ---- */

/* A case that is run by the library's choice and by variant counts once. */
static void blame_pass(struct copse_conform_run *r, const struct copse_kernel_case *c)
{
    struct copse_verdicts *v = r->verdicts;
    struct passed_case p;
    if (!copse__device_has_failed(r->dev, c, &p.id))
        return;
    for (size_t i = 0; i < v->passed.count; i++)
        if (v->passed.at[i].id == p.id && strcmp(v->passed.at[i].kernel, c->kernel) == 0)
            return;
    snprintf(p.kernel, sizeof p.kernel, "%s", c->kernel);
    /* If memory for it is exhausted, the block stays. */
    if (!COPSE_PUSH(&r->ctx->base.mem, &v->passed, p))
        copse__log(&r->ctx->base.log, COPSE_LOG_WARN, "conformance: no memory");
}

static bool is_failure(copse_verdict v)
{
    return v == COPSE_VERDICT_FAIL || v == COPSE_VERDICT_TIMEOUT ||
           v == COPSE_VERDICT_DEVICE_LOST || v == COPSE_VERDICT_XFAIL;
}

static void keep_open(struct open_case *o, const struct copse_kernel_set *s,
                      const struct copse_evidence *e)
{
    const struct copse_case_result *c = e->result;
    *o = (struct open_case){
        .is_open = true, .is_late = e->is_late, .is_shaky = e->is_shaky, .kernels = *s
    };
    snprintf(o->mode, sizeof o->mode, "%s", c->mode);
    snprintf(o->op, sizeof o->op, "%s", c->op);
    snprintf(o->name, sizeof o->name, "%s", c->name);
    snprintf(o->text, sizeof o->text, "%s", c->text ? c->text : "");
}

void copse__verdicts_take(struct copse_conform_run *r, const struct copse_evidence *e)
{
    struct copse_verdicts *v = r->verdicts;
    const struct copse_case_result *result = e->result;
    const bool is_bad = is_failure(result->verdict),
               is_forced = result->variant && *result->variant;
    const bool is_good =
        result->verdict == COPSE_VERDICT_PASS || result->verdict == COPSE_VERDICT_XPASS;
    const char *text = result->text ? result->text : "";
    const struct copse_kernel_set s = blame_used(v);
    struct copse_kernel_case c = { .mode = result->mode,
                                   .op = result->op,
                                   .name = result->name,
                                   .kernel = result->variant,
                                   .tier = (uint32_t)r->params->tier,
                                   .is_shaky = e->is_shaky };
    for (uint32_t k = 0; k < copse__id_count(); k++) {
        v->good.has[k] |= s.has[k] && is_good;
        v->bad.has[k] |= s.has[k] && is_bad && !e->is_excused;
        v->alone.has[k] |= s.has[k] && is_good && count_of(&s) == 1;
    }
    if (is_forced && is_bad) {
        blame_variant(r, s, c, e->is_late, text);
    } else if (is_forced && is_good) {
        blame_pass(r, &c);
    } else if (is_bad && !e->is_excused && is_about_kernels(result->mode)) {
        if (e->is_open)
            keep_open(&v->open, &s, e);
        else
            blame_kernels(r, s, c, e->is_late, text);
    } else if (is_good) {
        for (uint32_t k = 0; k < copse__id_count(); k++) {
            c.kernel = name_of(k);
            if (s.has[k])
                blame_pass(r, &c);
        }
    }
}

void copse__verdicts_settle(struct copse_conform_run *r, bool has_failed_variant)
{
    struct open_case *o = &r->verdicts->open;
    const struct copse_kernel_case c = { .mode = o->mode,
                                         .op = o->op,
                                         .name = o->name,
                                         .tier = (uint32_t)r->params->tier,
                                         .is_shaky = o->is_shaky };
    if (o->is_open && !has_failed_variant)
        blame_kernels(r, o->kernels, c, o->is_late, o->text);
    o->is_open = false;
}

/* ---- the end of a run ---- */

static void finish_self_tests(struct copse_conform_run *r)
{
    const struct copse_verdicts *v = r->verdicts;
    for (uint32_t k = 0; k < copse__id_count(); k++)
        if ((v->good.has[k] || v->bad.has[k]) && is_blocked(r, k) &&
            copse__device_pass_run(r->dev, name_of(k), !v->bad.has[k]) != COPSE_OK)
            copse__log(&r->ctx->base.log, COPSE_LOG_WARN,
                       "conformance: the run of %s is not noted: %s", name_of(k),
                       copse_last_error());
}

void copse__verdicts_finish(struct copse_conform_run *r)
{
    struct copse_verdicts *v = r->verdicts;
    if (!v)
        return;
    copse__verdicts_watch(r, NULL);
    for (size_t i = 0; r->dev && i < v->passed.count; i++) {
        const struct passed_case *p = &v->passed.at[i];
        if (copse__device_pass_case(r->dev, p->kernel, p->id, (uint32_t)r->params->tier) !=
            COPSE_OK)
            copse__log(&r->ctx->base.log, COPSE_LOG_WARN, "conformance: %s stays blocked: %s",
                       p->kernel, copse_last_error());
    }
    if (r->dev && !r->params->own)
        finish_self_tests(r);
    copse__free(&r->ctx->base.mem, v->passed.at);
    copse__mutex_fini(&v->lock);
    copse__free(&r->ctx->base.mem, v);
    r->verdicts = NULL;
}
