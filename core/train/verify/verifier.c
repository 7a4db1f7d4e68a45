/* SPDX-License-Identifier: MIT */
#include "core/train/verify/verifier.h"

/* ---- life ---- */

/* Words of a sparse variable that an audit compares. Its steps do not read all of it, so each audit
   compares other words. */
#define WINDOW ((uint64_t)1 << 16)

static uint64_t window_words(const copse_variable *x)
{
    return COPSE_MIN(x->count, WINDOW);
}

/* The window of a step: the same on all replicas and workers. */
static struct copse_binding window_of(const copse_variable *x, uint32_t r, uint64_t step)
{
    const uint64_t windows = (x->count + WINDOW - 1) / WINDOW;
    const uint64_t first =
        (copse__hash(COPSE_HASH_START, &step, sizeof step) >> 8) % windows * WINDOW;
    const struct copse_binding all = copse__variable_values(x, r);
    return (struct copse_binding){ all.buffer, all.offset + COPSE_WORD_BYTES * (size_t)first,
                                   COPSE_WORD_BYTES * (size_t)COPSE_MIN(x->count - first, WINDOW) };
}

/* Places of the audit: each dense variable has one. After these each sparse variable has two: for
   the rows of its gradient, and for their sums. */
static void place_variables(struct copse_verifier *v)
{
    struct copse_audit *a = &v->audit;
    size_t dense = 0, sparse = v->dense;
    for (size_t k = 0; k < v->count; k++) {
        const copse_variable *x = v->variables[k];
        const uint32_t bucket = copse__optimizer_bucket(v->owner.optimizer, x);
        if (x->is_sparse) {
            a->variables[sparse++] =
                (struct copse_audit_variable){ x->name, window_words(x), bucket };
            a->variables[sparse++] = (struct copse_audit_variable){ x->name, 1, bucket };
            continue;
        }
        for (uint32_t r = 0; r < a->replicas; r++)
            a->ranges[r * a->count + dense] =
                (struct copse_audit_range){ copse__variable_values(x, r),
                                            copse__variable_gradient(x, r) };
        a->variables[dense++] = (struct copse_audit_variable){ x->name, x->count, bucket };
    }
}

static const struct copse_row_place *rows_of(const struct copse_verified *m, uint32_t r,
                                             uint32_t bucket)
{
    for (size_t i = 0; i < m->row_counts[r]; i++)
        if (m->rows[r][i].bucket == bucket)
            return &m->rows[r][i];
    return NULL;
}

/* Sparse variables have the gradients of a step in the memory of its programs. */
static copse_status locate_rows(struct copse_verifier *v, const struct copse_verified *m,
                                uint32_t r)
{
    struct copse_audit *a = &v->audit;
    struct copse_audit_range *at = &a->ranges[r * a->count + v->dense];
    for (size_t k = 0; k < v->count; k++) {
        const copse_variable *x = v->variables[k];
        if (!x->is_sparse)
            continue;
        const struct copse_row_place *p =
            rows_of(m, r, copse__optimizer_bucket(v->owner.optimizer, x));
        const struct copse_binding none = { .buffer = NULL };
        *at++ = (struct copse_audit_range){ window_of(x, r, m->step),
                                            p ? copse__row_place_list(p) : none };
        *at++ = (struct copse_audit_range){ none, p ? copse__row_place_sums(p) : none };
        if (p && a->digests[r].queue)
            COPSE_TRY(copse__digests_room(&a->digests[r], p->sums->count));
    }
    return COPSE_OK;
}

/* The rows of the newest update are compared, too. */
static copse_status take_newest(struct copse_verifier *v, uint32_t r)
{
    const struct copse_optimizer *o = v->owner.optimizer;
    struct copse_audit *a = &v->audit;
    for (size_t i = v->dense + 1; i < a->count && a->compares_values; i += 2) {
        struct copse_binding *to = &a->ranges[r * a->count + i].values;
        COPSE_TRY(copse__row_exchange_newest(o->buckets.at[a->variables[i].bucket].rows, r, to));
        COPSE_TRY(to->buffer ? copse__digests_room(&a->digests[r], to->size / COPSE_WORD_BYTES)
                             : COPSE_OK);
    }
    return COPSE_OK;
}

copse_status copse__verifier_open(struct copse_verifier *v, const struct copse_check_owner *owner,
                                  copse_variable *const *variables, size_t count)
{
    const copse_strategy *st = owner->strategy;
    struct copse_audit *a = &v->audit;
    v->owner = *owner;
    v->owner.audit = a;
    v->variables = variables;
    v->count = count;
    for (size_t i = 0; i < count; i++)
        v->dense += !variables[i]->is_sparse;
    COPSE_TRY(copse__audit_create(&st->ctx->base.mem, st->replica_count, 2 * count - v->dense, a));
    a->params.is_off = count == 0;
    a->compares_values =
        (st->replica_count > 1 || st->group.workers > 1) && !owner->optimizer->table->is_sharing;
    place_variables(v);
    for (uint32_t r = 0; r < st->replica_count && count > 0; r++)
        COPSE_TRY(copse__audit_open(a, r, st->replicas[r].queue));
    return COPSE_OK;
}

void copse__verifier_free(struct copse_verifier *v, bool is_idle)
{
    copse__audit_free(&v->audit, is_idle);
    if (is_idle)
        copse__probe_free(&v->spot.probe);
}

/* ---- the first step ---- */

/* A cross-check of a replica's program in a micro-batch. */
struct replayed {
    struct copse_cross_check base;
    struct copse_verifier *v;
    const struct copse_verified *m;
    unsigned char *reports; /* after the launches one by one, and after the replay */
};

static copse_status fail_replay(const struct replayed *k, const char *what, const char *name)
{
    const struct copse_device_info *info = &k->base.base.queue->dev->info;
    return copse_fail(
        COPSE_ERR_UNRELIABLE,
        "%s: cross-check of step %llu: %s (driver %.64s) computes %s%s wrong: the launches of the "
        "step, queued together, give other bits than one by one. " COPSE_CHECK_ADVICE
        "; without this check: %s",
        k->v->owner.name, (unsigned long long)k->m->step, info->id, info->driver, what, name,
        info->id, k->v->owner.turn_off);
}

/* NaN, so that a result of a launch that is lost does not stay. */
static copse_status verifier_poison(const struct replayed *k)
{
    const uint32_t r = k->base.replica;
    COPSE_TRY(copse__audit_poison(&k->v->audit, r, k->base.base.queue));
    return copse_queue_fill(k->base.base.queue, k->v->owner.reports[r], 0, COPSE_REPORT_BYTES,
                            0x7fc00000u);
}

/* The same launches as they are recorded: loss, reports and gradients must have the same bits.
   Results of all-reduces are what their memory holds, both times. */
static copse_status verifier_replay(struct copse_cross_check *base)
{
    struct replayed *k = (struct replayed *)base;
    const uint32_t r = base->replica, buckets = (uint32_t)k->v->owner.optimizer->buckets.count;
    struct copse_audit *a = &k->v->audit;
    struct copse_digests *d = &a->digests[r];
    copse_queue *q = base->base.queue;
    k->reports = copse__alloc(&q->dev->base->mem, 2, COPSE_REPORT_BYTES);
    COPSE_TRY(copse_need_memory(k->reports, "cross-check"));
    a->has[r] = d->queue != NULL;
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (turn == 1)
            COPSE_TRY(verifier_poison(k));
        for (uint32_t i = 0; turn == 1 && i < copse__program_segments(base->program); i++)
            COPSE_TRY(copse__program_replay(base->program, i));
        for (uint32_t b = 0; b < buckets; b++)
            COPSE_TRY(copse__audit_gradients(a, r, b, turn == 1));
        COPSE_TRY(copse_queue_read(q, k->v->owner.reports[r], 0,
                                   k->reports + turn * COPSE_REPORT_BYTES, COPSE_REPORT_BYTES));
    }
    if (d->queue)
        COPSE_TRY(copse__digests_read(d));
    COPSE_TRY(copse_queue_finish(q));
    for (uint32_t i = 0; i <= k->m->report_count; i++) {
        const unsigned char *value = k->reports + i * COPSE_REPORT_STRIDE;
        if (memcmp(value, value + COPSE_REPORT_BYTES, COPSE_WORD_BYTES) != 0)
            return fail_replay(k, i == 0 ? "the loss" : "the report ",
                               i == 0 ? "" : k->m->report_names[i - 1]);
    }
    const char *variable = d->queue ? copse__audit_repeated(a, r) : NULL;
    return variable ? fail_replay(k, "the gradient of ", variable) : COPSE_OK;
}

static copse_status verifier_note(struct copse_verifier *v, const struct copse_cross_check *k,
                                  copse_status s)
{
    v->compared += k->base.chain.compared;
    v->is_torn |= k->base.chain.is_torn;
    v->audit.has_failed |= s == COPSE_ERR_UNRELIABLE;
    return s;
}

/* The updates of sparse variables whose commands are new. */
static copse_status check_rows(struct copse_verifier *v, const struct copse_verified *m, uint32_t r)
{
    const struct copse_optimizer *o = v->owner.optimizer;
    for (size_t b = 0; b < o->buckets.count; b++) {
        struct copse_cross_check k = copse__cross_check_of(&v->owner, r, m->step);
        k.rows = o->buckets.at[b].rows;
        if (k.rows && copse__row_exchange_is_new(k.rows))
            COPSE_TRY(verifier_note(v, &k, copse__cross_check_rows(&k, "the update of rows")));
    }
    return COPSE_OK;
}

static void note_rows(const struct copse_verifier *v)
{
    const struct copse_optimizer *o = v->owner.optimizer;
    for (size_t b = 0; b < o->buckets.count; b++)
        if (o->buckets.at[b].rows)
            copse__row_exchange_checked(o->buckets.at[b].rows);
}

static copse_status check_replica(struct copse_verifier *v, const struct copse_verified *m,
                                  uint32_t r)
{
    const copse_strategy *st = v->owner.strategy;
    if (m->programs[r] && !*m->is_checked[r]) {
        COPSE_TRY(locate_rows(v, m, r));
        struct replayed k = { .base = copse__cross_check_of(&v->owner, r, m->step),
                              .v = v,
                              .m = m };
        k.base.program = m->programs[r];
        k.base.then = verifier_replay;
        const copse_status s = copse__cross_check_program(&k.base, "the step");
        if (k.base.base.chain.probe.dev == NULL) /* no read is under way */
            copse__free(&st->replicas[r].dev->base->mem, k.reports);
        COPSE_TRY(verifier_note(v, &k.base, s));
    }
    struct copse_cross_check k = copse__cross_check_of(&v->owner, r, m->step);
    if (!v->has_updates)
        COPSE_TRY(verifier_note(v, &k, copse__cross_check_update(&k, "the update")));
    return check_rows(v, m, r);
}

copse_status copse__verify_first(struct copse_verifier *v, const struct copse_verified *m)
{
    if (v->audit.params.is_cross_check_off)
        return COPSE_OK;
    for (uint32_t r = 0; r < v->owner.strategy->replica_count; r++)
        COPSE_TRY(check_replica(v, m, r));
    for (uint32_t r = 0; r < v->owner.strategy->replica_count; r++)
        *m->is_checked[r] = true;
    note_rows(v);
    v->has_updates = true;
    return COPSE_OK;
}

/* ---- audits ---- */

copse_status copse__verify_begin(struct copse_verifier *v, struct copse_verified *m, bool may_audit)
{
    const copse_strategy *st = v->owner.strategy;
    m->is_audited = may_audit && copse__audit_is_due(&v->audit, m->step);
    COPSE_TRY(copse__spot_begin(v, m));
    for (uint32_t r = 0; m->is_audited && r < st->replica_count; r++) {
        struct copse_program *program = m->programs[r];
        COPSE_TRY(locate_rows(v, m, r));
        COPSE_TRY(take_newest(v, r));
        COPSE_TRY(copse__audit_begin(&v->audit, r, program != NULL));
        for (uint32_t i = 0; program && i < m->segments; i++) {
            COPSE_TRY(copse__spot_replay(v, r, copse__program_list(program)[i]));
            COPSE_TRY(copse__audit_gradients(&v->audit, r, i, false));
        }
        COPSE_TRY(copse__audit_poison(&v->audit, r, st->replicas[r].queue));
    }
    return COPSE_OK;
}

copse_status copse__verify_segment(struct copse_verifier *v, const struct copse_verified *m,
                                   uint32_t r, uint32_t i)
{
    if (!m->is_audited)
        return COPSE_OK;
    COPSE_TRY(copse__audit_gradients(&v->audit, r, i, true));
    return i + 1 < m->segments ? COPSE_OK : copse__audit_read(&v->audit, r, m->step);
}

void copse__verify_drop(struct copse_verifier *v, uint64_t step)
{
    if (v->audit.step == step)
        v->audit.step = 0;
}

copse_status copse__verify_end(struct copse_verifier *v, uint64_t step, bool wait)
{
    COPSE_TRY(copse__audit_compare(&v->audit, step));
    return copse__spot_end(v, step, wait);
}

uint64_t copse__verifier_step(const struct copse_verifier *v)
{
    return COPSE_MAX(v->audit.step, v->spot.step);
}
