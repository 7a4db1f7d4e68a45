/* SPDX-License-Identifier: MIT */
/* What a variable holds on each replica: in the store when it is trained, else in memory of its own. */
#include <stdio.h>

#include "core/replica/servers.h"

static size_t bytes_of(const copse_variable *v)
{
    return (size_t)v->count * 4;
}

/* Its memory on the replica; whatever a server has. */
static copse_status write_there(copse_variable *v, uint32_t replica, const void *values)
{
    const struct copse_binding at = copse__variable_values(v, replica);
    copse_queue *q = v->strategy->replicas[replica].queue;
    COPSE_TRY(copse_queue_write(q, at.buffer, at.offset, values, bytes_of(v)));
    return copse_note(copse_queue_finish(q), "while writing variable '%s'", v->name);
}

copse_status copse__components_make(copse_variable *v, const void *initial)
{
    copse_strategy *st = v->strategy;
    v->components = copse__alloc(&st->ctx->base.mem, st->replica_count, sizeof *v->components);
    if (!v->components)
        return copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", v->name);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_buffer_params params = { .size = bytes_of(v) };
        copse_status s = copse_buffer_create(st->replicas[r].dev, &params, &v->components[r]);
        if (s == COPSE_OK)
            s = write_there(v, r, initial);
        if (s != COPSE_OK)
            return copse_note(s, "while making variable '%s' on replica %u", v->name, r);
    }
    return COPSE_OK;
}

void copse__variable_free(copse_variable *v)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    for (uint32_t r = 0; v->components && r < v->strategy->replica_count; r++)
        copse_buffer_release(&v->components[r]);
    copse__free(mem, v->components);
    copse__free(mem, v->initial);
    copse__free(mem, v->name);
    if (v->part == 0)
        copse__free(mem, (void *)(uintptr_t)v->whole);
    copse__free(mem, v);
}

copse_status copse__component_write(copse_variable *v, uint32_t replica, const void *values)
{
    if (v->strategy->servers)
        return copse__servers_change(v, COPSE_CHANGE_SET, values);
    if (v->initial) /* components begin to differ: they need places */
        COPSE_TRY(copse__store_build(v->strategy));
    return write_there(v, replica, values);
}

copse_status copse_variable_read(copse_variable *v, uint32_t replica, void *values)
{
    COPSE_TRY(copse_need("variable", v, values));
    if (replica >= v->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': there is no replica %u of %u", v->name, replica,
                          v->strategy->replica_count);
    if (v->strategy->servers)
        return copse__servers_read(v, values);
    if (v->initial) {
        memcpy(values, v->initial, bytes_of(v));
        return COPSE_OK;
    }
    const struct copse_binding at = copse__variable_values(v, replica);
    copse_queue *q = v->strategy->replicas[replica].queue;
    COPSE_TRY(copse_queue_read(q, at.buffer, at.offset, values, bytes_of(v)));
    return copse_note(copse_queue_finish(q), "while reading variable '%s'", v->name);
}

copse_status copse_variable_assign(copse_variable *v, const void *values)
{
    COPSE_TRY(copse_need("variable", v, values));
    if (v->strategy->servers)
        return copse__servers_change(v, COPSE_CHANGE_SET, values);
    if (v->initial) {
        memcpy(v->initial, values, bytes_of(v));
        return COPSE_OK;
    }
    for (uint32_t r = 0; r < v->strategy->replica_count; r++)
        COPSE_TRY(copse__component_write(v, r, values));
    return COPSE_OK;
}
