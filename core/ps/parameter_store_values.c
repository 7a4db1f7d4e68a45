/* SPDX-License-Identifier: MIT */
/* Variables of a parameter store by id and by name, and reads of their values into its staging
   memory. */
#include "core/ps/parameter_store.h"

copse_status copse__pstore_find(struct copse_pstore *s, uint32_t id,
                                struct copse_pstore_variable **out)
{
    *out = NULL;
    if (id >= s->variables.count)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: there is no variable %u of %zu",
                          id, s->variables.count);
    *out = &s->variables.at[id];
    return COPSE_OK;
}

uint32_t copse__pstore_named(const struct copse_pstore *s, const char *name)
{
    for (size_t i = 0; i < s->variables.count; i++)
        if (strcmp(s->variables.at[i].name, name) == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

copse_status copse__pstore_reserve_staging(struct copse_pstore *s, size_t bytes)
{
    struct copse_mem *mem = &s->ctx->base.mem;
    if (s->is_stuck)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "parameter server: %s does not answer",
                          s->dev->info.id);
    if (bytes <= s->staging_bytes)
        return COPSE_OK;
    copse__free(mem, s->staging);
    s->staging_bytes = 0;
    s->staging = copse__alloc(mem, bytes, 1);
    if (!s->staging)
        return copse_no_memory("parameter server");
    s->staging_bytes = bytes;
    return COPSE_OK;
}

copse_status copse__pstore_wait_reads(struct copse_pstore *s)
{
    const copse_status status = copse_queue_finish(s->queue);
    s->is_stuck |= status == COPSE_ERR_TIMEOUT;
    return status;
}

copse_status copse__pstore_snapshot(struct copse_pstore *s, const uint32_t *ids, uint32_t count,
                                    const void **values)
{
    struct copse_pstore_variable *v;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse__pstore_find(s, ids[i], &v));
        if (!copse__add(bytes, (size_t)v->count * COPSE_WORD_BYTES, &bytes))
            return copse_no_memory("parameter server");
    }
    *values = s->staging;
    if (bytes == 0)
        return COPSE_OK;
    COPSE_TRY(copse__pstore_reserve_staging(s, bytes));
    bytes = 0;
    copse_status status = COPSE_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        v = &s->variables.at[ids[i]];
        status = copse_queue_read(s->queue, v->values, 0, (char *)s->staging + bytes,
                                  (size_t)v->count * COPSE_WORD_BYTES);
        bytes += (size_t)v->count * COPSE_WORD_BYTES;
    }
    /* after a failure, too: queued reads use the memory */
    const copse_status staged = copse__pstore_wait_reads(s);
    *values = s->staging;
    return status ? status : staged;
}
