/* SPDX-License-Identifier: MIT */
/* A parameter store: creation, release, variables and their values. Queues are in order: a read of
   a variable sees every update that was queued before, so only reads wait. */
#include <stdio.h>

#include "core/ps/parameter_store.h"

static struct copse_mem *mem_of(struct copse_pstore *s)
{
    return &s->ctx->base.mem;
}

static struct copse_pstore *pstore_of(struct copse_server *s)
{
    return (struct copse_pstore *)(void *)s;
}

/* ---- life ---- */

static void free_variable(struct copse_pstore *s, struct copse_pstore_variable *v)
{
    copse__free(mem_of(s), v->name);
    copse_buffer_release(&v->values);
    copse_buffer_release(&v->gradient);
}

void copse__pstore_release(struct copse_pstore **at)
{
    struct copse_pstore *s = *at;
    if (!s)
        return;
    *at = NULL;
    copse_context *ctx = s->ctx;
    if (s->queue && copse_queue_finish(s->queue) == COPSE_ERR_TIMEOUT)
        s->is_stuck = true;
    for (size_t i = 0; i < s->groups.count; i++)
        copse__pstore_do_drop(&s->server, (uint32_t)i);
    for (size_t i = 0; i < s->variables.count; i++)
        free_variable(s, &s->variables.at[i]);
    copse__free(mem_of(s), s->groups.at);
    copse__free(mem_of(s), s->variables.at);
    if (!s->is_stuck)
        copse__free(mem_of(s), s->staging);
    copse_buffer_release(&s->step);
    copse_queue_release(&s->queue);
    copse_device_release(&s->dev);
    copse__free(mem_of(s), s);
    copse_context_release(&ctx);
}

static copse_status open_device(struct copse_pstore *s, const char *device)
{
    COPSE_TRY(copse_device_open(s->ctx, device, NULL, &s->dev));
    COPSE_TRY(copse__device_refuse_unreliable(s->dev));
    COPSE_TRY(copse_queue_create(s->dev, &s->queue));
    return copse_buffer_create(
        s->dev, &(struct copse_buffer_params){ .size = COPSE_WORD_BYTES * COPSE_STEP_WORDS },
        &s->step);
}

copse_status copse__pstore_create(copse_context *ctx, const char *device, struct copse_pstore **out)
{
    *out = NULL;
    struct copse_pstore *s = copse__alloc(&ctx->base.mem, 1, sizeof *s);
    if (!s)
        return copse_no_memory("parameter server");
    s->ctx = copse_context_retain(ctx);
    s->server = (struct copse_server){ &copse__pstore_table, ctx };
    const copse_status status = open_device(s, device);
    if (status) {
        copse__pstore_release(&s);
        return copse_note(status, "while opening the parameter device %s", device);
    }
    *out = s;
    return COPSE_OK;
}

copse_status copse__server_local(copse_context *ctx, const char *device, struct copse_server **out)
{
    struct copse_pstore *s;
    *out = NULL;
    COPSE_TRY(copse__pstore_create(ctx, device, &s));
    *out = &s->server;
    return COPSE_OK;
}

static void pstore_leave(struct copse_server *server)
{
    struct copse_pstore *s = pstore_of(server);
    copse__pstore_release(&s);
}

void copse__server_release(struct copse_server **at)
{
    if (*at)
        (*at)->table->leave(*at);
    *at = NULL;
}

/* ---- values ---- */

static copse_status write_values(struct copse_pstore *s, struct copse_pstore_variable *v,
                                 const void *values)
{
    COPSE_TRY(
        copse_queue_write(s->queue, v->values, 0, values, (size_t)v->count * COPSE_WORD_BYTES));
    v->version++;
    return copse_queue_submit(s->queue, &(uint64_t){ 0 });
}

static copse_status check_same(const struct copse_pstore_variable *v,
                               const struct copse_server_variable *as)
{
    char mine[96], theirs[96];
    if (v->type == as->type && copse__shape_equal(v->shape, as->shape))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE,
                      "variable '%s': the parameter server has it as %s %s, not as %s %s", v->name,
                      v->type == COPSE_I32 ? "i32" : "f32", copse__shape_text(v->shape, mine),
                      as->type == COPSE_I32 ? "i32" : "f32", copse__shape_text(as->shape, theirs));
}

static copse_status fill_variable(struct copse_pstore *s, struct copse_pstore_variable *v,
                                  const struct copse_server_variable *as)
{
    v->name = copse__strdup(mem_of(s), as->name);
    if (!v->name)
        return copse_no_memory("parameter server");
    v->type = as->type;
    v->shape = as->shape;
    v->count = copse__elements(as->shape);
    COPSE_TRY(copse_buffer_create(
        s->dev, &(struct copse_buffer_params){ .size = (size_t)v->count * COPSE_WORD_BYTES },
        &v->values));
    return write_values(s, v, as->values);
}

static copse_status pstore_make(struct copse_server *server, const struct copse_server_variable *as,
                                uint32_t *id)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_variable v = { .name = NULL };
    *id = copse__pstore_named(s, as->name);
    if (*id != UINT32_MAX)
        return check_same(&s->variables.at[*id], as);
    if (!as->may_begin)
        return COPSE_ERR_TIMEOUT; /* no worker has set its values yet */
    copse_status status = fill_variable(s, &v, as);
    if (!status && !COPSE_PUSH(mem_of(s), &s->variables, v))
        status = copse_no_memory("parameter server");
    if (status)
        free_variable(s, &v);
    *id = (uint32_t)s->variables.count - 1;
    return copse_note(status, "while making variable '%s' on the parameter server", as->name);
}

static copse_status pstore_read(struct copse_server *server, uint32_t id, void *values)
{
    struct copse_pstore *s = pstore_of(server);
    const void *staged;
    COPSE_TRY(copse__pstore_snapshot(s, &id, 1, &staged));
    memcpy(values, staged, (size_t)s->variables.at[id].count * COPSE_WORD_BYTES);
    return COPSE_OK;
}

static copse_status pstore_pull(struct copse_server *server, const uint32_t *ids, uint32_t count,
                                uint64_t *seen, void *const *values)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_variable *v;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse__pstore_find(s, ids[i], &v));
        if (v->version != seen[i] &&
            !copse__add(bytes, (size_t)v->count * COPSE_WORD_BYTES, &bytes))
            return copse_no_memory("parameter server");
    }
    if (bytes == 0)
        return COPSE_OK;
    COPSE_TRY(copse__pstore_reserve_staging(s, bytes));
    char *at = s->staging;
    copse_status status = COPSE_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        v = &s->variables.at[ids[i]];
        if (v->version == seen[i])
            continue;
        status = copse_queue_read(s->queue, v->values, 0, at, (size_t)v->count * COPSE_WORD_BYTES);
        at += v->count * COPSE_WORD_BYTES;
    }
    const copse_status staged = copse__pstore_wait_reads(s);
    COPSE_TRY(status);
    COPSE_TRY(staged);
    at = s->staging;
    for (uint32_t i = 0; i < count; i++) {
        v = &s->variables.at[ids[i]];
        if (v->version == seen[i])
            continue;
        memcpy(values[i], at, (size_t)v->count * COPSE_WORD_BYTES);
        at += v->count * COPSE_WORD_BYTES;
        seen[i] = v->version;
    }
    return COPSE_OK;
}

static copse_status pstore_change(struct copse_server *server, uint32_t id, enum copse_change how,
                                  uint64_t count, const void *values)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_variable *v;
    const void *now = values;
    (void)count;
    COPSE_TRY(copse__pstore_find(s, id, &v));
    if (how != COPSE_CHANGE_SET) {
        COPSE_TRY(copse__pstore_snapshot(s, &id, 1, &now));
        copse__change_apply(how, v->type, v->count, s->staging, values);
    }
    return write_values(s, v, now);
}

static copse_status check_rows(const struct copse_pstore_variable *v, const struct copse_rows *rows)
{
    const uint32_t all = v->shape.rank > 0 ? v->shape.dims[0] : 0;
    if (v->type != COPSE_F32 || (uint64_t)all * rows->row != v->count)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: '%s' has other rows", v->name);
    for (uint32_t k = 0; k < rows->count; k++)
        if (rows->indices[k] < 0 || (uint32_t)rows->indices[k] >= all)
            return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: '%s' has no row %d of %u",
                              v->name, (int)rows->indices[k], all);
    return COPSE_OK;
}

static copse_status pstore_scatter(struct copse_server *server, uint32_t id, enum copse_change how,
                                   const struct copse_rows *rows)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_variable *v;
    const void *now;
    COPSE_TRY(copse__pstore_find(s, id, &v));
    COPSE_TRY(check_rows(v, rows));
    if (rows->count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__pstore_snapshot(s, &id, 1, &now));
    copse__change_rows(how, rows->row, rows->count, rows->indices, rows->values, s->staging);
    return write_values(s, v, now);
}

/* ---- all of it ---- */

static copse_status pstore_counter(struct copse_server *server, bool is_set, uint64_t *value)
{
    struct copse_pstore *s = pstore_of(server);
    s->counter = is_set ? *value : s->counter + *value;
    *value = s->counter;
    return COPSE_OK;
}

const struct copse_server_table copse__pstore_table = {
    .make = pstore_make,
    .pull = pstore_pull,
    .read = pstore_read,
    .change = pstore_change,
    .scatter = pstore_scatter,
    .group = copse__pstore_do_group,
    .drop = copse__pstore_do_drop,
    .push = copse__pstore_do_push,
    .updates = copse__pstore_do_updates,
    .slot = copse__pstore_do_slot,
    .snapshot = copse__pstore_do_snapshot,
    .progress = copse__pstore_do_progress,
    .counter = pstore_counter,
    .leave = pstore_leave,
};
