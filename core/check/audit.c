/* SPDX-License-Identifier: MIT */
#include "core/check/audit.h"

#define EVERY       128u
#define FIRST       8u  /* all steps up to here, apart from the first one */
#define SPOTS       16u /* steps up to here have spots where they are audited, */
#define SPOT_AUDITS 64u /* then each of so many audits */

enum row { ROW_VALUES, ROW_FIRST, ROW_SECOND, ROWS }; /* of the digests */

/* ---- memory ---- */

copse_status copse__audit_create(struct copse_mem *mem, uint32_t replicas, size_t count,
                                 struct copse_audit *out)
{
    *out = (struct copse_audit){ .mem = mem, .replicas = replicas, .count = count };
    out->variables = copse__alloc(mem, count, sizeof *out->variables);
    out->ranges = copse__alloc(mem, count * replicas, sizeof *out->ranges);
    out->digests = copse__alloc(mem, replicas, sizeof *out->digests);
    out->has = copse__alloc(mem, replicas, sizeof *out->has);
    return copse_need_memory(out->variables && out->ranges && out->digests && out->has, "audit");
}

copse_status copse__audit_open(struct copse_audit *a, uint32_t r, copse_queue *queue)
{
    uint64_t *words = copse__alloc(a->mem, a->count, sizeof *words);
    COPSE_TRY(copse_need_memory(words, "audit"));
    for (size_t i = 0; i < a->count; i++)
        words[i] = a->variables[i].words;
    const copse_status s =
        copse__digests_create(queue, words, (uint32_t)a->count, ROWS, &a->digests[r]);
    copse__free(a->mem, words);
    if (s == COPSE_OK || s == COPSE_ERR_NO_MEMORY || s == COPSE_ERR_NO_DEVICE_MEMORY ||
        s == COPSE_ERR_DEVICE_LOST)
        return s;
    a->params.is_off = true;
    copse__log(&queue->dev->base->log, COPSE_LOG_WARN, "audit: %s is not audited: %s",
               queue->dev->info.id, copse_last_error());
    copse__digests_free(&a->digests[r], true);
    return COPSE_OK;
}

void copse__audit_free(struct copse_audit *a, bool is_idle)
{
    for (uint32_t r = 0; a->digests && r < a->replicas; r++)
        copse__digests_free(&a->digests[r], is_idle);
    copse__free(a->mem, a->variables);
    copse__free(a->mem, a->ranges);
    copse__free(a->mem, a->digests);
    copse__free(a->mem, a->has);
}

copse_status copse__audit_set(struct copse_audit *a, const struct copse_audit_params *params)
{
    COPSE_TRY(copse_no_reserved(copse_audit_params, params));
    a->params = params ? *params : (struct copse_audit_params){ .every = 0 };
    for (uint32_t r = 0; r < a->replicas; r++)
        a->params.is_off |= !a->digests[r].queue;
    return COPSE_OK;
}

/* ---- queueing ---- */

static uint64_t every_of(const struct copse_audit *a)
{
    return a->params.every > 0 ? a->params.every : EVERY;
}

bool copse__audit_has_spot(const struct copse_audit *a, uint64_t step)
{
    return step <= SPOTS || (step % every_of(a) == 0 && step / every_of(a) % SPOT_AUDITS == 0);
}

bool copse__audit_is_due(const struct copse_audit *a, uint64_t step)
{
    const uint64_t every = every_of(a);
    return !a->params.is_off && a->step == 0 &&
           (step % every == 0 ||
            (step > 1 && step < every && (step <= FIRST || (step & (step - 1)) == 0)));
}

static const struct copse_audit_range *range_of(const struct copse_audit *a, uint32_t r,
                                                size_t variable)
{
    return &a->ranges[r * a->count + variable];
}

static copse_status audit_digest(struct copse_audit *a, uint32_t r, enum row row, uint32_t i,
                                 const struct copse_binding *range)
{
    return range->buffer ? copse__digest_queue(&a->digests[r], row, i, range) : COPSE_OK;
}

copse_status copse__audit_begin(struct copse_audit *a, uint32_t r, bool has)
{
    a->has[r] = has;
    for (uint32_t i = 0; a->compares_values && i < a->count; i++)
        COPSE_TRY(audit_digest(a, r, ROW_VALUES, i, &range_of(a, r, i)->values));
    return COPSE_OK;
}

copse_status copse__audit_gradients(struct copse_audit *a, uint32_t r, uint32_t bucket,
                                    bool is_second)
{
    for (uint32_t i = 0; a->has[r] && i < a->count; i++)
        if (a->variables[i].bucket == bucket)
            COPSE_TRY(audit_digest(a, r, is_second ? ROW_SECOND : ROW_FIRST, i,
                                   &range_of(a, r, i)->gradient));
    return COPSE_OK;
}

copse_status copse__audit_poison(const struct copse_audit *a, uint32_t r, copse_queue *queue)
{
    const uint32_t nan = 0x7fc00000u;
    for (uint32_t i = 0; a->has[r] && i < a->count; i++) {
        const struct copse_binding *at = &range_of(a, r, i)->gradient;
        if (at->buffer)
            COPSE_TRY(copse_queue_fill(queue, at->buffer, at->offset, at->size, nan));
    }
    return COPSE_OK;
}

copse_status copse__audit_read(struct copse_audit *a, uint32_t r, uint64_t step)
{
    a->step = step;
    return copse__digests_read(&a->digests[r]);
}

/* ---- comparing ---- */

static const char *device_of(const struct copse_audit *a, uint32_t r)
{
    return a->digests[r].queue->dev->info.id;
}

static copse_status two_gradients(const struct copse_audit *a, uint64_t step, uint32_t r,
                                  const char *variable)
{
    return copse_fail(
        COPSE_ERR_UNRELIABLE,
        "trainer: audit of step %llu: %s computed the gradient of '%s' twice from the same inputs, "
        "with "
        "different results. The device or its driver makes errors; do not use the parameters. "
        "Check it: copse conformance --device %s",
        (unsigned long long)step, device_of(a, r), variable, device_of(a, r));
}

static copse_status two_values(const struct copse_audit *a, uint64_t step, uint32_t r, size_t i)
{
    return copse_fail(
        COPSE_ERR_UNRELIABLE,
        "trainer: audit of step %llu: replica 0 (%s) and replica %u (%s) have different values of "
        "'%s' "
        "before the step. A device or its driver makes errors; do not use the parameters. Check "
        "both: copse conformance --device %s,%s",
        (unsigned long long)step, device_of(a, 0), r, device_of(a, r), a->variables[i].name,
        device_of(a, 0), device_of(a, r));
}

const char *copse__audit_repeated(const struct copse_audit *a, uint32_t r)
{
    for (uint32_t i = 0; a->has[r] && i < a->count; i++)
        if (!copse__digest_equal(&a->digests[r], ROW_FIRST, &a->digests[r], ROW_SECOND, i))
            return a->variables[i].name;
    return NULL;
}

static copse_status audit_compare(const struct copse_audit *a, uint64_t step)
{
    for (uint32_t r = 0; r < a->replicas; r++) {
        const char *variable = copse__audit_repeated(a, r);
        if (variable)
            return two_gradients(a, step, r, variable);
    }
    for (uint32_t r = 1; a->compares_values && r < a->replicas; r++)
        for (uint32_t i = 0; i < a->count; i++)
            if (!copse__digest_equal(&a->digests[0], ROW_VALUES, &a->digests[r], ROW_VALUES, i))
                return two_values(a, step, r, i);
    return COPSE_OK;
}

copse_status copse__audit_compare(struct copse_audit *a, uint64_t step)
{
    if (a->step == 0 || a->step != step)
        return COPSE_OK;
    a->step = 0;
    a->compared = step;
    const copse_status s = audit_compare(a, step);
    a->has_failed = s != COPSE_OK;
    a->passed += s == COPSE_OK;
    return s;
}

/* ---- between workers ---- */

void copse__audit_words(const struct copse_audit *a, uint64_t step,
                        uint64_t words[COPSE_AUDIT_WORDS])
{
    memset(words, 0, COPSE_AUDIT_WORDS * sizeof *words);
    if (!a->compares_values || a->compared == 0 || a->compared != step)
        return;
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t *word = &words[i % COPSE_AUDIT_WORDS];
        *word = copse__digest_hash(&a->digests[0], ROW_VALUES, i, *word ? *word : COPSE_HASH_START);
    }
}

copse_status copse__audit_other(struct copse_audit *a, uint64_t step, uint32_t worker,
                                const uint64_t own[COPSE_AUDIT_WORDS],
                                const uint64_t words[COPSE_AUDIT_WORDS])
{
    for (uint32_t i = 0; i < COPSE_MIN(a->count, COPSE_AUDIT_WORDS); i++) {
        if (own[i] == words[i] || own[i] == 0 || words[i] == 0)
            continue;
        a->has_failed = true;
        return copse_fail(COPSE_ERR_UNRELIABLE,
                          "trainer: audit of step %llu: this worker (%s) and worker %u have "
                          "different values of '%s'%s "
                          "before the step. A device or its driver makes errors; do not use the "
                          "parameters. Check the "
                          "devices of both: copse conformance --device %s",
                          (unsigned long long)step, device_of(a, 0), worker, a->variables[i].name,
                          a->count > COPSE_AUDIT_WORDS ? " or another variable" : "",
                          device_of(a, 0));
    }
    return COPSE_OK;
}
