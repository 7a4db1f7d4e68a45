/* SPDX-License-Identifier: MIT */
/* The cross-check of an optimizer on a parameter store: before its first update the launches are
   compared with the host, with made-up numbers, and the memory is restored. */
#include "core/check/check.h"
#include "core/ps/parameter_store.h"

struct store_check {
    struct copse_check base;
    const struct copse_pstore *store;
    const struct copse_pstore_group *group;
};

/* The variable of the group whose memory the buffer is. */
static const char *name_of(const struct store_check *k, const copse_buffer *buffer)
{
    const struct copse_pstore_group *g = k->group;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct copse_pstore_variable *v = &k->store->variables.at[g->ids[i]];
        if (buffer == v->values || buffer == v->gradient || (g->slots && buffer == g->slots[i]))
            return v->name;
    }
    return "?";
}

static copse_status fail_launch(const struct store_check *k)
{
    const struct copse_probe_fault *f = &k->base.chain.fault;
    const struct copse_device_info *info = &k->store->dev->info;
    char numbers[COPSE_FAULT_NUMBERS];
    return copse_fail(
        COPSE_ERR_UNRELIABLE,
        "parameter server: cross-check: %s (driver %.32s) updates '%.48s' wrong: kernel %s returns "
        "%s. "
        "Use another parameter device, or check this one: copse conformance --device %s",
        info->id, info->driver, name_of(k, f->result.buffer),
        copse__command_name(&k->base.chain.probe.command), copse__fault_numbers(f, numbers),
        info->id);
}

static copse_status parameter_store_check_run(void *user)
{
    struct store_check *k = user;
    COPSE_TRY(copse__check_update(&k->base, k->group->update));
    if (k->group->trust.measure && !k->base.chain.fault.is_found)
        COPSE_TRY(copse__check_update(&k->base, k->group->trust.measure));
    return k->base.chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

copse_status copse__pstore_check(struct copse_pstore *s, struct copse_pstore_group *g)
{
    struct store_check k = { .base = { .queue = s->queue }, .store = s, .group = g };
    if (g->is_torn)
        return copse_fail(COPSE_ERR_UNRELIABLE,
                          "parameter server: %s failed in a cross-check; its variables are lost",
                          s->dev->info.id);
    if (g->is_checked || !copse__check_needs(s->queue))
        return COPSE_OK;
    copse__check_hash(&k.base, g->update);
    copse__check_hash(&k.base, g->trust.measure);
    const copse_status status = copse__check_once(&k.base, "the update of a parameter server",
                                                  parameter_store_check_run, &k);
    g->is_torn = k.base.chain.is_torn;
    g->is_checked = status == COPSE_OK;
    return status;
}
