/* SPDX-License-Identifier: MIT */
/* What a variable holds on each replica: in the store when it is trained, else in memory of its
   own. */
#include <stdio.h>

#include "core/variable/storage.h"

/* Its memory on the replica; whatever a server has. */
static copse_status write_there(copse_variable *v, uint32_t replica, const void *values)
{
    const struct copse_binding at = copse__variable_values(v, replica);
    copse_queue *q = v->strategy->replicas[replica].queue;
    COPSE_TRY(copse_queue_write(q, at.buffer, at.offset, values, copse__variable_bytes(v)));
    return copse_note(copse_queue_finish(q), "while writing variable '%s'", v->name);
}

copse_status copse__components_make(copse_variable *v, const void *initial)
{
    copse_strategy *st = v->strategy;
    v->components = copse__alloc(&st->ctx->base.mem, st->replica_count, sizeof *v->components);
    COPSE_TRY(copse_need_memory(v->components, "variable '%s'", v->name));
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_buffer_params params = { .size = copse__variable_bytes(v) };
        copse_status s = copse_buffer_create(st->replicas[r].dev, &params, &v->components[r]);
        if (s == COPSE_OK)
            s = write_there(v, r, initial);
        if (s != COPSE_OK)
            return copse_note(s, "while making variable '%s' on replica %u", v->name, r);
    }
    return COPSE_OK;
}

void copse__components_share(copse_variable *v)
{
    const copse_strategy *st = v->strategy;
    for (uint32_t r = 1; v->components && r < st->replica_count; r++) {
        uint32_t first = 0;
        while (st->replicas[first].dev != st->replicas[r].dev)
            first++;
        if (first == r || v->components[first] == v->components[r])
            continue;
        copse_buffer_release(&v->components[r]);
        v->components[r] = copse_buffer_retain(v->components[first]);
    }
}

void copse__variable_retire(copse_variable *v)
{
    copse_context *ctx = v->strategy->ctx;
    struct copse_mem *mem = &ctx->base.mem;
    snprintf(v->last_name, sizeof v->last_name, "%s", v->name ? v->name : "");
    for (uint32_t r = 0; v->components && r < v->strategy->replica_count; r++)
        copse_buffer_release(&v->components[r]);
    copse__free(mem, v->components);
    copse__free(mem, v->initial);
    copse__free(mem, v->name);
    if (v->part == 0)
        copse__free(mem, (void *)(uintptr_t)v->whole);
    v->components = NULL;
    v->initial = NULL;
    v->whole = NULL;
    v->accumulator = NULL;
    v->name = v->last_name;
    v->tensor.name = v->last_name;
    v->tensor.op = &copse_op_released;
    v->strategy = NULL;
    copse__mutex_lock(&ctx->lock);
    copse__handle_give(&ctx->variables, v);
    copse__mutex_unlock(&ctx->lock);
}

bool copse__variable_is(copse_context *ctx, const copse_variable *v)
{
    copse__mutex_lock(&ctx->lock);
    const bool is = copse__handle_is(&ctx->variables, sizeof *v, v);
    copse__mutex_unlock(&ctx->lock);
    return is;
}

copse_status copse__variable_check(const copse_variable *v, const char *what)
{
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: no variable, it is NULL", what);
    if (!v->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: variable '%s' was released with its strategy or model", what,
                          v->name);
    return copse__strategy_settle(v->strategy);
}

copse_status copse__variable_of(const copse_variable *v, const copse_strategy *st, const char *what)
{
    if (v && !copse__variable_is(st->ctx, v))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: a variable is none: does the list have as many as were counted?",
                          what);
    COPSE_TRY(copse__variable_check(v, what));
    if (v->strategy != st)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: variable '%s' belongs to another strategy", what,
                          v->name);
    return COPSE_OK;
}

/* ---- values on the replicas ---- */

static copse_status component_read(copse_variable *v, uint32_t replica, void *values)
{
    if (v->initial) {
        memcpy(values, v->initial, copse__variable_bytes(v));
        return COPSE_OK;
    }
    const struct copse_binding at = copse__variable_values(v, replica);
    copse_queue *q = v->strategy->replicas[replica].queue;
    COPSE_TRY(copse_queue_read(q, at.buffer, at.offset, values, copse__variable_bytes(v)));
    return copse_note(copse_queue_finish(q), "while reading variable '%s'", v->name);
}

static copse_status read_block(copse_variable *v, uint32_t replica, struct copse_block *to)
{
    if (v->initial)
        return copse__block_write(to, v->initial);
    const struct copse_binding at = copse__variable_values(v, replica);
    return copse_queue_copy(v->strategy->replicas[replica].queue, at.buffer, at.offset, to->buffer,
                            0, copse__variable_bytes(v));
}

static copse_status component_set(copse_variable *v, uint32_t replica, const void *values)
{
    if (v->initial) /* components begin to differ: they need memory */
        COPSE_TRY(copse__store_build(v->strategy));
    return write_there(v, replica, values);
}

/* Read the component, change it on the host by values or by rows, write it. */
static copse_status component_rewrite(copse_variable *v, uint32_t replica, enum copse_change how,
                                      const void *by, const struct copse_rows *rows)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    void *now = copse__alloc(mem, (size_t)v->count, 4);
    copse_status s =
        now ? component_read(v, replica, now) : copse_no_memory("variable '%s'", v->name);
    if (s) {
        copse__free_read(mem, now, s);
        return s;
    }
    if (rows)
        copse__change_rows(how, rows->row, rows->count, rows->indices, rows->values, now);
    else
        copse__change_apply(how, v->tensor.type, v->count, now, by);
    s = component_set(v, replica, now);
    copse__free(mem, now);
    return s;
}

static copse_status component_change(copse_variable *v, uint32_t replica, enum copse_change how,
                                     const void *by)
{
    if (how == COPSE_CHANGE_SET)
        return component_set(v, replica, by);
    return component_rewrite(v, replica, how, by, NULL);
}

static copse_status component_scatter(copse_variable *v, uint32_t replica, enum copse_change how,
                                      const struct copse_rows *rows)
{
    return rows->count > 0 ? component_rewrite(v, replica, how, NULL, rows) : COPSE_OK;
}

static copse_status component_assign(copse_variable *v, const void *values)
{
    if (v->initial) {
        memcpy(v->initial, values, copse__variable_bytes(v));
        return COPSE_OK;
    }
    for (uint32_t r = 0; r < v->strategy->replica_count; r++)
        COPSE_TRY(component_set(v, r, values));
    return COPSE_OK;
}

static struct copse_binding component_target(const copse_variable *v, uint32_t replica)
{
    return v->initial ? (struct copse_binding){ .buffer = NULL }
                      : copse__variable_values(v, replica);
}

static const struct copse_storage_table table = {
    .read = component_read,
    .read_block = read_block,
    .change = component_change,
    .scatter = component_scatter,
    .assign = component_assign,
    .target = component_target,
};

struct copse_storage copse__on_replicas = { .table = &table };

/* ---- sums over replicas ---- */

/* Component `rank` of `total`: those of all workers add up to it, integers exactly: the first ones
   take the remainder. */
static void take_part(const copse_variable *v, uint32_t rank, const void *total, void *part)
{
    const int32_t count = (int32_t)v->strategy->group.ranks;
    for (uint64_t i = 0; i < v->count; i++)
        if (v->tensor.type == COPSE_I32) {
            const int32_t x = ((const int32_t *)total)[i];
            const int32_t left = x % count, extra = left < 0 ? -left : left;
            ((int32_t *)part)[i] = x / count + ((int32_t)rank < extra ? (left < 0 ? -1 : 1) : 0);
        } else {
            ((float *)part)[i] = ((const float *)total)[i] / (float)count;
        }
}

copse_status copse__components_set_sum(copse_variable *v, const void *total)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    void *part = copse__alloc(mem, (size_t)v->count, 4);
    copse_status s = copse_need_memory(part, "variable '%s'", v->name);
    for (uint32_t r = 0; r < v->strategy->replica_count && s == COPSE_OK; r++) {
        take_part(v, v->strategy->group.first + r, total, part);
        s = copse__storage(v)->change(v, r, COPSE_CHANGE_SET, part);
    }
    copse__free(mem, part);
    return s;
}

/* ---- public ---- */

copse_status copse_variable_read(copse_variable *v, uint32_t replica, void *values)
{
    COPSE_TRY(copse__variable_check(v, "copse_variable_read"));
    COPSE_TRY(copse_need("variable", values));
    if (replica >= v->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': there is no replica %u of %u",
                          v->name, replica, v->strategy->replica_count);
    return copse__storage(v)->read(v, replica, values);
}

copse_status copse_variable_assign(copse_variable *v, const void *values)
{
    COPSE_TRY(copse__variable_check(v, "copse_variable_assign"));
    COPSE_TRY(copse_need("variable", values));
    COPSE_TRY(copse__callback_check("copse_variable_assign", v->strategy));
    return copse__storage(v)->assign(v, values);
}
